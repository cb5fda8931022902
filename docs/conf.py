"""The documentation site: ``make docs`` builds it without network into docs/_build/html."""

from __future__ import annotations

import sys
from pathlib import Path

import kernelgpa

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "kernelgpa"
author = "The kernelgpa developers"
copyright = author  # noqa: A001 (the name that Sphinx reads)
release = version = kernelgpa.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "site_pages",
    "gallery_figures",
]
exclude_patterns = ["_build", "_ext", "gallery", "auto_gallery/*.py", "auto_gallery/*.ipynb"]

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 6

autosummary_generate = True
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator,Exception,UserWarning,ValueError,RuntimeError,object",
    "exclude-members": "get_metadata_routing,set_fit_request,set_transform_request,"
    "set_inverse_transform_request,set_predict_request",
    "member-order": "bysource",
}
autodoc_typehints = "none"  # numpydoc's sections give the types
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "image_scrapers": ("gallery_figures",),
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_figures.measure",),
    "reset_modules_order": "both",
    "capture_repr": (),  # only what an example prints
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # its page would load scripts from the network
    "abort_on_example_error": True,
}

toc_object_entries_show_parents = "hide"  # whole names do not fit beside the page
html_theme = "pydata_sphinx_theme"
html_title = f"kernelgpa {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}

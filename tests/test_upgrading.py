"""The old names of docs/upgrading.md are gone, so that old code fails at once, and the new ones exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

import kernelgpa

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "upgrading.md").read_text(encoding="utf-8")
STAYS, MODULES = re.search(
    r"\nModules moved into packages\.(.*?):\n(.*?)\n\n(\|.*?)\n\n", PAGE + "\n\n", re.DOTALL
).group(2, 3)
ROWS = [row.strip("|").split(" | ") for row in MODULES.splitlines()[2:]]


def modules(cell):
    return re.findall(r"kernelgpa(?:\.\w+)+", cell)


@pytest.mark.parametrize("module", [module for old, _ in ROWS for module in modules(old)])
def test_an_old_module_cannot_be_imported(module):
    with pytest.raises(ModuleNotFoundError):
        import_module(module)


@pytest.mark.parametrize("name", [name for _, new in ROWS for name in modules(new)])
def test_a_new_name_exists(name):
    resolve_name(name)


@pytest.mark.parametrize("name", re.findall(r"`(\w+)`", STAYS))
def test_what_stays_can_be_imported_from_the_package(name):
    getattr(kernelgpa, name)

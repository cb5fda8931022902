"""The docstrings of public classes list every public attribute and show an example; all examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

import pytest

import kernelgpa
from kernelgpa import distributed, io, kernels, report, selection, shape, simulate, streaming
from kernelgpa.estimators.automatic import AutomaticChoice
from kernelgpa.gauge.certificate import Certificate
from kernelgpa.observations import Cloud
from kernelgpa.shape.model import ObservationResidual
from kernelgpa.shape.results import ExpectedError
from kernelgpa.shape.statistics import ProcrustesStatistics
from kernelgpa.spectrum.eigenpairs import Spectrum


def is_public_class(one):
    return inspect.isclass(one) and one.__module__.startswith("kernelgpa") and not issubclass(one, Exception)


def classes_of(module):
    """The public classes that a module offers: those in its list, or those that it defines."""
    named = [getattr(module, name) for name in getattr(module, "__all__", ())]
    defined = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    return [one for one in named or defined if is_public_class(one) and not one.__name__.startswith("_")]


IMPORTED = classes_of(kernelgpa)
MODULES = (distributed, io, kernels, report, selection, shape, simulate, streaming)
# what users meet as results of these classes
RESULTS = [AutomaticChoice, Certificate, Cloud, ExpectedError, ObservationResidual, ProcrustesStatistics, Spectrum]
CLASSES = list(dict.fromkeys([*IMPORTED, *(one for module in MODULES for one in classes_of(module)), *RESULTS]))
PARAMETERS_AND_ATTRIBUTES = re.compile(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.M | re.S)

PACKAGE = Path(kernelgpa.__file__).parent
EXAMPLES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if re.search(r"^ +>>> ", path.read_text(encoding="utf-8"), re.M)
)


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_in_docstrings_run(module):
    failed, tried = doctest.testmod(import_module(f"kernelgpa.{module}"))
    assert tried > 0
    assert failed == 0


def own_bases(one):
    return [base for base in one.__mro__ if base.__module__.startswith("kernelgpa")]


def attributes_of(one):
    """Fields, properties and fitted attributes, without those that begin with an underscore."""
    names = [field.name for field in fields(one)] if is_dataclass(one) else list(getattr(one, "_fields", ()))
    for base in own_bases(one):
        names += [name for name, value in vars(base).items() if isinstance(value, property | cached_property)]
        names += [name for name in inspect.get_annotations(base) if name.endswith("_")]
    return {name for name in names if not name.startswith("_")}


def listed_in(one):
    """Names in the sections of parameters and attributes of a class and its bases, with their types."""
    found = {}
    for base in reversed(own_bases(one)):
        for section in PARAMETERS_AND_ATTRIBUTES.findall(inspect.cleandoc(base.__doc__ or "")):
            for names, kind in re.findall(r"^([\w*, ]+?) : (\S.*)$", section, re.M):
                found |= dict.fromkeys(names.split(", "), kind)
    return found


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: one.__name__)
def test_the_docstring_lists_every_attribute(one):
    assert attributes_of(one) - set(listed_in(one)) == set()


@pytest.mark.parametrize("one", [one for one in CLASSES if one in IMPORTED], ids=lambda one: one.__name__)
def test_the_docstring_has_an_example(one):
    assert "Examples\n--------\n>>> " in inspect.cleandoc(one.__doc__)


def test_the_lists_are_read_as_numpydoc_reads_them():
    assert listed_in(kernelgpa.RigidGPA)["translations_"] == "arrays (n, d, d), (n, d), (n,)"
    assert {"points", "expressions"} <= set(listed_in(simulate.Faces))
    assert {"settings", "at_edge"} <= attributes_of(selection.Tuning)

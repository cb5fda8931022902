"""How the source is written: its size, and one meaning per name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import kernelgpa

PACKAGE = Path(kernelgpa.__file__).parent
TESTS = Path(__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
FUNCTIONS = [
    (name, node)
    for name, tree in MODULES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
]
# one constant of the same meaning in each module of a package, and what it says about that module
CONVENTIONS = {
    "HOLDS": "io/",  # what a file format can hold
    "FULL": "experiments/",  # the plan of an experiment
    "QUICK": "experiments/",  # the same in a few minutes
    "PAPER_SETTINGS": "experiments/",  # the settings that the paper states for an experiment
    "MAX_ROTATION": "simulate/",  # of the poses of a scene
    "MAX_SHIFT": "simulate/",
}
EACH_EXPERIMENT = "Plan"  # the class of the plans FULL and QUICK


def constants_of(tree):
    """Names and values of the constants of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from named_values(target, node.value)


def named_values(target, value):
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    values = value.elts if len(names) > 1 and isinstance(value, ast.Tuple) else [value] * len(names)
    for name, one in zip(names, values, strict=True):
        if isinstance(name, ast.Name) and name.id.isupper():
            yield name.id, ast.unparse(one)


def definitions(modules):
    """For each constant, its values and the modules that define it so."""
    found = defaultdict(lambda: defaultdict(list))
    for module, tree in modules.items():
        for name, value in constants_of(tree):
            if not module.startswith(CONVENTIONS.get(name, "nowhere")):
                found[name][value].append(module)
    return found


def ambiguous(modules):
    return {name: dict(values) for name, values in definitions(modules).items() if len(values) > 1}


def test_no_constant_has_two_meanings():
    assert ambiguous(MODULES) == {}


def test_the_rule_sees_tuples_and_annotations():
    first, second = ast.parse("LIMIT, OTHER = 1, 2"), ast.parse("LIMIT: int = 3")
    assert ambiguous({"a.py": first, "b.py": second}) == {"LIMIT": {"1": ["a.py"], "3": ["b.py"]}}
    assert ambiguous({"a.py": first, "b.py": ast.parse("LIMIT = 1")}) == {}


def test_no_class_has_two_meanings():
    classes = defaultdict(list)
    for module, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(module)
    assert {name: found for name, found in classes.items() if len(found) > 1 and name != EACH_EXPERIMENT} == {}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_each_convention_is_used(name):
    users = [module for module, tree in MODULES.items() if name in dict(constants_of(tree))]
    assert len(users) > 1
    assert all(module.startswith(CONVENTIONS[name]) for module in users)


def test_no_module_has_more_than_400_lines():
    files = [*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py")]
    assert [path.name for path in files if len(path.read_text().splitlines()) > 400] == []


def test_no_function_has_more_than_40_lines():
    """Its signature counts, its docstring and decorators do not."""
    assert [(module, node.name, lines_of(node)) for module, node in FUNCTIONS if lines_of(node) > 40] == []


def lines_of(node):
    docstring = node.body[0] if ast.get_docstring(node) is not None else None
    documented = 0 if docstring is None else docstring.end_lineno - docstring.lineno + 1
    return node.end_lineno - node.lineno + 1 - documented


def test_lines_of_a_function_are_counted_without_its_docstring():
    (function,) = ast.parse('@decorated\ndef f(\n    x,\n):\n    """One\n\n    two."""\n    return x\n').body
    assert lines_of(function) == 4


def test_no_folder_has_too_many_entries():
    entries = {
        folder.relative_to(PACKAGE).as_posix(): len(
            [one for one in folder.iterdir() if one.suffix == ".py" or (one / "__init__.py").exists()]
        )
        - 1  # __init__
        for folder in (PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py")))
    }
    limits = {".": 20, "io": 100}  # io has one module per file format
    assert {name: count for name, count in entries.items() if count > limits.get(name, 12)} == {}

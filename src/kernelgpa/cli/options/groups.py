"""Options that several commands share, as records.

A parameter of a command whose type is one of these records adds one option per field of the record.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from inspect import Parameter
from typing import Any, get_type_hints

from ...io.landmark_file import ReadOptions
from .. import options
from ..settings import modes_of, number_or_word


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has the fields of its records as options."""
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {name: one.annotation for name, one in parameters.items() if is_dataclass(one.annotation)}

    @functools.wraps(command)
    def expanded(**values: Any) -> None:
        records = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **records)

    shown = [field for name, one in parameters.items() for field in _fields(groups.get(name)) or [one]]
    keywords = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in shown]
    expanded.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # typer reads it
    return expanded


def _fields(group: Any) -> list[Parameter]:
    """The fields of a record as parameters."""
    if group is None:
        return []
    types = get_type_hints(group, include_extras=True)
    return [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=types[one.name])
        for one in fields(group)
    ]


@dataclass(frozen=True)
class FileOptions:
    """How files are read."""

    missing: options.Missing = None
    negative_is_missing: options.NegativeIsMissing = False
    curves: options.Curves = False
    frames: options.Frames = None
    markers: options.Markers = None
    recursive: options.Recursive = False

    def given(self) -> dict[str, Any]:
        """The options that were given; None for the others."""
        return {name: value or None if value is False or value == [] else value for name, value in asdict(self).items()}

    def read_options(self) -> ReadOptions:
        return ReadOptions(**asdict(self) | {"markers": tuple(self.markers or ())})


@dataclass(frozen=True)
class MatchOptions(FileOptions):
    """How files are read, and how their landmarks are matched."""

    match: options.MatchRule = None
    label_pattern: options.LabelPattern = None
    merge: options.Merge = None


@dataclass(frozen=True)
class MethodOptions:
    """The method of a registration and its settings."""

    method: options.MethodName = None
    bandwidth: options.Bandwidth = None
    smoothing: options.Smoothing = None
    kernel: options.Kernel = None
    control_points: options.ControlPoints = None
    inducing: options.Inducing = None
    scaling: options.Scaling = None
    modes: options.Modes = None
    robust: options.Robust = None
    mirrored: options.Mirrored = None
    tune: options.Tune = None
    folds: options.Folds = None
    n_jobs: options.Jobs = None

    def given(self) -> dict[str, Any]:
        """The settings that were given, by their names in a settings file; None for the others."""
        values = asdict(self)
        method = values.pop("method")
        return {
            **values,
            "name": None if method is None else str(method),
            "bandwidth": number_or_word("bandwidth", self.bandwidth),
            "smoothing": number_or_word("smoothing", self.smoothing),
            "modes": modes_of(self.modes),
        }


@dataclass(frozen=True)
class ReportOptions:
    """What a result folder holds beside the registration."""

    metadata: options.Attributes = None
    links: options.Links = None
    procrustes: options.Procrustes = None
    unit: options.Unit = None
    title: options.Title = None

    def given(self) -> dict[str, Any]:
        """The settings that were given; None for the others."""
        tables = {"metadata": self.metadata, "links": self.links}
        return {**asdict(self), **{name: None if path is None else str(path) for name, path in tables.items()}}

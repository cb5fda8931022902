"""The settings of a registration: options given on the command line override a settings file, which overrides defaults.

A settings file is TOML with three sections, ``[input]``, ``[method]`` and ``[output]``; each result folder holds one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import FormatError, InvalidSetting
from ..estimators.base import GPA
from ..estimators.methods import METHODS, estimator_class
from ..estimators.settings import AUTO
from ..io.landmark_file import ReadOptions
from ..io.text import is_unicode, short_repr
from ..report.summary import NO_LOSS, settings_for_file
from ..trust.procrustes import CONVENTIONS

LARGEST = 1e300  # of numbers in a settings file
READ_OPTIONS = tuple(one.name for one in fields(ReadOptions) if one.name != "name")


# the settings of estimators that registration has options for
METHOD_OPTIONS = (
    *("scaling", "kernel", "bandwidth", "smoothing", "control_points", "inducing"),
    *("modes", "robust", "mirrored"),
)


@dataclass(frozen=True)
class Kind:
    """The values that a key of a settings file may have."""

    types: type | tuple[type, ...]
    expected: str

    def allows(self, value: Any) -> bool:
        if isinstance(value, bool):
            return self is ANYTHING or self is YES_OR_NO
        if isinstance(value, float | int):
            return isinstance(value, self.types) and -LARGEST < value < LARGEST
        return isinstance(value, self.types) and (not isinstance(value, str) or is_unicode(value))


TEXT = Kind(str, "a text")
NUMBER = Kind((float, int), "a number")
INTEGER = Kind(int, "a whole number")
YES_OR_NO = Kind(bool, "true or false")
NAMES = Kind(list, "a list of names")
NUMBERS = Kind((float, int, list, tuple), "a number, or a list of numbers")
ANYTHING = Kind(object, "another value")  # the estimator checks it
SECTIONS = {
    "input": {
        **{"files": NAMES, "missing": NUMBERS, "frames": TEXT, "markers": NAMES},
        **{"match": TEXT, "label_pattern": TEXT, "metadata": TEXT, "links": TEXT},
        **dict.fromkeys(("negative_is_missing", "curves", "merge", "recursive"), YES_OR_NO),
    },
    "method": {
        **{"name": TEXT, "tune": YES_OR_NO, "folds": INTEGER, "n_jobs": INTEGER},
        **dict.fromkeys((*METHOD_OPTIONS, "scale_method", "method"), ANYTHING),
    },
    "output": {"unit": TEXT, "title": TEXT, "procrustes": TEXT},
}


@dataclass(frozen=True)
class MethodSettings:
    """The section [method]: an estimator, its parameters, and whether these are tuned."""

    name: str = "kernel"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tune: bool = False
    folds: int = 10
    n_jobs: int | None = None

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> MethodSettings:
        own = {key: section[key] for key in ("name", "tune", "folds", "n_jobs") if key in section}
        return cls(parameters={key: value for key, value in section.items() if key not in own}, **own)

    def estimator(self, offered: Collection[str] = METHOD_OPTIONS) -> GPA:
        """The estimator with its parameters checked; a parameter that it does not have is an error.

        ``offered`` are the settings that a command has options for.
        """
        estimator = estimator_class(self.name)()
        known = estimator.get_params(deep=False)
        for key in self.parameters:
            if key not in known:
                takes = _listed(f"--{name.replace('_', '-')}" for name in known if name in offered)
                raise InvalidSetting(f"method {self.name} has no setting {key.replace('_', '-')}; it takes {takes}")
        jobs = {"n_jobs": self.n_jobs} if self.n_jobs is not None and "n_jobs" in known else {}
        given = {key: None if key == "robust" and value == NO_LOSS else value for key, value in self.parameters.items()}
        estimator.set_params(**given, **jobs)
        estimator._check_settings()
        return estimator

    def grid(self) -> dict[str, list[Any]]:
        """The values that tuning tries; parameters that are given are not tuned."""
        grid = METHODS[self.name].grid if self.name in METHODS else {}
        if not grid:
            raise InvalidSetting(f"method {self.name} has nothing to tune; use --method kernel or --method tps")
        given = {key: [value] for key, value in self.parameters.items() if key in grid}
        return {**grid, **given}


@dataclass(frozen=True)
class RunSettings:
    """Everything that a registration needs."""

    files: list[str]
    read_options: ReadOptions
    method: MethodSettings
    unit: str | None
    title: str | None
    metadata: str | None = None  # the table of the clouds' attributes
    links: str | None = None  # the file of links between landmarks
    procrustes: str = CONVENTIONS[0]

    def resolved(self, gpa: GPA, unit: str | None) -> dict[str, Any]:
        """The settings file that runs the same registration again."""
        sections = {
            "input": {
                **input_section(self.files, self.read_options),
                **{name: str(Path(path).resolve()) for name, path in self._tables().items()},
            },
            "method": {"name": self.method.name, **settings_for_file(gpa.registration_.settings)},
            "output": {"unit": unit, "title": self.title, "procrustes": self.procrustes},
        }
        return {name: _given(section) for name, section in sections.items()}

    def _tables(self) -> dict[str, str]:
        return _given({"metadata": self.metadata, "links": self.links})


def input_section(files: Sequence[str | Path], read_options: ReadOptions) -> dict[str, Any]:
    """The section [input], with absolute paths so that it can be used in any folder."""
    given = {name: getattr(read_options, name) for name in READ_OPTIONS}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return {
        "files": [str(Path(one).resolve()) for one in files],
        **{name: value for name, value in plain.items() if value is not None and value is not False and value != []},
    }


def _read_options(section: Mapping[str, Any]) -> ReadOptions:
    """The section [input] as options of reading."""
    given = {name: section[name] for name in READ_OPTIONS if name in section}
    missing = given.get("missing")
    if isinstance(missing, list | tuple) and not all(NUMBER.allows(one) for one in missing):
        raise InvalidSetting(f"missing is {short_repr(str(missing))}; expected {NUMBERS.expected}")
    markers = given.get("markers", ())
    if not all(isinstance(one, str) for one in markers):
        raise InvalidSetting(f"markers is {short_repr(str(markers))}; expected a list of patterns")
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
    return ReadOptions(**values)


def run_settings(config: Path | None, options: Mapping[str, Any]) -> RunSettings:
    """Settings from a file, overridden by the options that were given (not None)."""
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS} if config is None else _read_config(config)
    for name, keys in SECTIONS.items():
        arguments = _given({key: options.get(key) for key in keys})
        for key, value in arguments.items():
            _require_allowed(f"--{key.replace('_', '-')}", value, keys[key])
        sections[name] |= arguments
    files = sections["input"].get("files")
    if not files:
        raise InvalidSetting(
            "no file is given; run kernelgpa register FILE... -o FOLDER, or give --config settings.toml"
        )
    if not all(isinstance(one, str) for one in files):
        raise InvalidSetting(f"[input] files is {short_repr(str(files))}; expected {NAMES.expected}")
    output = sections["output"]
    return RunSettings(
        files,
        _read_options(sections["input"]),
        MethodSettings.of(sections["method"]),
        output.get("unit"),
        output.get("title"),
        sections["input"].get("metadata"),
        sections["input"].get("links"),
        _convention(output.get("procrustes", CONVENTIONS[0])),
    )


def _convention(name: str) -> str:
    if name not in CONVENTIONS:
        raise InvalidSetting(f"procrustes is {name!r}; expected one of {', '.join(CONVENTIONS)}")
    return name


def _read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a settings file, checked."""
    try:
        if path.exists() and not path.is_file():
            raise FormatError(path, None, "it is not a file", "expected settings.toml of a result folder")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FormatError:
        raise
    except FileNotFoundError:
        found = "there is no such file"
        raise FormatError(path, None, found, "expected settings.toml of a result folder") from None
    except (ValueError, RecursionError) as error:  # tomllib's own errors, and numbers of a thousand digits
        raise FormatError(
            path, None, f"it is not valid TOML ({error})", "expected settings.toml of a result folder"
        ) from None
    return {name: _checked_section(path, name, content.get(name, {})) for name in SECTIONS}


def _checked_section(path: Path, name: str, section: Any) -> dict[str, Any]:
    keys = SECTIONS[name]
    unknown = set(section) - set(keys) if isinstance(section, dict) else {str(section)}
    if unknown:
        raise FormatError(path, None, f"[{name}] has unknown keys {_listed(unknown)}", f"expected {', '.join(keys)}")
    for key, value in section.items():
        _require_allowed(f"[{name}] {key}", value, keys[key])
    return dict(section)


def _require_allowed(name: str, value: Any, kind: Kind) -> None:
    if not kind.allows(value):
        raise InvalidSetting(f"{name} is {short_repr(str(value))}; expected {kind.expected}")


def estimator_of(section: Mapping[str, Any], offered: Collection[str]) -> GPA:
    """The estimator that a section [method] describes, of a command with options for the settings offered."""
    return MethodSettings.of(section).estimator(offered)


def number_or_word(name: str, text: str | None) -> float | str | None:
    """The value of an option that takes a number or "auto"."""
    if text is None or text == AUTO:
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidSetting(f"{name} is {text!r}; expected a number or {AUTO!r}") from None


def modes_of(text: str | None) -> str | int | None:
    """The value of --modes: a number of eigenvectors, or a word."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else text


def _given(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if value is not None}


def _listed(names: Any) -> str:
    return ", ".join(sorted(str(name) for name in names))

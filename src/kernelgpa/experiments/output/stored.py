"""All results of a run as one JSON file, from which an interrupted run continues and docs/results.md is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FormatError, InvalidSetting
from ..figures import FILE_TYPES, CaptionedFigure
from ..tables import Claim, Outcome, Parameter, Table

RESULTS = "results.json"


@dataclass(frozen=True)
class StoredRun:
    """What determines the results of a run, and the command that repeats it."""

    command: str
    version: str
    quick: bool
    seed: int


def to_json(outcomes: Sequence[Outcome], run: StoredRun) -> str:
    """Return all results; numbers that are not known are null, and infinite ones are "inf"."""
    return json.dumps({"run": asdict(run), "outcomes": [_outcome(one) for one in outcomes]}, indent=1) + "\n"


def _outcome(outcome: Outcome) -> dict[str, Any]:
    tables = [
        asdict(table) | {"rows": [[label, [_number(value) for value in row]] for label, row in table.rows]}
        for table in outcome.tables
    ]
    return {
        "name": outcome.name,
        "title": outcome.title,
        "about": outcome.about,
        "tables": tables,
        "claims": [asdict(claim) for claim in outcome.claims],
        "figures": {name: one.caption for name, one in outcome.figures.items()},
        "notes": outcome.notes,
        "parameters": [asdict(one) for one in outcome.parameters],
        "minutes": outcome.minutes,
    }


def _number(value: float) -> float | str | None:
    """Return a number as JSON can hold it."""
    if np.isnan(value):
        return None
    return float(value) if np.isfinite(value) else str(float(value))


def read(folder: Path) -> tuple[StoredRun, list[Outcome]]:
    """Return the run and the outcomes that a folder holds."""
    path = folder / RESULTS
    if not path.is_file():
        raise FormatError(
            path, None, "there is no such file", "give the folder of an earlier run of kernelgpa reproduce"
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return StoredRun(**found["run"]), [_read_outcome(one, folder) for one in found["outcomes"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise FormatError(path, None, f"it is damaged ({error})", "run the experiments again") from error


def _read_outcome(found: dict[str, Any], folder: Path) -> Outcome:
    tables = [
        Table(one["name"], one["title"], one["unit"], tuple(one["columns"]), [_read_row(row) for row in one["rows"]])
        for one in found["tables"]
    ]
    figures = {
        name: CaptionedFigure(
            {kind: (folder / f"{found['name']}-{name}.{kind}").read_bytes() for kind in FILE_TYPES}, caption
        )
        for name, caption in found["figures"].items()
    }
    return Outcome(
        found["name"],
        found["title"],
        found["about"],
        tables,
        [Claim(**one) for one in found["claims"]],
        figures,
        found["notes"],
        [Parameter(**one) for one in found["parameters"]],
        found["minutes"],
    )


def _read_row(row: list[Any]) -> tuple[str, list[float]]:
    label, values = row
    return label, [float("nan") if value is None else float(value) for value in values]


def finished(folder: Path, run: StoredRun) -> list[Outcome]:
    """Return the outcomes of an interrupted run with the same settings; raise if the folder holds another run."""
    if not (folder / RESULTS).exists():
        return []
    earlier, outcomes = read(folder)
    for name in ("version", "quick", "seed"):
        there, here = getattr(earlier, name), getattr(run, name)
        if there != here:
            raise InvalidSetting(
                f"{folder} holds a run with {name} {there!r}, not {here!r}; give another folder, or do not resume"
            )
    return outcomes

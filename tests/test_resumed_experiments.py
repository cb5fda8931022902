"""An interrupted run of the experiments continues where it stopped, or says why it cannot."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure

from kernelgpa import FormatError, InvalidSetting
from kernelgpa.experiments import reproduce
from kernelgpa.experiments.figures import CaptionedFigure
from kernelgpa.experiments.output import stored
from kernelgpa.experiments.reproduction import Experiment
from kernelgpa.experiments.tables import Claim, Outcome, Parameter, Table

NAMES = ("first", "second", "third")


class Runs:
    """Experiments that take no time, which of them ran, and one that is interrupted."""

    def __init__(self, interrupted=None):
        self.ran, self.interrupted = [], interrupted
        self.experiments = {name: Experiment(partial(self.run, name), None, None) for name in NAMES}

    def run(self, name, plan, seed):
        if name == self.interrupted:
            raise KeyboardInterrupt
        self.ran.append(name)
        return outcome(name, seed)

    def reproduce(self, names, folder, **options):
        return reproduce(names, folder, experiments=self.experiments, **options)


def outcome(name, seed):
    """Results with everything that a file has to keep: missing and infinite numbers, letters, figures."""
    table = Table(name, f"errors of {name}, Größe | <b>", "mm", ("rigid", "affine", "kernel (program)"))
    table.add("mean", [1 / 3 + seed, np.nan, np.inf])
    table.add("max", [-np.inf, 1e-300, np.pi])
    figure = Figure(figsize=(1, 1))
    figure.add_subplot().plot([0, seed + 1])
    return Outcome(
        name,
        name.title(),
        "about",
        [table],
        [Claim("paper: a", True, "1 < 2"), Claim("here: b", False, "2 < 1", "a reason")],
        {"figure": CaptionedFigure.of(figure, "A caption.")},
        ["a note"],
        [Parameter("clouds", "60", "6")],
    )


def contents(folder):
    """All files of a folder; of the results in JSON, all but how long they took."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    results = json.loads(files.pop("results.json"))
    for one in results["outcomes"]:
        del one["minutes"]
    return files | {"results": results}


def interrupted(folder, at="second"):
    folder.parent.mkdir(exist_ok=True)
    with pytest.raises(KeyboardInterrupt):
        Runs(interrupted=at).reproduce(["all"], folder)
    return folder


@pytest.mark.parametrize("at", NAMES)
def test_a_resumed_run_gives_what_an_uninterrupted_one_gives(tmp_path, at):
    (tmp_path / "whole").mkdir()
    whole, part = tmp_path / "whole" / "out", interrupted(tmp_path / "part" / "out", at)
    Runs().reproduce(["all"], whole)
    resumed = Runs()
    lines = []
    _, outcomes = resumed.reproduce(["all"], part, resume=True, report=lines.append)
    finished = NAMES[: NAMES.index(at)]
    assert resumed.ran == list(NAMES[len(finished) :])
    assert [one.name for one in outcomes] == list(NAMES)
    assert contents(part) == contents(whole)
    assert lines[0].endswith(f"already finished: {', '.join(finished)}") == bool(finished)


def test_without_the_option_everything_runs_again(tmp_path):
    again = Runs()
    again.reproduce(["all"], interrupted(tmp_path / "out"))
    assert again.ran == list(NAMES)


def test_nothing_runs_if_all_experiments_are_finished(tmp_path):
    Runs().reproduce(["all"], tmp_path / "out")
    before, lines, again = contents(tmp_path / "out"), [], Runs()
    again.reproduce(["all"], tmp_path / "out", resume=True, report=lines.append)
    assert again.ran == []
    assert lines == ["nothing to run; already finished: first, second, third"]
    assert contents(tmp_path / "out") == before


def test_finished_experiments_stay_if_others_are_named(tmp_path):
    folder = tmp_path / "out"
    Runs().reproduce(["third"], folder)
    Runs().reproduce(["first"], folder, resume=True)
    run, outcomes = stored.read(folder)
    assert [one.name for one in outcomes] == ["first", "third"]
    assert run.command == "kernelgpa reproduce first third --seed 0 -o out"
    Runs().reproduce(["second"], folder)  # without the option they are replaced
    assert [one.name for one in stored.read(folder)[1]] == ["second"]


@pytest.mark.parametrize(("option", "there"), [({"seed": 1}, "seed 0, not 1"), ({"quick": True}, "quick False, not")])
def test_a_run_with_other_settings_is_refused(tmp_path, option, there):
    folder = interrupted(tmp_path / "out")
    before, other = contents(folder), Runs()
    with pytest.raises(InvalidSetting, match=rf"holds a run with {there}"):
        other.reproduce(["all"], folder, resume=True, **option)
    assert other.ran == []
    assert contents(folder) == before


def test_a_run_of_another_version_is_refused(tmp_path, monkeypatch):
    folder = interrupted(tmp_path / "out")
    monkeypatch.setattr("kernelgpa.experiments.reproduction.version", lambda name: "0.0.1")
    with pytest.raises(InvalidSetting, match=r"holds a run with version '.*', not '0\.0\.1'"):
        Runs().reproduce(["all"], folder, resume=True)


DAMAGES = {
    "empty": lambda text: "",
    "cut off": lambda text: text[: len(text) // 2],
    "not JSON": lambda text: "liver: 1",
    "a list": lambda text: "[]",
    "nested too deeply": lambda text: 100_000 * "[",
    "without the run": lambda text: text.replace('"run"', '"walk"'),
    "without the seed": lambda text: text.replace('"seed"', '"sed"'),
    "an unknown field": lambda text: text.replace('"holds"', '"upholds"'),
    "a word for a number": lambda text: text.replace("3.14159", '"three", 3.14159'),
    "figures in a list": lambda text: text.replace('{\n    "figure": "A caption."\n   }', "[1]"),
    "rows without labels": lambda text: text.replace('"mean",', ""),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_results_are_refused_and_kept(tmp_path, damage):
    folder = interrupted(tmp_path / "out")
    path = folder / "results.json"
    text = path.read_text()
    assert DAMAGES[damage](text) != text
    path.write_text(DAMAGES[damage](text))
    before, other = path.read_bytes(), Runs()
    with pytest.raises(FormatError, match=r"results\.json: it is damaged .*; run the experiments again"):
        other.reproduce(["all"], folder, resume=True)
    assert other.ran == []
    assert path.read_bytes() == before


def test_a_missing_figure_is_damage(tmp_path):
    folder = interrupted(tmp_path / "out")
    (folder / "first-figure.pdf").unlink()
    with pytest.raises(FormatError, match=r"results\.json: it is damaged .*first-figure\.pdf"):
        Runs().reproduce(["all"], folder, resume=True)


def test_a_folder_without_results_cannot_be_read(tmp_path):
    with pytest.raises(FormatError, match=r"there is no such file; give the folder of an earlier run"):
        stored.read(tmp_path)


def test_the_command_resumes_and_reports_damage_in_one_line(monkeypatch, kernelgpa, tmp_path):
    run = partial(reproduce, experiments=Runs().experiments)
    monkeypatch.setattr("kernelgpa.cli.reproduce.run_experiments", run)
    folder = interrupted(tmp_path / "out")
    code, printed, messages = kernelgpa("reproduce", "all", "-o", folder, "--resume")
    assert not code
    assert "already finished: first" in messages
    assert "does not hold: here: b (2 < 1; a reason)" in printed
    (folder / "results.json").write_text("{}")
    code, printed, messages = kernelgpa("reproduce", "all", "-o", folder, "--resume")
    assert code == 2
    assert not printed
    assert len(messages.strip().splitlines()) == 1
    assert "results.json: it is damaged" in messages

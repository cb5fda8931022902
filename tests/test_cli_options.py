"""Options override settings or are an error, and the shell completes commands."""

from __future__ import annotations

import os
import subprocess
import sys

from kernelgpa.cli.options import MethodChoice
from kernelgpa.cli.stream import StreamMethod
from kernelgpa.estimators.methods import METHODS


def test_the_command_line_offers_the_methods_of_the_table():
    assert [one.value for one in MethodChoice] == list(METHODS)
    assert {one.value for one in StreamMethod} == {name for name, one in METHODS.items() if one.estimator._deforms}


def test_completion_completes_commands():
    """As bash asks for it, with the line typed so far in the environment."""
    code = "import sys; sys.argv = ['kernelgpa']; from kernelgpa.cli import main; main()"
    asked = {"_KERNELGPA_COMPLETE": "complete_bash", "COMP_WORDS": "kernelgpa reg", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    assert done.stdout.split() == ["register"]


def test_settings_are_checked_before_files_are_read(scans):
    """The message lists the options that apply to the method."""
    for words, found in (
        (
            ["--method", "affine", "--bandwidth", "0.3"],
            "method affine has no setting bandwidth; it takes --mirrored, --modes, --robust",
        ),
        (["--mirrored", "foo"], "--mirrored is 'foo'; expected one of leave-out, keep, error"),
        (["--method", "rigid", "--tune"], "method rigid has nothing to tune"),
    ):
        code, _, errors = scans("register", "absent.csv", "-o", "out", *words)
        assert code == 2
        assert found in " ".join(errors.split())
        assert "absent.csv" not in errors


def test_a_typed_option_wins_or_is_an_error(scans):
    """None is dropped silently, whatever the format."""
    for words, found in (
        (["--missing", "-999"], "--missing -999 is the value of no point"),
        (["--frames", "3"], "--frames is '3'; expected first:end"),
        (["--frames", "900:"], "it has no frame in 900:"),
        (["--markers", "nothing*"], "no label matches 'nothing*'"),
        (["--match", "number", "--label-pattern", "("], "--label-pattern is '(', which is no regular expression"),
        (["--curves"], "--curves is for TPS files, and none is given"),
        (["--merge"], "--merge finds no files of one specimen"),
        (["--metadata", "absent.csv"], "absent.csv: there is no such file"),
        (["--links", "absent.csv"], "absent.csv: there is no such file"),
        (["--procrustes", "total"], "--procrustes is 'total'; expected one of registered, partial, full"),
    ):
        code, _, errors = scans("register", "scans.csv", "-o", "out", "--method", "rigid", *words)
        assert found in errors, errors
        assert code == (0 if "no point" in found else 2)

"""The command line application: it runs a command, prints errors as one line, and is the only place that exits."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from ..errors import KernelGPAError
from .messages import print_error, print_message, use_words

INTERRUPTED = 130
SEVERAL_FILES = {"convert", "simulate", "stream"}  # commands that write one file after another

app = typer.Typer(no_args_is_help=True, add_completion=True, rich_markup_mode=None, pretty_exceptions_enable=False)


def main(run: Callable[[], Any] = app) -> None:
    """Run the command of ``sys.argv``; known errors are one line and exit code 2, an interrupt one line and 130."""
    verbose = not {"--verbose", "-v"}.isdisjoint(sys.argv[1:])
    signal.signal(signal.SIGTERM, _interrupt)  # worker processes then end too
    use_words()
    try:
        run()
    except (KernelGPAError, OSError) as error:
        if verbose:
            traceback.print_exc()
        print_error(error, _if_folder_is_gone(error))
        sys.exit(2)
    except MemoryError:
        print_message("kernelgpa: there is not enough memory; use fewer landmarks or clouds, or --inducing")
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print_message(_interruption())
        raise
    except KeyboardInterrupt:  # outside of a command
        print_message(_interruption())
        sys.exit(INTERRUPTED)


def _interruption() -> str:
    several = not SEVERAL_FILES.isdisjoint(sys.argv[1:2])
    return f"kernelgpa: interrupted; {'files already written are complete' if several else 'nothing was written'}"


def _if_folder_is_gone(error: Exception) -> str:
    """The remedy if the current folder was removed, which the system's own message does not mention."""
    try:
        Path.cwd()
    except FileNotFoundError:
        if isinstance(error, OSError):
            return "; the current folder has been removed: change to another one"
    return ""


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt

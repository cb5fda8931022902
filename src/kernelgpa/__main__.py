"""The command ``kernelgpa`` and ``python -m kernelgpa``.

Nothing but the standard library is imported before Ctrl-C has its answer.  While NumPy and the rest are imported, which
takes a second, an interrupt ends the process at once: libraries may catch an exception in the middle of an import, and
nothing has been written that could be half done.
"""

from __future__ import annotations

import atexit
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

INTERRUPTED = 130


def main() -> None:
    """Run a command; an interrupt is one line and exit code 130, also while modules are imported."""
    before = signal.getsignal(signal.SIGINT)
    interruptible = before is signal.default_int_handler  # not if whoever started the command ignores interrupts
    if interruptible:
        signal.signal(signal.SIGINT, _end)
        # registered first, so called last: Python then takes its own handlers away, and an interrupt would be a crash
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    from .cli import main as run

    try:
        if interruptible:
            signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:  # before the command begins, or while its error is printed
        _end()
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, _end_quietly)


def _end(*_: Any) -> NoReturn:
    try:
        os.write(2, b"kernelgpa: interrupted; nothing was written\n")
    finally:  # also if standard error is closed
        os._exit(INTERRUPTED)


def _end_quietly(*_: Any) -> NoReturn:
    """After the command, while Python ends: the result is there."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

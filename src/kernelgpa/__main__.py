"""The command ``kernelgpa`` and ``python -m kernelgpa``.

Only the standard library is imported before the handler for Ctrl-C is installed.  While NumPy and other libraries are
imported, which takes about a second, an interrupt ends the process at once: libraries may catch exceptions during
imports, and nothing has been written yet that could be incomplete.
"""

from __future__ import annotations

import atexit
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

INTERRUPTED = 130  # as in cli/app.py, which is imported only after the handler is installed


def main() -> None:
    """Run a command; an interrupt prints one line and exits with 130, also while modules are imported."""
    handler = signal.getsignal(signal.SIGINT)
    interruptible = handler is signal.default_int_handler  # a shell lets background commands ignore interrupts
    if interruptible:
        signal.signal(signal.SIGINT, _exit_with_message)
        # registered first, therefore called last: Python then removes its handlers, and an interrupt would be a crash
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    from .cli import main as run

    try:
        if interruptible:
            signal.signal(signal.SIGINT, handler)
        run()
    except KeyboardInterrupt:  # before the command starts, or while its error is printed
        _exit_with_message()
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, _exit_silently)


def _exit_with_message(*_: Any) -> NoReturn:
    try:
        os.write(2, b"kernelgpa: interrupted; nothing was written\n")
    finally:  # also if standard error is closed
        os._exit(INTERRUPTED)


def _exit_silently(*_: Any) -> NoReturn:
    """After the command, while Python exits: the result has been written."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

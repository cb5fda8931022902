"""The exceptions and the warning that users can catch.

Every message says where, what was found, and what to do.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType

from sklearn.exceptions import NotFittedError


class KernelGPAError(Exception):
    """Any error that kernelgpa raises on purpose."""


class InvalidObservations(KernelGPAError, ValueError):
    """The data cannot be what they claim to be."""


class DegenerateCloud(InvalidObservations):
    """A cloud's points do not determine what is asked of them."""


class WeaklyConnected(InvalidObservations):
    """Groups of clouds share too few landmarks to be brought into one frame."""

    def __init__(self, message: str, groups: list[list[object]]) -> None:
        super().__init__(message, groups)
        self.message = message
        self.groups = groups

    def __str__(self) -> str:
        return self.message


class InvalidSetting(KernelGPAError, ValueError):
    """A setting has a value that no method is defined for."""


class FormatError(KernelGPAError, ValueError):
    """A file does not hold what its format says, or a format cannot hold what is to be written."""

    def __init__(self, source: object, line: int | None, found: str, expected: str) -> None:
        super().__init__(source, line, found, expected)
        self.source, self.line, self.found, self.expected = source, line, found, expected

    def __str__(self) -> str:
        place = f"{self.source}" if self.line is None else f"{self.source}, line {self.line}"
        return f"{place}: {self.found}; {self.expected}"


class NumericalFailure(KernelGPAError, ArithmeticError):
    """Double precision does not carry this problem."""


class TooLarge(KernelGPAError, MemoryError):
    """A fit would take more memory than there is."""


class Disconnected(KernelGPAError, ConnectionError):
    """The cluster of a distributed fit is closed, or has no workers."""


class NotFitted(KernelGPAError, NotFittedError):
    """A result was asked of an estimator that has not been fitted."""


class KernelGPAWarning(UserWarning):
    """Something the user should know about a result that was still computed."""


_PACKAGE = str(Path(__file__).parent)


def warn(message: str) -> None:
    """Issue a :class:`KernelGPAWarning` that points at the line of the caller's code that entered the package."""
    frame: FrameType | None = sys._getframe(1)
    level, entered = 2, 2
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            entered = level + 1
        frame, level = frame.f_back, level + 1
    warnings.warn(message, KernelGPAWarning, stacklevel=entered)

"""The exceptions and the warning of the library.

Every message states where the problem is, what was found, and what to do.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

from sklearn.exceptions import NotFittedError


class KernelGPAError(Exception):
    """Base class of all errors that kernelgpa raises."""


class InvalidObservations(KernelGPAError, ValueError):
    """The data are not valid observations."""


class DegenerateCloud(InvalidObservations):
    """The points of a cloud are too few or coincide."""


class WeaklyConnected(InvalidObservations):
    """Groups of clouds share too few landmarks to be registered into one frame."""

    def __init__(self, message: str, groups: list[list[object]]) -> None:
        super().__init__(message, groups)
        self.message = message
        self.groups = groups

    def __str__(self) -> str:
        return self.message


class InvalidSetting(KernelGPAError, ValueError):
    """A setting has a value that is not allowed."""


class FormatError(KernelGPAError, ValueError):
    """A file does not follow its format, or a format cannot represent the data to be written."""

    def __init__(self, source: object, line: int | None, found: str, expected: str) -> None:
        super().__init__(source, line, found, expected)
        self.source, self.line, self.found, self.expected = source, line, found, expected

    @property
    def location(self) -> str:
        return f"{self.source}" if self.line is None else f"{self.source}, line {self.line}"

    def __str__(self) -> str:
        return f"{self.location}: {self.found}; {self.expected}"


class NumericalFailure(KernelGPAError, ArithmeticError):
    """The problem cannot be solved in double precision."""


class TooLarge(KernelGPAError, MemoryError):
    """A fit needs more memory than is available."""


class Disconnected(KernelGPAError, ConnectionError):
    """The cluster of a distributed fit is closed, or has no workers."""


class NotFitted(KernelGPAError, NotFittedError):
    """A result was requested from an estimator that has not been fitted."""


class KernelGPAWarning(UserWarning):
    """A result was computed, but has a property that the user should know."""


_PACKAGE = f"{Path(__file__).parent}{os.sep}"
_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the messages of the warnings that are issued meanwhile; they are issued all the same."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


@contextmanager
def silenced_warnings() -> Iterator[None]:
    """Do not issue the warnings of the library that arise meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        yield


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Collect the messages of the library's warnings, which are not issued; the list is complete at the end."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", KernelGPAWarning)
        try:
            yield messages
        finally:
            messages += [str(one.message) for one in caught]


def warn(message: str) -> None:
    """Issue a :class:`KernelGPAWarning` that points at the line of the caller's code that entered the package."""
    messages = _collected.get()
    if messages is not None and message not in messages:
        messages.append(message)
    frame: FrameType | None = sys._getframe(1)
    level, entered = 2, 2
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            entered = level + 1
        frame, level = frame.f_back, level + 1
    warnings.warn(message, KernelGPAWarning, stacklevel=entered)

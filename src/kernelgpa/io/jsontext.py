"""JSON of which every value knows its line, for messages.

The decoder of the standard library is fast and forgets where values stood.  A line is therefore looked up only once an
error is certain, by walking the text again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FormatError
from .base import number_in, refuse_repeats, shortened

Path = tuple[str | int, ...]
DEEPEST = 100  # brackets within brackets; deeper ones only exhaust the stack
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")


class Number(str):
    """A number as it is written, so that none is too large before it is looked at."""

    __slots__ = ()


@dataclass(frozen=True)
class _Repeated:
    """An object in which a key stands twice; a dict would keep the last and say nothing."""

    key: str


@dataclass(frozen=True)
class Document:
    """A decoded text."""

    source: str
    text: str
    value: Any

    def at(self, path: Path) -> Any:
        found = self.value
        for step in path:
            found = found[step]
        return found

    def number(self, path: Path, *steps: str | int) -> float:
        """The number at a path."""
        place = (*path, *steps)
        found = self.at(place)
        if not isinstance(found, Number):
            raise self.wrong(place, f"found {shortened(str(found))}", "expected a number")
        try:
            return number_in(found, self.source, None)
        except FormatError as problem:
            raise self.wrong(place, problem.found, problem.expected) from None

    def wrong(self, path: Path, found: str, expected: str) -> FormatError:
        return FormatError(self.source, self.line_of(path), found, expected)

    def refuse_repeats(self, texts: Sequence[str], paths: Sequence[Path], what: str) -> None:
        """Refuse a name that is given twice; lines are looked up for the two only."""
        first: dict[str, Path] = {}
        for text, path in zip(texts, paths, strict=True):
            if text in first:
                refuse_repeats(self.source, [text, text], [self.line_of(first[text]), self.line_of(path)], what)
            first[text] = path

    def line_of(self, path: Path) -> int:
        """The line on which the value at ``path`` begins."""
        at = _skipped(self.text, 0)
        for step in path:
            at = _inside(self.text, at, step)
        return self.text.count("\n", 0, at) + 1


def read(text: str, source: str) -> Document:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    _refuse_depth(text, source)
    try:
        value = _decoder(_object).decode(text)
    except json.JSONDecodeError as problem:
        raise FormatError(source, problem.lineno, f"the text is no JSON ({problem.msg})", "check its syntax") from None
    document = Document(source, text, value)
    _refuse_repeated_keys(document)
    return document


def _decoder(pairs: Any) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_float=Number, parse_int=Number, parse_constant=Number)


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    counts = Counter(key for key, _ in pairs)
    return _Repeated(counts.most_common(1)[0][0])


def _refuse_depth(text: str, source: str) -> None:
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > DEEPEST:
            line = text.count("\n", 0, match.start()) + 1
            raise FormatError(source, line, f"more than {DEEPEST} brackets within one another", "expected fewer")


def _refuse_repeated_keys(document: Document) -> None:
    todo: list[tuple[Path, Any]] = [((), document.value)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, _Repeated):
            raise document.wrong(
                path, f"the key {shortened(value.key)} stands twice in one object", "keep one of the two"
            )
        if isinstance(value, dict):
            todo += [((*path, key), one) for key, one in value.items() if isinstance(one, (dict, list, _Repeated))]
        elif isinstance(value, list):
            todo += [((*path, i), one) for i, one in enumerate(value) if isinstance(one, (dict, list, _Repeated))]


def _skipped(text: str, at: int) -> int:
    """The place of the next character that is no space."""
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _inside(text: str, at: int, step: str | int) -> int:
    """Where the member ``step`` of the object or list that begins at ``at`` begins."""
    decoder = _decoder(dict)
    named = text[at] == "{"
    at = _skipped(text, at + 1)
    index = 0
    while True:
        key: Any = index
        if named:
            key, at = decoder.raw_decode(text, at)
            at = _skipped(text, _skipped(text, at) + 1)  # past the colon
        if key == step:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _skipped(text, _skipped(text, at) + 1)  # past the comma
        index += 1

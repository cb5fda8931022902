"""JSON whose values can be located by line in error messages.

``json.loads`` alone records no positions, keeps the last of two equal keys silently, turns 1e999 into infinity and
exhausts the stack on deep nesting.  A line is looked up only once an error is certain, by walking the text again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FormatError
from .landmark_file import require_unique
from .text import parse_number, short_repr

Path = tuple[str | int, ...]
DEEPEST_NESTING = 100
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")


class Number(str):
    """A number as it is written: its conversion is checked only when it is used."""

    __slots__ = ()


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

    def number(self, path: Path) -> float:
        """Return the number at a path."""
        found = self.at(path)
        if not isinstance(found, Number):
            raise self.error(path, f"found {short_repr(str(found))}", "expected a number")
        try:
            return parse_number(found, self.source, None)
        except FormatError as problem:
            raise self.error(path, problem.found, problem.expected) from None

    def error(self, path: Path, found: str, expected: str) -> FormatError:
        return FormatError(self.source, self.line_of(path), found, expected)

    def require_unique(self, texts: Sequence[str], paths: Sequence[Path], what: str) -> None:
        """Refuse a name that occurs twice; lines are looked up for its two occurrences only."""
        first: dict[str, Path] = {}
        for text, path in zip(texts, paths, strict=True):
            if text in first:
                require_unique(self.source, [text, text], [self.line_of(first[text]), self.line_of(path)], what)
            first[text] = path

    def line_of(self, path: Path) -> int:
        """Return the line on which the value at ``path`` begins."""
        at = _skip_space(self.text, 0)
        for step in path:
            at = _start_of_member(self.text, at, step)
        return self.text.count("\n", 0, at) + 1


def read(text: str, source: str) -> Document:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    _require_shallow(text, source)
    duplicates: list[tuple[dict[str, Any], str]] = []

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            duplicates.append((found, Counter(key for key, _ in pairs).most_common(1)[0][0]))
        return found

    try:
        document = Document(source, text, _decoder(to_dict).decode(text))
    except json.JSONDecodeError as problem:
        found = f"the text is not valid JSON ({problem.msg})"
        raise FormatError(source, problem.lineno, found, "check its syntax") from None
    for target, key in duplicates:
        path = _path_to(document.value, target)
        if path is not None:  # otherwise the object was itself the first value of a key that occurs twice
            raise document.error(path, f"the key {short_repr(key)} occurs twice in one object", "keep one of the two")
    return document


def _decoder(pairs_hook: Any) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs_hook, parse_float=Number, parse_int=Number, parse_constant=Number)


def _require_shallow(text: str, source: str) -> None:
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > DEEPEST_NESTING:
            line = text.count("\n", 0, match.start()) + 1
            raise FormatError(source, line, f"more than {DEEPEST_NESTING} nested brackets", "expected fewer")


def _path_to(value: Any, target: Any) -> Path | None:
    if value is target:
        return ()
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, one in members:
        path = _path_to(one, target)
        if path is not None:
            return (step, *path)
    return None


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _start_of_member(text: str, at: int, step: str | int) -> int:
    """Return where the member ``step`` of the object or list that begins at ``at`` begins."""
    decoder = _decoder(dict)
    is_object = text[at] == "{"
    at = _skip_space(text, at + 1)
    index = 0
    while True:
        key: Any = index
        if is_object:
            key, at = decoder.raw_decode(text, at)
            at = _skip_space(text, _skip_space(text, at) + 1)  # past the colon
        if key == step:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _skip_space(text, _skip_space(text, at) + 1)  # past the comma
        index += 1

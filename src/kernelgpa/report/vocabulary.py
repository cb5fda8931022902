"""The words for clouds and landmarks, by what the files hold: one table for messages, summary and report.

The library speaks of clouds, landmarks and the map.  Users of landmark files speak of specimens and their mean shape,
those of motion capture of frames and markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from ..trust.diagnosis import Finding


@dataclass(frozen=True)
class Vocabulary:
    """The words of one field."""

    cloud: str
    clouds: str
    landmark: str
    landmarks: str
    map: str
    sensor_error: str  # the error in the coordinates of a cloud itself
    trajectory: bool  # whether the poses of the clouds are those of a moving sensor
    shapes: bool  # whether the sizes and the shapes of the clouds are compared

    def translate(self, text: str, names: Iterable[str] = ()) -> str:
        """A message in these words.

        What is quoted, ``names`` of files, clouds and landmarks, and words such as map.csv, --cloud or clouds=3 stay as
        they are.
        """
        if self == VOCABULARIES["cloud"]:
            return text
        pattern = _pattern(tuple(self.changed_by_translation(names)))
        return pattern.sub(lambda found: self._word(found["word"]) if found["word"] else found[0], text)

    def translated(self, finding: Finding, names: Iterable[str] = ()) -> Finding:
        """A finding in these words."""
        kept = self.changed_by_translation(names)
        kind, found, action = (self.translate(text, kept) for text in (finding.kind, finding.found, finding.action))
        return replace(finding, kind=kind, found=found, action=action)

    def changed_by_translation(self, names: Iterable[str]) -> list[str]:
        """The names that contain a word of the table, which a message must not lose."""
        return [name for name in names if _pattern().sub(lambda found: self._word(found[0]), name) != name]

    def _word(self, found: str) -> str:
        lower = found.lower()
        word = {
            "cloud": self.cloud,
            "clouds": self.clouds,
            "landmark": self.landmark,
            "landmarks": self.landmarks,
            "the map": f"the {self.map}",
            "sensor-frame error": self.sensor_error,
        }.get(lower, found)
        return word[0].upper() + word[1:] if found[0].isupper() and lower != found else word


_QUOTED = r"(?<!\w)'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_WORDS = r"(?<![\w./=-])(?P<word>clouds?|landmarks?|the map|sensor-frame error)(?![\w/=(-]|\.\w)"


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...] = ()) -> re.Pattern[str]:
    """The words to replace; what is to be kept comes first, so that it is skipped as a whole."""
    kept = [rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names, key=len, reverse=True)]
    return re.compile("|".join([*(f"(?-i:{one})" for one in kept), _QUOTED, _WORDS]), re.IGNORECASE)


VOCABULARIES = {
    "cloud": Vocabulary("cloud", "clouds", "landmark", "landmarks", "map", "sensor-frame error", True, False),
    "specimen": Vocabulary(
        "specimen", "specimens", "landmark", "landmarks", "mean shape", "error in own coordinates", False, True
    ),
    "frame": Vocabulary("frame", "frames", "marker", "markers", "map", "error in own coordinates", False, False),
}


def vocabulary(kind: str) -> Vocabulary:
    """The words for what files hold: "specimen", "frame" or "cloud"."""
    return VOCABULARIES.get(kind, VOCABULARIES["cloud"])

"""The words for clouds and landmarks, by what the files hold: one table for messages, summary and report.

The library speaks of clouds, landmarks and the map.  Users of landmark files speak of specimens and their mean shape,
those of motion capture of frames and markers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


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

    def translate(self, text: str) -> str:
        """A message in these words.  What is quoted, and names such as map.csv or clouds=3, stay as they are."""
        if self == VOCABULARIES["cloud"]:
            return text
        return _WORD.sub(lambda found: self._word(found[0]), text)

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


# quoted texts come first, so that they are skipped as a whole
_WORD = re.compile(
    r"(?<!\w)'[^']*'|\"[^\"]*\"|(?<![\w./=-])(?:clouds?|landmarks?|the map|sensor-frame error)(?![\w/=(-]|\.\w)",
    re.IGNORECASE,
)

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

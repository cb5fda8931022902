"""The words of messages, summary and report, by what the files hold, by the interface and by the unit.

Messages of the library name clouds, landmarks and the map, and arguments of Python.  Users of landmark files know
specimens and their mean shape, those of motion capture frames and markers (``VOCABULARIES``); users of commands know
options (``with_option_names``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


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


# -- the unit --

UNIT_UNKNOWN = "in the unit of the data"


def with_unit(text: str, unit: str | None) -> str:
    """A message of the library, which does not know the unit of the data, with the unit that is known."""
    if not unit:
        return text
    return re.sub(rf"(?<=\d) {UNIT_UNKNOWN}", lambda _: f" {unit}", text).replace(UNIT_UNKNOWN, f"in {unit}")


# -- options instead of arguments --

# settings that are options of the same name on the command line
OPTIONS = (
    *("bandwidth", "smoothing", "kernel", "control_points", "inducing", "scaling", "modes", "robust"),
    *("n_jobs", "folds", "missing", "negative_is_missing", "curves", "frames", "markers"),
    *("match", "label_pattern", "merge", "recursive", "metadata", "links", "procrustes", "mirrored"),
)
# what messages of the library name, in terms of commands; longer names come first
IN_COMMANDS = {
    "RigidGPA(scaling=True)": "--method rigid --scaling",
    "RigidGPA": "--method rigid",
    "AffineGPA": "--method affine",
    "TPSGPA": "--method tps",
    "(kernelgpa.ShapeModel) to predict": "(kernelgpa impute) to predict",
    "kernelgpa.ShapeModel": "kernelgpa shape",
    "predict instead of inverse_transform": "kernelgpa impute instead of kernelgpa warp --inverse",
    "inverse_transform": "kernelgpa warp --inverse",
}
# a call such as KernelGPA(modes=5) is Python and stays as it is
OPTION = re.compile(rf"\w\([^()]*\)|(?<![\w./-])({'|'.join(OPTIONS)})=(?:['\"]?([\w.-]*\w)['\"]?)?")
LEADING_OPTION = re.compile(rf"^({'|'.join(OPTIONS)}) is ")


def with_option_names(text: str) -> str:
    """A message of the library in terms of the command line: ``robust='tukey'`` becomes ``--robust tukey``."""
    for method in ("suspicious_observations()", "suspicious_landmarks()", "diagnose()"):
        text = text.replace(method, "the report")
    for name, option in IN_COMMANDS.items():
        text = text.replace(name, option)
    text = re.sub(r"\bor None\b", "or none", text)
    text = OPTION.sub(lambda found: f"{_flag(found[1])} {found[2] or ''}".rstrip() if found[1] else found[0], text)
    return LEADING_OPTION.sub(lambda found: f"{_flag(found[1])} is ", text)


def _flag(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"

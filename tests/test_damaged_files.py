"""A damaged file of any format holds valid clouds or ends in a FormatError.

Each reader is given 200 damaged files, and 20,000 by the slow tests:

    pytest -m slow -k twenty_thousand
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from kernelgpa.errors import FormatError
from kernelgpa.io import fcsv, morphologika, mrk_json, tps
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions, numbered_labels
from landmark_files import EXAMPLES, ONE_CLOUD, ONE_POINT, THREE_D, assert_valid, every_reader, name_of
from shared_data import SHARED

FUZZ = 200  # inputs per reader
OPTIONS = ReadOptions(name="skull")


TOKENS = [
    "",
    "0",
    "-1",
    "NaN",
    "1e999",
    "e5",
    "1_0",
    "999999999999",
    "9" * 400,
    "NA",
    "null",
    "LM=",
    "POINTS=2",
    "DIM=3",
]
TOKENS += ["[names]", *"\n\r\",;=[]{}'#L", "\x00", "\ud800", "\u2028", "\\u0000"]


def mutated(text, rng):
    """A text with one to four random changes, mostly one, because most readers refuse more."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        a, b = sorted(rng.randint(0, len(text)) for _ in range(2))
        kind = rng.randrange(7)
        if kind == 0 and a < len(text):  # another byte
            flipped = bytes(text[a], "utf-8", "surrogatepass")[0] ^ (1 << rng.randrange(8))
            text = text[:a] + chr(flipped) + text[a + 1 :]
        elif kind == 1:
            text = text[:a] + text[min(b, a + rng.randint(1, 20)) :]
        elif kind == 2:
            text = text[:b] + text[a : min(b, a + 200)] + text[b:]
        elif kind == 3 and rng.random() < 0.3:
            text = text[:a]
        elif kind == 4:
            text = text[:a] + rng.choice(TOKENS) + text[a:]
        elif kind == 5:
            lines = text.split("\n")
            i = rng.randrange(len(lines))
            lines[i : i + 1] = rng.choice([[], [lines[i]] * 2, [rng.choice(lines)]])
            text = "\n".join(lines)
        else:
            words = text.split(" ")
            words[rng.randrange(len(words))] = rng.choice(TOKENS)
            text = " ".join(words)
    return text


def seeds(module):
    """Valid texts of a format, which are then mutated."""
    rng = np.random.default_rng(7)
    texts = [text.format(3) for text, _ in [ONE_POINT[module]]] if module in ONE_POINT else []
    for d in (3,) if module in THREE_D else (2, 3):
        n, k = (1 if module in ONE_CLOUD else 3), 4
        points = rng.standard_normal((n, k, d)) * 50
        if module not in (morphologika, fcsv):
            points[0, 1] = np.nan
        labels = numbered_labels(k) if module in (tps, morphologika) else ("nose", "l-ear", "頭", "lm4")
        specimens = tuple(LabelledCloud(f"ape{i}", one, labels) for i, one in enumerate(points))
        texts.append(module.render(LandmarkFile(specimens, labelled=True)))
    return texts + EXAMPLES.get(module, []) + real(module)


def real(module):
    if module is not mrk_json:
        return []
    return [
        one.read_text(encoding="utf-8") for one in sorted((SHARED / "data/landmarks/apes").glob("*.mrk.json"))[::10]
    ]


def fuzz(module, count):
    """Read damaged texts; each is refused at one of its lines, or holds valid clouds."""
    rng = random.Random(f"{name_of(module)} {count}")
    texts, positions = seeds(module), []
    for text in texts:
        assert_valid(module.parse(text, "file", OPTIONS))
    for _ in range(count):
        text = mutated(rng.choice(texts), rng)
        options = ReadOptions("skull", rng.choice([None, 9999.0, 0.0]), rng.random() < 0.5, rng.random() < 0.5)
        try:
            assert_valid(module.parse(text, "file", options))
        except FormatError as caught:
            positions.append((caught.line, text.count("\n") + text.count("\r") + 1))
    assert all(line is not None and 0 <= line <= last for line, last in positions)
    assert 0 < len(positions) < count  # both must happen, otherwise the mutations test nothing


@every_reader
def test_damaged_files_are_valid_or_refused(module):
    fuzz(module, FUZZ)


@pytest.mark.slow
@every_reader
def test_twenty_thousand_damaged_files_are_valid_or_refused(module):
    fuzz(module, 20_000)

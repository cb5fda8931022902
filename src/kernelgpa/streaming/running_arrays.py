"""The summed cost and the stacked clouds in arrays whose rows (landmarks) and columns (clouds) come and go.

The cost matrices, and the matrices w_t w_t' / |w_t| that eliminate the translations (theory, section 9), are added up
by compensated summation: ``high`` holds every entry of the sum and ``low`` its rounding error.  Clouds that were added
and removed again therefore leave nothing behind.

Rows and columns have no gaps: the last one takes the position of one that is removed.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from ..observations.cloud import Cloud
from ..observations.stacked import StackedClouds, WeightedProducts
from ..spectrum.dense import DenseCost
from ..typing import Array, IndexArray

CloudKey = int
Numbers = TypeVar("Numbers", Array, IndexArray)
ABSENT = -1  # the row of a landmark that is not in the sum
WHOLE_ROWS = 3  # a cloud that sees more than one landmark in this many is added by whole rows


class _Sum(NamedTuple):
    """A sum of matrices over the landmarks, and its rounding error."""

    high: Array  # (m, m)
    low: Array  # (m, m)


class RunningArrays:
    """Sum of the cost matrices of m landmarks, and n clouds stacked over the same landmarks."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.rows = np.zeros(0, dtype=np.intp)  # by landmark index: its row, or ABSENT
        self.clear()

    def clear(self) -> None:
        """Remove all landmarks and all clouds."""
        d = self.dimension
        self.rows[:] = ABSENT
        self.landmarks: list[int] = []  # by row: the landmark's index
        self.keys: list[CloudKey] = []  # by column
        self._columns: dict[CloudKey, int] = {}
        self._cost = self._translations = _Sum(np.zeros((0, 0)), np.zeros((0, 0)))
        self._weights, self._weighted_points = np.zeros((0, 0)), np.zeros((0, 0))  # (m, n), (m, n d)
        self._centred, self._means = np.zeros((0, 0, d)), np.zeros((0, d))  # (n, m, d), (n, d)
        self._squared_sizes = np.zeros(0)  # (n,)
        self._ranks, self._seen = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)  # (n,), landmarks seen
        self._resolutions, self._inverse_thinness = np.zeros(0), np.zeros(0)  # (n,)

    @property
    def nbytes(self) -> int:
        """Bytes of the sum."""
        return sum(matrix.nbytes for matrix in (*self._cost, *self._translations))

    @property
    def sizes(self) -> IndexArray:  # (n,)
        """The number of landmarks of each cloud."""
        return self._seen[: len(self.keys)]

    def cost(self) -> DenseCost:
        """The summed cost, over the landmarks in the order of their rows."""
        self._resize(len(self.landmarks), len(self.keys))
        return DenseCost(self._cost.high)

    def stacked(self) -> StackedClouds:
        """The clouds in the order of their columns, over the landmarks in the order of their rows."""
        self._resize(len(self.landmarks), len(self.keys))
        products = WeightedProducts(self._weighted_points, self._squared_sizes, self._translations.high)
        thinness = len(self.keys) / float(self._inverse_thinness.sum())  # the harmonic mean
        resolution = float(self._resolutions.max())
        return StackedClouds(
            self._weights, self._centred, self._means, self._ranks.copy(), resolution, thinness, products
        )

    def reserve(self, landmarks: int) -> None:
        """Let landmark indices go up to ``landmarks``."""
        if (more := landmarks - len(self.rows)) > 0:
            self.rows = np.append(self.rows, np.full(more + 64, ABSENT, dtype=np.intp))

    # -- clouds --

    def add_cloud(self, key: CloudKey, cloud: Cloud, cost: Array | None) -> None:
        """Enter a cloud over landmark indices into the last column, and its cost (s, s) into the sum; None: no cost."""
        if cost is not None:
            for index in cloud.seen[self.rows[cloud.seen] == ABSENT].tolist():
                self.rows[index] = len(self.landmarks)
                self.landmarks.append(index)
        column, d = len(self.keys), self.dimension
        self._columns[key] = column
        self.keys.append(key)
        self._make_room()
        if cost is None:
            return
        rows = self.rows[cloud.seen]
        self._weights[rows, column] = cloud.weights
        self._centred[column, rows] = cloud.centred
        self._means[column] = cloud.mean
        self._squared_sizes[column] = float(cloud.weights @ np.einsum("sd,sd->s", cloud.centred, cloud.centred))
        self._weighted_points[rows, column * d : (column + 1) * d] = cloud.weights[:, None] * cloud.centred
        self._ranks[column], self._seen[column] = cloud.frame.rank, len(rows)
        self._resolutions[column], self._inverse_thinness[column] = cloud.resolution, 1 / cloud.frame.thinness
        self._accumulate(rows, self._cost, cost)
        self._accumulate(rows, self._translations, _of_translation(cloud))

    def remove_cloud(self, key: CloudKey, cloud: Cloud, cost: Array | None) -> None:
        """Take a cloud out of its column and its cost out of the sum; the last cloud takes the column."""
        column, last, d = self._columns.pop(key), len(self.keys) - 1, self.dimension
        if cost is not None:
            self._accumulate(self.rows[cloud.seen], self._cost, -cost)
            self._accumulate(self.rows[cloud.seen], self._translations, -_of_translation(cloud))
        freed, moved = slice(column * d, (column + 1) * d), slice(last * d, (last + 1) * d)
        if column != last:
            self._weights[:, column], self._centred[column] = self._weights[:, last], self._centred[last]
            for array in self._per_cloud:
                array[column] = array[last]
            self._weighted_points[:, freed] = self._weighted_points[:, moved]
            self.keys[column] = self.keys[last]
            self._columns[self.keys[last]] = column
        self._weights[:, last], self._centred[last], self._weighted_points[:, moved] = 0.0, 0.0, 0.0
        for array in self._per_cloud:
            array[last] = 0
        self.keys.pop()

    @property
    def _per_cloud(self) -> tuple[Array | IndexArray, ...]:
        """What is known of each cloud, in one row each."""
        sizes = self._means, self._squared_sizes, self._seen
        return *sizes, self._ranks, self._resolutions, self._inverse_thinness

    def _accumulate(self, rows: IndexArray, total: _Sum, block: Array) -> None:
        """Add a block to high + low; low takes up the rounding error."""
        high, low = total
        if WHOLE_ROWS * len(rows) > len(self.landmarks):  # faster than single entries
            wide = np.zeros((len(rows), high.shape[1]))
            wide[:, rows] = block
            high[rows], low[rows] = _compensated_sum(high[rows], low[rows], wide)
        else:
            where = np.ix_(rows, rows)
            high[where], low[where] = _compensated_sum(high[where], low[where], block)

    # -- landmarks --

    def remove_landmark(self, index: int) -> None:
        """Remove the row of a landmark; the last landmark takes it."""
        row, last = int(self.rows[index]), len(self.landmarks) - 1
        for matrix in (*self._cost, *self._translations):
            matrix[row], matrix[:, row] = matrix[last], matrix[:, last]
            matrix[row, row] = matrix[last, last]
            matrix[last], matrix[:, last] = 0.0, 0.0
        for array in (self._weights, self._weighted_points):
            array[row] = array[last]
            array[last] = 0.0
        self._centred[:, row] = self._centred[:, last]
        self._centred[:, last] = 0.0
        moved = self.landmarks[last]
        self.landmarks[row], self.rows[moved] = moved, row
        self.landmarks.pop()
        self.rows[index] = ABSENT

    # -- capacity --

    def _make_room(self) -> None:
        """Make the arrays larger by a quarter where they are full, so that copies are rare."""
        m, n = len(self.landmarks), len(self.keys)
        rows, columns = self._weights.shape
        if m > rows or n > columns:
            self._resize(*(have if want <= have else want + want // 4 + 8 for have, want in ((rows, m), (columns, n))))

    def _resize(self, rows: int, columns: int) -> None:
        """Arrays of the given size; a solve needs them without spare room, contiguous in memory."""
        if self._weights.shape == (rows, columns):
            return
        d = self.dimension
        self._cost, self._translations = (
            _Sum(*(_resized(matrix, rows, rows) for matrix in total)) for total in (self._cost, self._translations)
        )
        self._weights = _resized(self._weights, rows, columns)
        self._weighted_points = _resized(self._weighted_points, rows, columns * d)
        self._centred, self._means = _resized(self._centred, columns, rows, d), _resized(self._means, columns, d)
        self._squared_sizes, self._seen = _resized(self._squared_sizes, columns), _resized(self._seen, columns)
        self._ranks, self._resolutions = _resized(self._ranks, columns), _resized(self._resolutions, columns)
        self._inverse_thinness = _resized(self._inverse_thinness, columns)


def _of_translation(cloud: Cloud) -> Array:  # (s, s)
    """w_t w_t' / |w_t|"""
    return np.multiply.outer(cloud.weights, cloud.weights / cloud.weights.sum())


def _compensated_sum(high: Array, low: Array, block: Array) -> tuple[Array, Array]:
    """high + low + block as a sum and its rounding error again (two-sum); ``high`` and ``low`` are overwritten."""
    total = high + block
    added = total - high
    high -= total - added
    high += block - added  # the rounding error of the addition
    low += high
    renewed = total + low
    low -= renewed - total
    return renewed, low


def _resized(array: Numbers, *shape: int) -> Numbers:
    if array.shape == shape:
        return array
    resized = np.zeros(shape, dtype=array.dtype)
    part = tuple(slice(0, min(one, another)) for one, another in zip(array.shape, shape, strict=True))
    resized[part] = array[part]
    return resized

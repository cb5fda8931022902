"""Which settings to try: the combinations of a grid, then values between the best one and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..estimators.models import AffineGPA, KernelGPA
from ..estimators.rigid import RigidGPA
from ..observations import Observations
from .cross_validation import require_estimator

DEFAULT_GRID: dict[str, Sequence[Any]] = {
    "bandwidth": (0.1, 0.25, 0.5, 1.0, 1.5),
    "smoothing": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
}
DIFFERENT_SIZES = 1.02  # ratio of the sizes of the largest and the smallest cloud above which sizes differ

Settings = dict[str, Any]
Values = Mapping[str, Sequence[Any]]  # the values to try for each setting


class GridSearch(NamedTuple):
    """An estimator and the values to try for its settings."""

    base: GPA
    values: Values

    @property
    def tries_robust_fits(self) -> bool:
        return any(loss is not None for loss in self.values.get("robust", [self.base.robust]))


def stiff_searches(observations: Observations, mirrored: str) -> list[GridSearch]:
    """Rigid motions, also with a size for each cloud if sizes differ, and affine warps."""
    sizes = [cloud.frame.size for cloud in observations.clouds]
    scalings = (False, True) if max(sizes) > DIFFERENT_SIZES * min(sizes) else (False,)
    rigid, affine = RigidGPA(mirrored=mirrored), AffineGPA(mirrored=mirrored)
    return [GridSearch(rigid, {"scaling": scalings}), GridSearch(affine, {})]


def searches_of(estimator: GPA | None, grid: Values | Sequence[tuple[GPA, Values]] | None) -> list[GridSearch]:
    """Return the searches that the arguments of :func:`selection.tune` describe, with every setting checked."""
    if grid is None or isinstance(grid, Mapping):
        base = KernelGPA(robust=None) if estimator is None else estimator
        require_estimator(base)
        default = {name: values for name, values in DEFAULT_GRID.items() if name in base.get_params()}
        pairs = [(base, default if grid is None else grid)]
    else:
        try:
            pairs = [(one, dict(values)) for one, values in grid]
        except (TypeError, ValueError):
            raise InvalidSetting(
                f"grid is {grid!r}; expected values for each setting, or a list of (estimator, values) pairs"
            ) from None
    if not pairs:
        raise InvalidSetting("grid is empty; give at least one (estimator, values) pair")
    searches = [_checked(base, values) for base, values in pairs]
    if len({search.base.mirrored for search in searches}) > 1:
        raise InvalidSetting("the estimators differ in mirrored; use one value, so that the same clouds are compared")
    return searches


def _checked(base: Any, grid: Mapping[str, Any]) -> GridSearch:
    require_estimator(base)
    known = base.get_params()
    unknown = sorted(set(grid) - set(known), key=str)
    if "mirrored" in grid:
        raise InvalidSetting("grid names mirrored, which decides which clouds are compared; set it in the estimator")
    if unknown:
        raise InvalidSetting(f"grid names {unknown}; {type(base).__name__} has {', '.join(known)}")
    lists: dict[str, list[Any]] = {}
    for name, values in grid.items():
        lists[name] = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
        if not lists[name]:
            raise InvalidSetting(f"grid: {name} is {values!r}; expected a list of values to try")
    for settings in combinations(lists):
        clone(base).set_params(**settings)._check_settings()
    return GridSearch(clone(base), lists)


def combinations(values: Values) -> list[Settings]:
    """Return every combination of the values."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def refinements(best: Settings, tried: Sequence[Settings]) -> list[Settings]:
    """Return settings halfway, on a logarithmic scale, between the best and its neighbours among those tried.

    Only bandwidth and smoothing are refined; the others keep their best value.
    """
    options: dict[str, list[Any]] = {}
    for name, value in best.items():
        options[name] = [value]
        if name in DEFAULT_GRID and is_number(value):
            others = sorted({s[name] for s in tried if all(s[k] == best[k] for k in best if k != name)})
            i = others.index(value)
            options[name] += [float(np.sqrt(value * others[k])) for k in (i - 1, i + 1) if 0 <= k < len(others)]
    return [settings for settings in combinations(options) if settings not in tried]


def is_number(value: Any) -> bool:
    """Whether a setting is a real number, not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool)

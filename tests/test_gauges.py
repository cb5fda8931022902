"""Several gauges of the same warps are cross-validated at once as if each was cross-validated alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from conftest import scene
from fixed_settings import fixed_kernel
from kernelgpa import AffineGPA, InvalidSetting, selection
from kernelgpa.experiments.gauges import cross_validate_gauges


@pytest.mark.parametrize("folds", [20, "leave-one-out"])
@pytest.mark.parametrize("family", [AffineGPA(), fixed_kernel()], ids=["affine", "kernel"])
def test_gauges_validated_at_once_are_as_if_each_was_validated_alone(family, folds):
    settings = {
        "refined": {"modes": "program"},
        "pairwise": {"modes": "program", "scale_method": "pairwise"},
        "published": {"modes": "program", "scale_method": "pairwise-published"},
        "with R_g": {"modes": "paper"},
        "closed form": {"modes": "paper", "scale_method": "closed-form"},
    }
    estimators = {name: clone(family).set_params(**one) for name, one in settings.items()}
    points = scene(n=7, m=25, hidden=0.2, seed=3)[0]
    at_once = cross_validate_gauges(estimators, points, folds)
    for name, estimator in estimators.items():
        alone = selection.cross_validate(estimator, points, folds=folds)
        size = np.nanmax(np.abs(alone.fitted.map_))
        assert_allclose(at_once[name].fitted.map_, alone.fitted.map_, atol=1e-9 * size)
        assert_allclose(at_once[name].residuals, alone.residuals, atol=1e-8 * size)
        assert at_once[name].cve == pytest.approx(alone.cve, rel=1e-8)
    # scales only stretch the axes of the map, so that the errors in the frames of the clouds do not depend on them
    assert_allclose(at_once["refined"].residuals, at_once["pairwise"].residuals, atol=1e-8 * size)


def test_gauges_of_different_warps_are_refused():
    points = scene(seed=0)[0]
    with pytest.raises(InvalidSetting, match="other settings than modes and scale_method"):
        cross_validate_gauges(
            {"a": fixed_kernel(modes="paper"), "b": fixed_kernel(modes="paper", bandwidth=1.0)}, points, 5
        )
    with pytest.raises(InvalidSetting, match="modes='paper' and 'program' without a robust loss"):
        cross_validate_gauges({"a": fixed_kernel(modes="paper"), "b": fixed_kernel()}, points, 5)

"""Consistency as the paper defines it, with partial visibility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kernelgpa import InvalidObservations, metrics


@given(st.integers(0, 1000))
def test_consistency_is_the_spread_about_the_mean_of_those_who_saw(seed):
    rng = np.random.default_rng(seed)
    clouds = rng.standard_normal((5, 8, 3))
    clouds[rng.random((5, 8)) < 0.4] = np.nan
    clouds[:, 0] = np.nan
    delta, mean = metrics.consistency(clouds), metrics.mean_map(clouds)
    for j in range(8):
        seen = clouds[~np.isnan(clouds[:, j, 0]), j]
        if len(seen) == 0:
            assert np.isnan(delta[j])
            assert np.isnan(mean[j]).all()
            continue
        assert_allclose(mean[j], seen.mean(axis=0), rtol=1e-12, atol=1e-15)
        assert_allclose(delta[j], np.sqrt(np.mean(np.sum((seen - seen.mean(axis=0)) ** 2, axis=1))), atol=1e-15)


@given(st.floats(0.01, 100), st.integers(0, 100))
def test_a_shrinking_map_scores_better_which_is_why_it_is_not_the_only_score(factor, seed):
    clouds = np.random.default_rng(seed).standard_normal((4, 6, 2))
    assert_allclose(metrics.consistency(factor * clouds), factor * metrics.consistency(clouds), rtol=1e-12)


def test_wrong_shapes_are_refused():
    with pytest.raises(InvalidObservations, match="expected \\(clouds, points, dimension\\)"):
        metrics.consistency(np.zeros((3, 2)))

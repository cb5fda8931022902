"""Observations that neither the deformation of the clouds nor the noise explains.

They are judged by a registration that deforms and that wrong matches do not distort: the fitted one if it chose its
own settings, otherwise kernel warps with automatic settings.  A rigid or affine map is no such judge.  Its residuals
are the deformation itself, and where different clouds saw neighbouring landmarks, their means differ by the
deformation too, so that not even smooth warps from that map predict the corners of a sheet.

The leave-one-out residuals r_tj of correct observations differ in size between the clouds and between the parts of
the map.  With  v_j  the median of r_ui over all clouds u and over the landmarks i next to j, and with  c_t  the median
of r_tj / v_j over the landmarks j, the usual length of r_tj is  c_t v_j.  An observation is an outlier if

    r_tj > SPREADS max(sigma, sigma_tj)   and   r_tj > RIGID_DISTANCES median |displacement|

sigma and sigma_tj are the standard deviations for which noise has the median of all residuals and the median c_t v_j.
Medians are those of the correct observations unless half of the matches are wrong.  Of d + 2 observations, all but one
determine an affine map, so that one wrong observation makes all residuals equally unlikely: clouds with so few are not
judged.  The error rates of this rule are
measured on scenes that were not used to choose it (docs/trust.md, "The diagnosis").
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.spatial import KDTree
from scipy.stats import chi

from ...errors import KernelGPAError, KernelGPAWarning, collected_warnings
from ...estimators.models import KernelGPA
from ...typing import Array, BoolArray, IndexArray
from ...warps.automatic import evenly_spaced
from .finding import CheckNotPossible, FittedRegistration

SPREADS = 12.0  # standard deviations of the residuals that are usual there
RIGID_DISTANCES = 3.0  # in median distances of all observations from the map after rigid motions: deformation reaches 2
NEIGHBOURS = 6  # landmarks whose residuals are compared
EQUALLY_NEAR = 1e-6  # relative: neighbours at the same distance count alike, so that rounding does not choose
MOST_JUDGED_CLOUDS, MOST_JUDGED = 200, 20_000  # clouds, and observations, that the judge registers
MOST_EXACT = 300  # landmarks up to which the kernel warps of the judge are exact, and its inducing points otherwise


def judge_of(gpa: FittedRegistration, lengths: Array) -> tuple[FittedRegistration, IndexArray]:  # (n, m) -> (k,)
    """The registration that judges single observations, and the clouds in it.

    Of many clouds or landmarks it registers half those with the longest residuals, in which outliers are, and half a
    sample of the others, which makes the medians those of correct observations.
    """
    everyone = np.arange(len(lengths))
    if gpa.automatic_ is not None and "robust" in gpa.automatic_.settings:
        return gpa, everyone
    longest = np.nan_to_num(lengths)
    clouds = _judged(everyone, longest.max(axis=1), MOST_JUDGED_CLOUDS)
    landmarks = _judged(gpa.shared_landmarks_, longest[clouds].max(axis=0), MOST_JUDGED // len(clouds))
    observations = gpa.observations_.at(clouds)
    if len(landmarks) < len(gpa.shared_landmarks_):
        observations = observations.hide(~np.isin(np.arange(lengths.shape[1]), landmarks) & observations.visible)
    inducing = MOST_EXACT if len(landmarks) > MOST_EXACT else None
    kernel = KernelGPA(inducing=inducing, mirrored=gpa.get_params(deep=False).get("mirrored", "leave-out"))
    with warnings.catch_warnings(), collected_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        try:
            return kernel.fit(observations), clouds
        except KernelGPAError as error:
            reason = f"single observations are judged by kernel warps, which cannot be fitted to these data ({error})"
            raise CheckNotPossible(reason) from error


def _judged(indices: IndexArray, lengths: Array, most: int) -> IndexArray:
    """All indices, or half those with the greatest lengths and half a sample of the others."""
    if len(indices) <= most:
        return indices
    order = indices[np.argsort(-lengths[indices], kind="stable")]
    others = evenly_spaced(np.sort(order[most // 2 :]), most - most // 2)
    return np.union1d(order[: most // 2], others)


def limits(
    residuals: Array,  # (n, m) scaled, NaN where unseen
    displacements: Array,  # (n, m, d) from the map, after rigid motions
    positions: Array,  # (m, d) the map, NaN where unknown
    rounding: float,
) -> Array:  # (n, m)
    """The lengths from which residuals are those of outliers."""
    usual = np.fmax(float(np.nanmedian(residuals)), _usual_lengths(residuals, positions))
    deformation = float(np.nanmedian(np.linalg.norm(displacements, axis=2)))
    noise = SPREADS * usual / chi(displacements.shape[2]).median()
    longest = np.maximum(noise, max(RIGID_DISTANCES * deformation, rounding))
    return np.where(enough_to_judge(residuals, displacements.shape[2])[:, None], longest, np.inf)


def enough_to_judge(residuals: Array, dimension: int) -> BoolArray:  # (n, m) -> (n,)
    """Whether each cloud has enough residuals to tell which of its observations is wrong."""
    return np.asarray(np.isfinite(residuals).sum(axis=1) > dimension + 2)


def _usual_lengths(residuals: Array, positions: Array) -> Array:  # (n, m)
    """c_t v_j; NaN for clouds without residuals and for landmarks that have none around them."""
    around = np.full(len(positions), np.nan)
    known = np.flatnonzero(np.isfinite(positions[:, 0]) & ~np.isnan(residuals).all(axis=0))
    tree = KDTree(positions[known])
    distances = tree.query(positions[known], k=min(NEIGHBOURS + 1, len(known)))[0]
    reach = np.reshape(distances, (len(known), -1))[:, -1] * (1 + EQUALLY_NEAR)
    for j, near in zip(known, tree.query_ball_point(positions[known], reach), strict=True):
        around[j] = np.nanmedian(residuals[:, known[near]])
    ratios = residuals / np.where(around > 0, around, np.nan)
    some = ~np.isnan(ratios).all(axis=1)
    of_clouds = np.full((len(residuals), 1), np.nan)
    of_clouds[some, 0] = np.nanmedian(ratios[some], axis=1)
    return np.asarray(of_clouds * around)

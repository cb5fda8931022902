"""AffineGPA, TPSGPA and KernelGPA: each stores its settings and names its family of warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..errors import InvalidSetting
from ..gauge.baselines import factorisation
from ..gauge.initial import Start
from ..gauge.scales import D_MODES, fix_gauge
from ..observations.stacked import StackedClouds
from ..spectrum.operator import CostOperator
from ..typing import Array
from ..warps import AffineFamily, Family, KernelFamily, Smoothing, ThinPlateFamily
from ..warps.automatic import Search
from ..warps.kernels import Kernel, as_kernel
from .deformable import PROVISIONAL_BANDWIDTH, PROVISIONAL_SMOOTHING, DeformableGPA
from .registration import Solution
from .settings import bandwidth_number, is_automatic, smoothing_values, whole_number

MOST_CONTROL_POINTS = 25  # per axis: 15,625 in space
FEWER_INDUCING = 400  # inducing points if kernels at all points need more memory than is available
# values that are tried first; of equal ones the first wins
BANDWIDTHS = (0.4, 1.0, 0.15, 2.5)
SMOOTHINGS = (1.0, 1e-2, 1e-4, 1e-6)
# multiples of size^(4 - d), with the size the root mean square distance of the map's landmarks from their centre
THIN_PLATE_SMOOTHINGS = (1.0, 1e2, 1e-2, 1e-4, 1e-6, 1e-8)


class AffineGPA(DeformableGPA):
    """Affine warps.

    Parameters
    ----------
    method : {"spectral", "svd"}, default="spectral"
        "svd" is the classical factorisation (Tomasi and Kanade), for comparison; it needs every landmark seen by every
        cloud.
    modes, scale_method, robust, n_jobs, mirrored
        As in :class:`KernelGPA`, except that ``robust`` is None by default.

    Attributes
    ----------
    map_, rotations_, translations_, warps_, scales_, eigenvalues_, spectrum_, shared_landmarks_ : as in KernelGPA
        The map (m, d), the poses (n, d, d) and (n, d), and what else the solve gives.
    residuals_, scaled_residuals_, sensor_residuals_, weights_ : arrays (n, m)
        Leave-one-out residuals, and the weights of the last solve.
    automatic_, robust_, certified_, certificate_, mirrored_, observations_, registration_ : as in KernelGPA
        The loss, the certificate, the mirror images and the data.
    smoothing_, size_factors_, inducing_errors_ : float, arrays (n,)
        0, all 1 and all 0: affine warps have no such settings.

    Examples
    --------
    >>> from kernelgpa import AffineGPA, simulate
    >>> scene = simulate.liver(clouds=6, seed=0)
    >>> AffineGPA().fit(scene.points).map_.shape == scene.points.shape[1:]
    True
    """

    def __init__(
        self,
        method: str = "spectral",
        modes: str | int = "auto",
        scale_method: str = "refined",
        robust: str | None = None,
        n_jobs: int | None = None,
        mirrored: str = "leave-out",
    ) -> None:
        self.method = method
        self.modes = modes
        self.scale_method = scale_method
        self.robust = robust
        self.n_jobs = n_jobs
        self.mirrored = mirrored

    @property
    def _solves_from_sum(self) -> bool:
        return super()._solves_from_sum and self.method == "spectral"

    def _family(self) -> Family:
        if self.method not in ("spectral", "svd"):
            raise InvalidSetting(f"method is {self.method!r}; expected 'spectral' or 'svd'")
        if self.method == "svd" and (self.modes not in ("auto", *D_MODES) or self.robust is not None):
            raise InvalidSetting("method='svd' takes modes='auto', 'paper' or 'program' and no robust loss")
        return AffineFamily()

    def _solve(
        self,
        stacked: StackedClouds,
        cost: CostOperator,
        start: Start,
        with_spectrum: bool = True,
    ) -> Solution:
        if self.method == "spectral":
            return super()._solve(stacked, cost, start, with_spectrum)
        spectrum = factorisation(stacked, cost)
        # "auto" mixes the d vectors freely, as the classical method does
        modes, rotations = (self.modes, None) if self.modes in D_MODES else (stacked.rank, start.rotations)
        gauge, optimum = fix_gauge(spectrum, stacked, modes, self.scale_method, rotations)
        return Solution(gauge, spectrum, optimum=optimum)


class TPSGPA(DeformableGPA):
    """Thin-plate warps on a grid of control points (DefGPA, 2022).

    Parameters
    ----------
    control_points : int, default=5
        Control points per axis, on a grid in the box of each cloud's principal axes.
    smoothing : float, sequence of n floats or "auto", default="auto"
        Weight of the bending energy.  A number carries a unit, length^(4 - d) of the data (0.01 in the paper).  A
        sequence has one value per cloud.  "auto" chooses it by leave-one-out residuals, so that the result does not
        depend on the unit of the data.
    modes, scale_method, robust, n_jobs, mirrored
        As in :class:`KernelGPA`, except that ``robust`` is None by default.

    Attributes
    ----------
    map_, rotations_, translations_, warps_, scales_, eigenvalues_, spectrum_, shared_landmarks_ : as in KernelGPA
        The map (m, d), the poses (n, d, d) and (n, d), and what else the solve gives.
    residuals_, scaled_residuals_, sensor_residuals_, weights_ : arrays (n, m)
        Leave-one-out residuals, and the weights of the last solve.
    smoothing_ : float or tuple
        The value that was used, or one per cloud.
    automatic_, robust_, certified_, certificate_, mirrored_, observations_, registration_ : as in KernelGPA
        The settings that were chosen, the certificate, the mirror images and the data.
    size_factors_, inducing_errors_ : arrays (n,)
        All 1 and all 0: thin-plate warps have no such settings.

    Examples
    --------
    >>> from kernelgpa import TPSGPA, simulate
    >>> scene = simulate.liver(clouds=6, seed=0)
    >>> TPSGPA(control_points=3).fit(scene.points).transform(scene.points[2], cloud=2).shape
    (201, 3)
    """

    def __init__(
        self,
        control_points: int = 5,
        smoothing: float | Sequence[float] | str = "auto",
        modes: str | int = "auto",
        scale_method: str = "refined",
        robust: str | None = None,
        n_jobs: int | None = None,
        mirrored: str = "leave-out",
    ) -> None:
        self.control_points = control_points
        self.smoothing = smoothing
        self.modes = modes
        self.scale_method = scale_method
        self.robust = robust
        self.n_jobs = n_jobs
        self.mirrored = mirrored

    def _family(self) -> Family:
        count = whole_number("control_points", self.control_points, least=2)
        if count > MOST_CONTROL_POINTS:
            raise InvalidSetting(f"control_points is {count} per axis; use at most {MOST_CONTROL_POINTS}")
        given = PROVISIONAL_SMOOTHING if is_automatic(self.smoothing) else self.smoothing
        return ThinPlateFamily(count, smoothing_values(given))

    def _search(self, positions: Array, free: bool = False) -> Search:
        (m, d), count = positions.shape, int(self.control_points)
        if not free and not is_automatic(self.smoothing):
            return Search(lambda _: self._family(), [[_typical(self._family().smoothing)]])
        size = float(np.linalg.norm(positions - positions.mean(axis=0)) / np.sqrt(m)) or 1.0
        grid = [value * size ** (4 - d) for value in THIN_PLATE_SMOOTHINGS]
        return Search(lambda settings: ThinPlateFamily(count, settings[-1]), [grid])


class KernelGPA(DeformableGPA):
    """Kernel warps (KernelGPA, 2023): the most flexible family, and the default choice.

    Parameters
    ----------
    kernel : str or kernel object or callable, default="gaussian"
        "gaussian", "laplacian", "matern32", "matern52", "wendland", or any positive definite function of
        distance / sigma.
    bandwidth : float or "auto", default="auto"
        sigma of a cloud as a multiple of the mean distance between its points; free of units.  "auto" chooses it by
        leave-one-out residuals in the frames of the clouds (theory, eq. 20).
    smoothing : float, sequence of n floats or "auto", default="auto"
        mu, the weight of the part of a warp that is not affine; large values give the affine registration.  A sequence
        has one value per cloud (mu_t of the paper).  "auto" chooses it together with the bandwidth.
    modes : {"auto", "paper", "program"} or int, default="auto"
        "auto" is the faithful map (theory, eq. 16).  "paper" is the published formulation: the d bottom eigenvectors
        times R_g' sqrt(Lambda), with R_g and the scales as rigid as possible; its columns span the d bottom
        eigenvectors.  "program" is what the authors' program computes: R_g = I, with an axis of the map for each
        eigenvector; if its scales descend as the eigenvalues ascend, it is the optimum of the eigenvalue problem for
        them (Theorem 3 of the paper).  A number is the map built from this many eigenvectors.  For all of them
        ``certified_`` reports whether the rotations are proven to be globally optimal.
    scale_method : {"refined", "closed-form", "pairwise", "pairwise-published"}, default="refined"
        How ``modes="paper"`` and ``"program"`` find the scales.  The last two are the method of 2022, corrected and
        with the translation at unseen points too, for comparison.
    inducing : int, optional
        The number of points of each cloud, chosen by farthest-point sampling, at which kernels are centred.  By default
        they are centred at all points if that fits into memory.
    robust : {"auto", "huber", "tukey", "geman-mcclure"} or None, default="auto"
        Loss that lowers the weight of wrong matches, from solve to solve.  "auto" uses "tukey" if the residuals have
        heavy tails and the loss lowers the mean of the square roots of their lengths by more than 20 %, and none
        otherwise.
    n_jobs : int, optional
        Threads for work on several clouds; by default one per core for clouds of 400 landmarks or more.
    mirrored : {"leave-out", "keep", "error"}, default="leave-out"
        Whether solid clouds that are mirror images of the others are left out of the map (they are still placed), take
        part in it, or raise InvalidObservations.  A cloud counts as a mirror image if it is solid and
        reflecting it reduces the squared distances to a tenth or less (theory, section 12); of thinner clouds, a
        warning reports this and they are kept.

    Attributes
    ----------
    map_ : array (m, d)
        The map, centred, in its principal axes; NaN for landmarks that no participating cloud saw.
    rotations_, translations_ : arrays (n, d, d), (n, d)
        Poses: ``rotations_[t] @ p + translations_[t]`` lies near the map.
    warps_ : list of Warp
        One function per cloud, from the cloud's frame into the map.
    scales_ : array (d,)
        Root of the sum of squares of the map along its axes, largest first (sqrt(Lambda) of the paper).
    eigenvalues_ : array (d + 1,)
        Bottom eigenvalues of the total cost, the constant one left out; the gap after the d-th shows whether the
        published map is unique.
    spectrum_ : Spectrum
        The same with their eigenvectors and the gap.
    residuals_ : array (n, m)
        Lengths of the leave-one-out residuals, in the map; NaN where unseen.
    sensor_residuals_ : array (n, m)
        Lengths of the leave-one-out residuals of the warps from the map, in the frame of each cloud.
    scaled_residuals_ : array (n, m)
        The same, times the standard deviation of the noise over that expected of each residual: lengths that compare.
    weights_ : array (n, m)
        Weights of the last solve: as given, lowered by a robust loss.
    bandwidth_, smoothing_, robust_ : float, float or tuple, str or None
        The values that were used.
    automatic_ : AutomaticChoice or None
        Which settings the fit chose and why; ``print(gpa.automatic_)`` states it in words.
    certified_ : bool or None
        Whether the rotations are proven to be the global optimum of their cost, for the weights and the gamma of the
        last solve (theory, eqs. 16b and 16c).  None if they come in closed form (``scale_method``).
    certificate_ : Certificate or None
        The same with ``gap``, a bound on how much larger the explained sum of squares could be, as a share of it.
    shared_landmarks_ : array of int
        Landmarks that two or more participating clouds saw; the map is solved from these.
    mirrored_ : list
        Names of the clouds that are mirror images of the others, whether they were left out of the map or kept.
    observations_ : Observations
        The checked data.
    inducing_errors_ : array (n,)
        Bound on the error that the inducing points cause in each warp, in the map; 0 without them.
    size_factors_ : array (n,)
        The factors by which clouds are scaled before their poses: all 1, except with ``RigidGPA(scaling=True)``.
    registration_ : Registration
        The record from which all of these are read.

    Notes
    -----
    Each cloud's warp is eliminated in closed form (theory, eqs. 6 and 7).  With ``modes="auto"`` the map minimises
    eq. 16, a combination of the rigid cost and the summed cost of the warps; with the other ``modes`` it is built from
    the bottom eigenvectors of the summed cost (eqs. 10 to 14).  The rotations are refined by a local ascent that starts
    from the affine registration.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, simulate
    >>> scene = simulate.liver(clouds=6, hidden=0.2, seed=0)
    >>> gpa = KernelGPA().fit(scene.points)
    >>> gpa.map_.shape
    (201, 3)
    >>> gpa.transform(scene.points[3], cloud=3).shape  # any points of cloud 3, taken into the map
    (201, 3)
    """

    def __init__(
        self,
        kernel: str | Kernel | Callable[[Array], Array] = "gaussian",
        bandwidth: float | str = "auto",
        smoothing: float | Sequence[float] | str = "auto",
        modes: str | int = "auto",
        scale_method: str = "refined",
        inducing: int | None = None,
        robust: str | None = "auto",
        n_jobs: int | None = None,
        mirrored: str = "leave-out",
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.smoothing = smoothing
        self.modes = modes
        self.scale_method = scale_method
        self.inducing = inducing
        self.robust = robust
        self.n_jobs = n_jobs
        self.mirrored = mirrored

    def _family(self) -> KernelFamily:
        bandwidth = PROVISIONAL_BANDWIDTH if is_automatic(self.bandwidth) else self.bandwidth
        smoothing = PROVISIONAL_SMOOTHING if is_automatic(self.smoothing) else self.smoothing
        return KernelFamily(
            as_kernel(self.kernel),
            bandwidth_number(bandwidth),
            smoothing_values(smoothing),
            None if self.inducing is None else whole_number("inducing", self.inducing, least=1),
        )

    @property
    def bandwidth_(self) -> float:
        """The bandwidth that was used."""
        return float(self._fitted.settings["bandwidth"])

    def _search(self, positions: Array, free: bool = False) -> Search:
        family = self._family()
        bandwidths = BANDWIDTHS if free or is_automatic(self.bandwidth) else [family.bandwidth]
        smoothings = SMOOTHINGS if free or is_automatic(self.smoothing) else [_typical(family.smoothing)]
        return Search(
            lambda settings: replace(family, bandwidth=settings[0], smoothing=settings[1]), (bandwidths, smoothings)
        )

    def _smaller_family(self, family: Family) -> Family | None:
        return replace(self._family(), inducing=FEWER_INDUCING) if self.inducing is None else None


def _typical(smoothing: Smoothing) -> float:
    """The smoothing of all clouds, or the median over them."""
    return float(np.median(smoothing))

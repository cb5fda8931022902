"""Each eigenvalue solver by its name, operators of each kind, and the eigen-decomposition they are compared with."""

from __future__ import annotations

import numpy as np
from numpy.linalg import eigh, norm
from numpy.testing import assert_allclose

from kernelgpa import Observations
from kernelgpa.spectrum.eigenpairs import bottom_eigenpairs
from kernelgpa.spectrum.krylov import RESIDUAL
from kernelgpa.spectrum.operator import OperatorLimits
from kernelgpa.spectrum.total import total_cost
from kernelgpa.warps import AffineFamily, KernelFamily, LowRankFactor, ThinPlateFamily, reduce
from kernelgpa.warps.kernels import Gaussian, Wendland

EPS = np.finfo(float).eps
LAPACK, CHOLESKY, WOODBURY = "dense: LAPACK, partial", "dense: Cholesky and Krylov", "low-rank: Woodbury and Krylov"
SOLVERS = [LAPACK, CHOLESKY, WOODBURY]


THIN = {
    "affine": AffineFamily(),
    "thin-plate": ThinPlateFamily(2, 0.01),
    "inducing": KernelFamily(Gaussian(), 0.5, 0.1, inducing=10),
}
EXACT = {"gaussian": KernelFamily(Gaussian(), 0.3, 0.1), "wendland": KernelFamily(Wendland(), 1.0, 0.01)}
FAMILIES = {**THIN, **EXACT}
PAIRS = [(name, solver) for name in FAMILIES for solver in SOLVERS if name in THIN or solver != WOODBURY]


LIMITS = {
    LAPACK: OperatorLimits(dense=10**6, direct=10**6),
    CHOLESKY: OperatorLimits(dense=10**6, direct=0),
    WOODBURY: OperatorLimits(dense=0, direct=0),
}


def solve_with(clouds, m, dimension, modes, solver, metric=None):
    """Return the bottom eigenpairs by the given solver, also for small problems."""
    spectrum = bottom_eigenpairs(total_cost(clouds, m, LIMITS[solver]), dimension, modes, metric)
    assert spectrum.solver == solver
    return spectrum


def total_matrix(clouds, m):
    Q = np.zeros((m, m))
    for cloud in clouds:
        Q[np.ix_(cloud.seen, cloud.seen)] += cloud.cost_matrix()
    return Q


def reference(Q):
    """Return all eigenpairs on the complement of the constants."""
    m = len(Q)
    complement = np.linalg.qr(np.column_stack([np.ones(m), np.eye(m)[:, 1:]]))[0][:, 1:]
    values, vectors = eigh(complement.T @ Q @ complement)
    return values, complement @ vectors


def assert_bottom(spectrum, Q, modes):
    """Compare the values, and the span of the vectors if a gap determines it."""
    values, vectors = reference(Q)
    rounding = 10 * EPS * np.trace(Q)
    assert spectrum.values.shape == (modes + 1,)
    assert spectrum.vectors.shape == (len(Q), modes)
    assert_allclose(spectrum.values, values[: modes + 1], rtol=0, atol=rounding)
    assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(modes), rtol=0, atol=1000 * EPS)
    assert_allclose(spectrum.vectors.sum(axis=0), 0, rtol=0, atol=1000 * EPS * np.sqrt(len(Q)))
    residual = RESIDUAL * values[modes] + rounding  # of each vector; the span rotates by at most this over the gap
    assert norm(Q @ spectrum.vectors - spectrum.vectors * spectrum.values[:modes], axis=0).max() <= 2 * residual
    for k in range(1, modes + 1):
        gap = values[k] - values[k - 1]
        if gap > 1e3 * residual:
            inside = spectrum.vectors[:, :k]
            outside = inside - vectors[:, :k] @ (vectors[:, :k].T @ inside)
            assert norm(outside) <= 10 * np.sqrt(k) * residual / gap


def reduced(family, points):
    return [reduce(family, cloud) for cloud in Observations.from_array(points).clouds]


class PrescribedSpectrum:
    """A reduced cloud with the given smallest eigenvalues."""

    def __init__(self, values, m=160, seed=0, thin=False):
        columns = np.column_stack([np.ones(m), np.random.default_rng(seed).standard_normal((m, m - 1))])
        basis = np.linalg.qr(columns)[0]
        self.values = np.concatenate([[0.0], values, np.ones(m - 1 - len(values)) if thin else _remaining(values, m)])
        self.seen = np.arange(m)
        self._form = (basis * self.values) @ basis.T
        few = len(values) + 1
        self._factor = LowRankFactor(np.ones(m), basis[:, :few] * np.sqrt(1 - self.values[:few])) if thin else None

    def cost_matrix(self):
        return 0.5 * (self._form + self._form.T)

    def sparse_kernel(self):
        return None

    def low_rank_factor(self):
        return self._factor


def _remaining(values, m):
    """Return closely spaced eigenvalues right above the given ones."""
    top = max(values)
    return np.linspace(top + 1e-4, top + 2.0, m - 1 - len(values))

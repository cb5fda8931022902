"""Clouds that are reduced in stacks equal clouds that are reduced one by one."""

from __future__ import annotations

import numpy as np
import pytest

from kernelgpa._numerics import lapack
from kernelgpa.errors import NumericalFailure
from kernelgpa.observations.cloud import cloud_of
from kernelgpa.warps import AffineFamily, KernelFamily, ThinPlateFamily
from kernelgpa.warps.exact import LARGEST_STACKED, DenseCloud, reduce_clouds
from kernelgpa.warps.kernels import KERNELS, Kernel

SIZES = [30, 12, 30, 29, 28, 11, 30, 9, 12, 41, 40, LARGEST_STACKED + 1]
# relative; the condition number of these kernel matrices, at most (s + mu) / mu = 3000, times the machine precision
SAME = 1e-10


def clouds_of(sizes, d, rank, seed=0, far=0.0):
    rng = np.random.default_rng(seed)
    made = []
    for t, size in enumerate(sizes):
        points = rng.standard_normal((size, d)) * (np.arange(d) < rank) * rng.uniform(0.1, 10)
        turned = points @ np.linalg.qr(rng.standard_normal((d, d)))[0] + far
        made.append(cloud_of(turned, range(size), t, rng.uniform(0.2, 3, size)))
    return made


def assert_same(stacked, single, targets):
    np.testing.assert_allclose(stacked.cost_matrix(), single.cost_matrix(), atol=SAME)
    np.testing.assert_allclose(stacked.diagonal(), single.diagonal(), atol=SAME)
    (first,), (second,) = stacked.fit_all([targets]), single.fit_all([targets])
    query = stacked._cloud.points[::2] * 1.1
    np.testing.assert_allclose(first(query), second(query), atol=SAME * (1 + np.abs(query).max()))
    np.testing.assert_allclose(stacked.variance(query), single.variance(query), rtol=1e-8, atol=1e-8)
    # multiples of rounding errors, of which only the size is known
    assert 0.1 < stacked.rounding / single.rounding < 10


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize(("d", "rank"), [(2, 2), (3, 3), (3, 2), (2, 1)])
def test_stacked_clouds_equal_single_ones(name, d, rank):
    family = KernelFamily(KERNELS[name], 0.4, 0.1)
    if family.kernel.order:
        pytest.skip("this kernel is used at control points only")
    clouds = clouds_of(SIZES, d, rank)
    smoothing = np.geomspace(0.1, 2, len(clouds)).tolist()
    weights = [cloud.weights for cloud in clouds]
    prepared = [family.prepare(cloud) for cloud in clouds]
    rng = np.random.default_rng(1)
    for _ in range(3):  # from the second time on, kernel matrices are kept
        stacked = reduce_clouds(prepared, smoothing, weights, 1)
        for one, cloud, mu, some in zip(stacked, clouds, smoothing, weights, strict=True):
            assert one.seen is cloud.seen
            assert_same(one, family.prepare(cloud).reduce(mu, some), rng.standard_normal(cloud.points.shape))
        weights = [some * rng.uniform(0.1, 1, len(some)) for some in weights]


def test_a_stack_may_mix_families_ranks_and_kernels():
    families = [KernelFamily(KERNELS["gaussian"], 0.3, 0.1), AffineFamily(), ThinPlateFamily(3, 0.1)]
    families += [KernelFamily(KERNELS["laplacian"], 0.3, 0.1), KernelFamily(KERNELS["gaussian"], 0.3, 0.1, 10)]
    clouds = clouds_of([30] * 10, 3, 3) + clouds_of([30] * 5, 3, 2, seed=2)
    prepared = [families[t % 5].prepare(cloud) for t, cloud in enumerate(clouds)]
    stacked = reduce_clouds(prepared, [0.1] * 15, [cloud.weights for cloud in clouds], 1)
    for t, (one, cloud) in enumerate(zip(stacked, clouds, strict=True)):
        single = families[t % 5].prepare(cloud).reduce(0.1, cloud.weights)
        assert type(one) is type(single)
        np.testing.assert_allclose(one.cost_matrix(), single.cost_matrix(), atol=SAME)


class Indefinite(Kernel):
    def value(self, r):
        return np.where(r > 0, 2.0, 1.0)

    def derivative_over_r(self, r):
        return np.zeros_like(r)


def test_a_stack_names_the_cloud_that_cannot_be_factorised():
    from kernelgpa.warps.exact import PreparedDense

    good, bad = KernelFamily(KERNELS["gaussian"], 0.3, 0.1), Indefinite()
    clouds = clouds_of([20] * 3, 3, 3)
    parts = [good._exact_part(cloud) for cloud in clouds]
    prepared = [
        PreparedDense(cloud, type(part)(bad, part.centres, part.sigma, part.weights))
        for cloud, part in zip(clouds, parts, strict=True)
    ]
    with pytest.raises(NumericalFailure, match="cloud 0: the kernel matrix plus the smoothing"):
        reduce_clouds(prepared, [1e-3] * 3, [cloud.weights for cloud in clouds], 1)
    assert isinstance(reduce_clouds(prepared, [1e3] * 3, [cloud.weights for cloud in clouds], 1)[0], DenseCloud)


def test_stacks_of_the_wrong_shape_are_refused():
    stack = np.eye(4)[None].repeat(2, axis=0)
    for wrong, sizes in ((stack, [4]), (stack, [4, 5]), (stack[:, :, ::2], [2, 2]), (stack, [4, 0])):
        with pytest.raises(ValueError, match="do not belong together"):
            lapack.invert_stack(wrong, sizes)
    with pytest.raises(ValueError, match="do not belong together"):
        lapack.factorise_stack(stack, [4, 4], np.zeros((2, 1, 3)))

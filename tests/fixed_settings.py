"""Estimators with fixed settings, for tests of one solve; the defaults choose their settings from the data."""

from __future__ import annotations

from kernelgpa import TPSGPA, KernelGPA, StreamingGPA


def fixed_kernel(kernel="gaussian", bandwidth=0.25, smoothing=0.1, robust=None, kind=KernelGPA, **others):
    """Kernel warps with the settings of the paper's liver and without a robust loss."""
    return kind(kernel, bandwidth, smoothing, robust=robust, **others)


def fixed_tps(control_points=5, smoothing=0.01, **others):
    """Thin-plate warps with the settings of the paper."""
    return TPSGPA(control_points, smoothing, **others)


def fixed_stream(estimator=None, window=None, automatic=False, **settings):
    """A stream of kernel warps with these settings, unless an estimator is given."""
    used = fixed_kernel(**settings) if estimator is None else estimator
    return StreamingGPA(used, window=window, automatic=automatic)

"""Kernel warps with fixed settings, so that figures of speed and maps compare between versions of the library."""

from __future__ import annotations

from kernelgpa import KernelGPA


def fixed_kernel(bandwidth=0.25, smoothing=0.1, robust=None, **others):
    """The settings of the paper's liver, without a robust loss."""
    return KernelGPA(bandwidth=bandwidth, smoothing=smoothing, robust=robust, **others)

"""What a fit would take is known before it is begun, and kept to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelgpa.deformable
from conftest import scene
from kernelgpa import TPSGPA, Forecast, InvalidSetting, KernelGPA, KernelGPAWarning, TooLarge, forecast, metrics
from kernelgpa.forecast import DENSE, EXACT, ITERATED, PROGRAM, WOODBURY

MEASURE = """
from pathlib import Path
import numpy as np
from kernelgpa import KernelGPA
n, m, inducing = {arguments}
rng = np.random.default_rng(0)
body = rng.standard_normal((m, 3)) * [3, 2, 1]
points = np.stack([body + 0.1 * np.sin(body + t) for t in range(n)]) + 0.01 * rng.standard_normal((n, m, 3))
KernelGPA(inducing=inducing).fit(points)
status = Path('/proc/self/status').read_text().splitlines()
print(1024 * int(next(line.split()[1] for line in status if line.startswith('VmHWM:'))))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc, which Linux has")
@pytest.mark.parametrize(
    ("arguments", "path"),
    [((6, 2000, None), EXACT), ((6, 12000, 300), WOODBURY), ((12, 4000, 200), DENSE), ((20, 6000, 320), ITERATED)],
    ids=str,
)
def test_the_forecast_is_what_a_fit_takes(arguments, path):
    n, m, inducing = arguments
    expected = forecast(n, m, inducing=inducing)
    assert expected.path == path
    code = MEASURE.format(arguments=arguments)
    measured = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    nothing = MEASURE.format(arguments=(3, 30, None))
    program = int(subprocess.run([sys.executable, "-c", nothing], capture_output=True, text=True, check=True).stdout)
    # what is counted, without the interpreter and its libraries
    assert 0.5 < (measured - program) / (expected.memory - PROGRAM) < 1.3


def allow(monkeypatch, memory):
    """A machine with so much memory left."""

    def poor(*arguments, **named):
        made = forecast(*arguments, **named)
        return Forecast(made.path, made.memory, memory)

    monkeypatch.setattr(kernelgpa.deformable, "forecast", poor)


def test_a_fit_that_would_not_fit_becomes_thin_and_says_so(monkeypatch):
    points, _ = scene(n=4, m=900, hidden=0.0, bend=0.05)
    exact = KernelGPA(bandwidth=0.5).fit(points)
    allow(monkeypatch, forecast(4, 900, inducing=400).memory)
    with pytest.warns(KernelGPAWarning, match=r"exact warps would take .* GB.*inducing=400 is used instead"):
        thin = KernelGPA(bandwidth=0.5).fit(points)
    assert len(thin.warps_[0].centres) == 400
    assert metrics.map_error(thin.map_, exact.map_) < 1e-3 * exact.scales_[0] / np.sqrt(900)


@pytest.mark.parametrize("model", [KernelGPA(), KernelGPA(inducing=50), TPSGPA()], ids=repr)
def test_what_fits_in_no_way_is_refused_with_the_figures(model, monkeypatch):
    allow(monkeypatch, 1000)
    with pytest.raises(TooLarge, match=r"would take 0.\d\d GB of 0.00 GB free"):
        model.fit(scene()[0])


ODD = [(3, 10**400), (10**30, 3), (3, 5000, 3, None, 1.0, -5), (3, 5000, 3, None, 1.0, np.nan), (3, 10, 3, 10**20)]


def test_nonsense_is_not_forecast():
    for arguments in (
        (0, 10),
        (3, 10, 4),
        (3, 10, 3, -1),
        (3, 10, 3, None, 0.0),
        (2.5, 10),
        (3, "a"),
        (np.nan, 3),
        *ODD,
    ):
        with pytest.raises(InvalidSetting, match=r"forecast of .* expected"):
            forecast(*arguments)
    assert forecast(np.int32(100_000), np.int32(100_000)).memory > 1e15

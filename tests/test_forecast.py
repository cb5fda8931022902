"""The memory of a fit is forecast before it starts, and the fit stays within it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelgpa.estimators.deformable
from conftest import scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import Forecast, InvalidSetting, KernelGPAWarning, TooLarge, forecast, metrics
from kernelgpa._numerics import system_memory
from kernelgpa.spectrum.forecast import DENSE, EXACT, ITERATIVE, PROGRAM, WOODBURY

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
    [((6, 2000, None), EXACT), ((6, 12000, 300), WOODBURY), ((12, 4000, 200), DENSE), ((20, 6000, 320), ITERATIVE)],
    ids=str,
)
def test_the_forecast_agrees_with_the_measured_memory(arguments, path):
    n, m, inducing = arguments
    expected = forecast(n, m, inducing=inducing)
    assert expected.path == path
    code = MEASURE.format(arguments=arguments)
    measured = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    nothing = MEASURE.format(arguments=(3, 30, None))
    program = int(subprocess.run([sys.executable, "-c", nothing], capture_output=True, text=True, check=True).stdout)
    # the memory of the fit, without the interpreter and its libraries
    assert 0.5 < (measured - program) / (expected.memory - PROGRAM) < 1.3


def allow(monkeypatch, memory):
    """Simulate a machine with so much free memory."""

    def limited(*arguments, **named):
        result = forecast(*arguments, **named)
        return Forecast(result.path, result.memory, memory)

    monkeypatch.setattr(kernelgpa.estimators.deformable, "forecast", limited)


def test_a_fit_beyond_the_memory_uses_inducing_points_and_warns(monkeypatch):
    points, _ = scene(n=4, m=900, hidden=0.0, bend=0.05)
    exact = fixed_kernel(bandwidth=0.5).fit(points)
    allow(monkeypatch, forecast(4, 900, inducing=400).memory)
    with pytest.warns(KernelGPAWarning, match=r"exact warps would take .* GB.*inducing=400 is used instead"):
        thin = fixed_kernel(bandwidth=0.5).fit(points)
    assert len(thin.warps_[0].centres) == 400
    assert metrics.map_error(thin.map_, exact.map_) < 1e-3 * exact.scales_[0] / np.sqrt(900)


@pytest.mark.parametrize("model", [fixed_kernel(), fixed_kernel(inducing=50), fixed_tps()], ids=repr)
def test_a_fit_beyond_the_memory_in_every_form_is_refused(model, monkeypatch):
    allow(monkeypatch, 1000)
    with pytest.raises(TooLarge, match=r"would take 0.\d\d GB of 0.00 GB free"):
        model.fit(scene()[0])


UNUSUAL = [(3, 10**400), (10**30, 3), (3, 5000, 3, None, 1.0, -5), (3, 5000, 3, None, 1.0, np.nan), (3, 10, 3, 10**20)]


def test_invalid_sizes_are_refused():
    for arguments in (
        (0, 10),
        (3, 10, 4),
        (3, 10, 3, -1),
        (3, 10, 3, None, 0.0),
        (2.5, 10),
        (3, "a"),
        (np.nan, 3),
        *UNUSUAL,
    ):
        with pytest.raises(InvalidSetting, match=r"forecast of .* expected"):
            forecast(*arguments)
    assert forecast(np.int32(100_000), np.int32(100_000)).memory > 1e15


# -- free memory --


def group(folder, **figures):
    """Write the files of a control group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in figures.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{value}\n")


def membership(root, text):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(text)


def test_all_control_groups_of_a_process_limit_its_memory(tmp_path):
    membership(tmp_path, "0::/system.slice/job/step\n")
    top = tmp_path / "sys/fs/cgroup"
    assert system_memory._left_in_groups(tmp_path) == system_memory.UNKNOWN  # no such folders
    group(top / "system.slice/job/step", memory_max="max", memory_current=100)
    assert system_memory._left_in_groups(tmp_path) == system_memory.UNKNOWN  # no limit
    group(top / "system.slice/job", memory_max=5000, memory_current=1000)
    group(top / "system.slice", memory_max=90_000, memory_current=1000)
    group(top / "other", memory_max=1, memory_current=1)
    assert system_memory._left_in_groups(tmp_path) == 4000
    group(top / "system.slice/job/step", memory_max="max", memory_high=600, memory_current=100)
    assert system_memory._left_in_groups(tmp_path) == 500
    group(top, memory_max=1500, memory_current=1400, memory_stat="anon 900\ninactive_file 300")
    assert system_memory._left_in_groups(tmp_path) == 400  # cached files can be evicted


def test_control_groups_of_version_1_limit_the_memory(tmp_path):
    membership(tmp_path, "4:cpu:/deep\n3:memory,hugetlb:/docker/abc\n1:name=systemd:/\n0::/\n")
    top = tmp_path / "sys/fs/cgroup/memory"
    group(top, memory_limit_in_bytes=7000, memory_usage_in_bytes=1000)  # the only group that a container sees
    assert system_memory._left_in_groups(tmp_path) == 6000
    group(top / "docker/abc", memory_limit_in_bytes=3000, memory_usage_in_bytes=1000)
    assert system_memory._left_in_groups(tmp_path) == 2000


def under_limit(code, beyond):
    """Run code in a process with the given bytes of address space beyond those of its imports."""
    limit = f"""
import resource
from pathlib import Path
import numpy as np
import warnings
from kernelgpa import KernelGPA, StreamingGPA, TooLarge, forecast
from kernelgpa._numerics.allocation import allocate
warnings.simplefilter("ignore")
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + {beyond}, size + {beyond}))
"""
    return subprocess.run([sys.executable, "-c", limit + code], capture_output=True, text=True, check=False)


linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits the address space as Linux does")


@linux
def test_the_limit_of_the_address_space_is_known():
    done = under_limit("print(forecast(3, 10).available)", 10**9)
    assert 5e8 < int(done.stdout) <= 10**9, done.stderr


@linux
def test_a_failed_allocation_raises_too_large():
    for shape in ("(20_000, 20_000)", "(2000, 2000)", "(10**9, 10**9)"):
        code = f"""
try:
    held = [allocate(*{shape}) for _ in range(100)]
except TooLarge as error:
    print(isinstance(error, MemoryError), error)
"""
        done = under_limit(code, 4 * 10**8)
        assert done.stdout.startswith("True the system has no "), done.stderr
        assert "use fewer landmarks" in done.stdout


@linux
@pytest.mark.parametrize("beyond", [450_000_000, 800_000_000])
def test_a_fit_with_enough_forecast_memory_succeeds(beyond):
    """Under a limit a fit is exact, or uses inducing points, or raises TooLarge, but never a bare MemoryError."""
    code = """
rng = np.random.default_rng(0)
for m in (200, 600, 900, 1200, 1800, 2600):
    body = rng.standard_normal((m, 3)) * [3, 2, 1]
    points = np.stack([body + 0.1 * np.sin(body + t) for t in range(4)]) + 0.01 * rng.standard_normal((4, m, 3))
    fits = forecast(4, m).fits
    try:
        exact = len(KernelGPA().fit(points).warps_[0].centres) == m
        print("exact" if exact else "thin", fits)
        assert exact == fits or m <= 400
    except TooLarge:
        print("refused")
        assert not fits
"""
    done = under_limit(code, beyond)
    assert done.returncode == 0, done.stderr
    results = done.stdout.splitlines()
    assert results[0] == "exact True"
    assert results[-1] != "exact True"

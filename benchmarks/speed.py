"""How fast it is: every figure as a ratio within one run.

    python benchmarks/speed.py all            every figure (some minutes)
    python benchmarks/speed.py short          the small ones (``make bench``)
    python benchmarks/speed.py fit large ...  those named

Times are the best of several repeats.  ``product`` is the time of one 2000 x 2000 matrix product in double precision
in the same process; the paper's form is benchmarks/paper_form.py.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import paper_form

from kernelgpa import KernelGPA, KernelGPAWarning, RigidGPA, metrics, selection
from kernelgpa.warps.gram import SparseLimits


def say(*words):
    print(*words, flush=True)  # noqa: T201


def best(function, repeats=3):
    """The least time of some repeats, in seconds."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return min(times)


def product_time():
    a = np.random.default_rng(0).standard_normal((2000, 2000))
    return best(lambda: a @ a, 7)


def scene(n, m, hidden=0.0, noise=1.0, seed=0):
    """A bent and turned ellipsoid surface of about 200 mm."""
    rng = np.random.default_rng(seed)
    body = rng.standard_normal((m, 3))
    body *= np.array([100.0, 70.0, 50.0]) / np.linalg.norm(body, axis=1)[:, None]
    points = np.empty((n, m, 3))
    for t in range(n):
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        turn[:, 0] *= np.linalg.det(turn)
        bent = body + 4 * np.sin(body / 40 + rng.uniform(0, 2 * np.pi, 3)) @ rng.standard_normal((3, 3))
        points[t] = (bent + noise * rng.standard_normal((m, 3))) @ turn.T + rng.uniform(-50, 50, 3)
        points[t, rng.random(m) < hidden] = np.nan
    return points


def row(work, figure, target, *times):
    say(f"| {work} | {figure} | {target} | {', '.join(times)} |")


def ms(seconds):
    return f"{1000 * seconds:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def figure_fit():
    """Fits of hundreds of landmarks against the paper's form."""
    for n, m, hidden, target, repeats in ((60, 201, 0.3, 2.5, 9), (10, 1000, 0.0, 4.0, 3), (10, 2000, 0.0, 5.0, 4)):
        points = scene(n, m, hidden)
        product = product_time()
        theirs = best(lambda p=points: paper_form.fit(p), 3 if m < 2000 else 1)
        for modes in ("auto", "paper"):
            ours = best(lambda p=points, k=modes: KernelGPA(modes=k).fit(p), repeats)
            row(
                f'fit {n} x {m}, {hidden:.0%} unseen, modes="{modes}"',
                f"{theirs / ours:.1f} times faster",
                f"at least {target:g}",
                f"paper form {ms(theirs)}",
                f"ours {ms(ours)}",
            )
            if m == 2000:
                least = (n * m**3 + m**3 / 3) / (2 * 2000**3) * product
                row(
                    f'its least flops, modes="{modes}"',
                    f"{ours / least:.2f} times",
                    "at most 2.5",
                    f"least {ms(least)}",
                )


def figure_validate():
    """Twenty folds against 21 fits in the paper's form."""
    points = scene(60, 201, 0.3)
    theirs = 21 * best(lambda: paper_form.fit(points), 5)
    ours = best(lambda: selection.cross_validate(KernelGPA(), points, folds=20), 5)
    row(
        "20 folds, 60 x 201",
        f"{theirs / ours:.1f} times faster",
        "at least 6",
        f"paper form {ms(theirs)}",
        f"ours {ms(ours)}",
    )


def figure_tune():
    """A surface of 8 x 8 settings x 20 folds against the fits it takes in the paper's form, from a tenth of them."""
    points = scene(60, 201, 0.3)
    settings = [(b, s) for b in np.geomspace(0.1, 1.5, 8) for s in np.geomspace(1e-3, 10, 8)]
    some = settings[::10]
    begun = time.perf_counter()
    for bandwidth, smoothing in some:
        for _ in range(3):
            paper_form.fit(points, bandwidth, smoothing)
    theirs = (time.perf_counter() - begun) / (3 * len(some)) * len(settings) * 21
    grid = {"bandwidth": np.geomspace(0.1, 1.5, 8), "smoothing": np.geomspace(1e-3, 10, 8)}
    ours = best(lambda: selection.tune(points, grid=grid, folds=20, rounds=0, n_jobs=2), 2)
    row(
        "8 x 8 settings x 20 folds, 60 x 201",
        f"{theirs / ours:.1f} times faster",
        "at least 12",
        f"paper form {ms(theirs)} (from a tenth)",
        f"ours {ms(ours)}",
    )


def measured(code):
    """Seconds and peak memory in GB of a fit in a process of its own."""
    wrapped = f"import sys; sys.path.insert(0, 'benchmarks'); import speed; speed.alone({code!r})"
    out = subprocess.run([sys.executable, "-c", wrapped], capture_output=True, text=True, check=True).stdout.split()
    return float(out[-2]), float(out[-1])


def alone(code):
    warnings.simplefilter("ignore", KernelGPAWarning)
    n, m, inducing, repeats = code
    points = scene(n, m)
    seconds = best(lambda: KernelGPA(inducing=inducing).fit(points), repeats)
    say(seconds, peak_memory() / 1e9)


def peak_memory():
    """Bytes.  (getrusage would also count what the process that started this one held.)"""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in status if line.startswith("VmHWM:")))


def figure_large():
    """Many landmarks on inducing points."""
    product = product_time()
    seconds, memory = measured((6, 20_000, 400, 3))
    row("20,000 x 6, inducing 400", f"{seconds / product:.1f} products", "at most 40", ms(seconds), f"{memory:.2f} GB")
    more, memory = measured((6, 100_000, 400, 1))
    row("100,000 x 6", f"{more / seconds:.2f} times the 20,000 case", "at most 6", ms(more))
    row("its peak memory", f"{memory:.2f} GB", "at most 5 GB", "in a process of its own")


def figure_many():
    """More features than landmarks."""
    seconds, memory = measured((60, 20_000, 400, 1))
    row("20,000 x 60, inducing 400", f"{memory:.2f} GB", "completes in at most 6 GB", ms(seconds))


def figure_exact():
    """Inducing points against the exact warps."""
    points = scene(10, 2000)
    for bandwidth in (0.25, 0.5):
        exact, thin = (KernelGPA(bandwidth=bandwidth, inducing=count).fit(points) for count in (None, 400))
        off = metrics.map_error(thin.map_, exact.map_) / np.sqrt(np.mean(np.sum(exact.map_**2, axis=1)))
        row(f"thin against exact, m = 2000, bandwidth {bandwidth}", f"{off:.1e} relative", "at most 1e-3", "")


def figure_stated():
    """What inducing points are said to miss, against what they miss."""
    points = scene(6, 2000)
    for bandwidth in (0.1, 0.25, 0.5):
        exact = KernelGPA(bandwidth=bandwidth).fit(points)
        size = np.sqrt(np.mean(np.sum(exact.map_**2, axis=1)))
        for count in (50, 200, 400):
            thin = KernelGPA(bandwidth=bandwidth, inducing=count).fit(points)
            apart = thin.transform_clouds(points) - exact.transform_clouds(points)
            off = np.sqrt(np.mean(np.sum(apart**2, axis=2))) / size
            stated = np.sqrt(np.mean(thin.inducing_errors_**2)) / size
            work = f"error of warps, bandwidth {bandwidth}, inducing {count}"
            row(work, f"stated {stated:.1e}", "above the true one", f"true {off:.1e}")


class DenseKernelGPA(KernelGPA):
    """Kernel matrices are dense whatever the support of the kernel."""

    def family(self):
        return replace(super().family(), sparse_limits=SparseLimits(fewest_points=10**9))


def figure_sparse():
    """A kernel of compact support, sparse against dense."""
    for landmarks, bandwidth in ((3000, 0.1), (5000, 0.08)):
        points = scene(6, landmarks)
        model = KernelGPA(kernel="wendland", bandwidth=bandwidth)
        sparse, places = best(lambda: model.fit(points), 2), model.map_  # noqa: B023
        model = DenseKernelGPA(kernel="wendland", bandwidth=bandwidth)
        dense = best(lambda: model.fit(points), 2)  # noqa: B023
        off = metrics.map_error(places, model.map_) / np.sqrt(np.mean(np.sum(places**2, axis=1)))
        work = f"Wendland {bandwidth}, {landmarks} x 6, sparse"
        row(work, f"{dense / sparse:.1f} times faster than dense", "faster", ms(sparse), f"maps {off:.0e} apart")
    volume = scene(6, 5000) * np.random.default_rng(1).uniform(0, 1, (5000, 1)) ** (1 / 3)
    seconds = best(lambda: KernelGPA(kernel="wendland", bandwidth=0.1).fit(volume), 1)
    row("Wendland 0.1, 5000 x 6 in a volume, sparse", f"{seconds / product_time():.0f} products", "", ms(seconds))
    points = scene(6, 20_000)
    seconds = best(lambda: KernelGPA(kernel="wendland", bandwidth=0.05).fit(points), 1)
    row("Wendland 0.05, 20,000 x 6, exact", f"{seconds / product_time():.0f} products", "", ms(seconds))


def figure_clouds():
    """A thousand clouds against a hundred."""
    many = scene(1000, 200, 0.3)
    hundred, thousand = (best(lambda k=k: KernelGPA().fit(many[:k]), 3) for k in (100, 1000))
    row("1000 clouds x 200", f"{thousand / hundred:.1f} times 100 clouds", "at most 11", ms(hundred), ms(thousand))


def figure_warp():
    """A million points by one kernel warp against SciPy."""
    from scipy.interpolate import RBFInterpolator

    points = scene(4, 200)
    gpa = KernelGPA().fit(points)
    query = np.random.default_rng(1).uniform(points[0].min(axis=0), points[0].max(axis=0), (1_000_000, 3))
    theirs = RBFInterpolator(points[0], gpa.map_, kernel="gaussian", epsilon=1 / 20, smoothing=0.1)
    ours, scipy = best(lambda: gpa.transform(query, 0), 3), best(lambda: theirs(query), 1)
    row(
        "1,000,000 points by one warp",
        f"{scipy / ours:.1f} times faster",
        "at least 3",
        f"SciPy {ms(scipy)}",
        f"ours {ms(ours)}",
    )


def figure_rigid():
    """Rigid registration against the Python packages of the field, and whether the optimum is the same."""
    points = scene(60, 2002)
    ours = best(lambda: RigidGPA(scaling=False).fit(points), 5)
    similar = best(lambda: RigidGPA(scaling=True).fit(points), 5)
    row("rigid 60 x 2002", "", "", f"ours {ms(ours)}", f"with sizes {ms(similar)}")
    mine = RigidGPA().fit(points)
    unit = points / np.sqrt(np.sum((points - points.mean(axis=1, keepdims=True)) ** 2, axis=(1, 2), keepdims=True))
    sized = RigidGPA(scaling=True).fit(unit)
    try:
        import morphops
    except ImportError:
        say("| (morphops is not installed) | | | |")
    else:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints as it goes
            theirs = best(lambda: morphops.gpa(points), 3)
            aligned = morphops.gpa(unit)["aligned"]
        row(
            "against morphops (similarities)",
            f"{theirs / similar:.2f} times faster",
            "not slower",
            f"morphops {ms(theirs)}",
            f"disagreement / ours {disagreement(aligned) / disagreement(sized.transform_clouds(unit)):.8f}",
        )
    try:
        from ktch.landmark import GeneralizedProcrustesAnalysis
    except ImportError:
        say("| (ktch is not installed) | | | |")
    else:
        flat = points.reshape(60, -1)
        for scaling, mine_time in ((False, ours), (True, similar)):
            theirs = best(lambda s=scaling: GeneralizedProcrustesAnalysis(n_dim=3, scaling=s).fit_transform(flat), 2)
            model = GeneralizedProcrustesAnalysis(n_dim=3, scaling=scaling)
            aligned = np.asarray(model.fit_transform((unit if scaling else points).reshape(60, -1))).reshape(60, -1, 3)
            own = sized.transform_clouds(unit) if scaling else mine.transform_clouds(points)
            row(
                f"against ktch, scaling={scaling}",
                f"{theirs / mine_time:.2f} times faster",
                "not slower",
                f"ktch {ms(theirs)}",
                f"disagreement / ours {disagreement(aligned) / disagreement(own):.8f}",
            )


def disagreement(clouds):
    """Squared distance of all clouds from their mean, as a share of their size."""
    centred = clouds - clouds.mean(axis=1, keepdims=True)
    return np.sum((centred - centred.mean(axis=0)) ** 2) / np.sum(centred**2)


def made(t, landmarks):
    """A cloud, as a worker would read it from a file."""
    rng = np.random.default_rng(t)
    body = np.random.default_rng(0).standard_normal((landmarks, 3)) * [100, 70, 50]
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turn[:, 0] *= np.linalg.det(turn)
    bent = body + 4 * np.sin(body / 40 + rng.uniform(0, 2 * np.pi, 3)) + rng.standard_normal((landmarks, 3))
    return bent @ turn.T, np.arange(landmarks)


def client(clouds, landmarks):
    """A fit on two local workers: seconds, the client's peak memory, and how far the map is from one process's."""
    from distributed import Client, LocalCluster

    from kernelgpa import distributed

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as connection,
    ):
        connection.run(lambda: sys.path.insert(0, "benchmarks"))
        begun = time.perf_counter()
        result = distributed.fit(KernelGPA(), connection, [partial(made, t, landmarks) for t in range(clouds)])
        seconds = time.perf_counter() - begun
        memory = peak_memory() / 1e6
        alone = KernelGPA().fit([made(t, landmarks) for t in range(clouds)])
    off = np.abs(result.map_ - alone.map_).max() / alone.scales_[0]
    say(seconds, memory, off)


def figure_dask():
    """A two-worker local cluster against one process."""
    found = {}
    for clouds in (500, 2000):
        call = f"if __name__ == '__main__': speed.client({clouds}, 300)"  # workers import the main module again
        code = f"import sys; sys.path.insert(0, 'benchmarks'); import speed\n{call}"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        found[clouds] = [float(one) for one in out[-3:]]
    seconds, memory, off = found[2000]
    row("Dask, 2000 x 300, two workers", f"{off:.0e} from one process", "at most 1e-9", ms(seconds))
    row(
        "client memory, 500 and 2000 clouds",
        f"{found[500][1]:.0f} and {memory:.0f} MB",
        "independent of the clouds",
        "",
    )


LOADED = (  # clouds, landmarks, share unseen, inducing points
    (60, 201, 0.3, None),
    (10, 1000, 0.0, None),
    (10, 2000, 0.0, None),
    (6, 20_000, 0.0, 400),
)
RUNS = 20
BUSY = "while True: pass"


def figure_load():
    """Fits alone and beside two busy processes: medians, and the slowest of twenty runs alone."""
    for n, m, hidden, inducing in LOADED:
        points = scene(n, m, hidden)
        work = lambda p=points, k=inducing: KernelGPA(inducing=k).fit(p)  # noqa: E731
        work()  # the first run loads what the others find loaded
        alone = timed(work, RUNS if m < 20_000 else 5)
        with busy_processes(2):
            loaded = timed(work, 5)
        usual = np.median(alone)
        name = f"{n} x {m}" + ("" if inducing is None else f", inducing {inducing}")
        row(f"{name}, beside two busy processes", f"{np.median(loaded) / usual:.2f} times", "at most 3", ms(usual))
        row(
            f"{name}, slowest of {len(alone)} alone", f"{max(alone) / usual:.2f} medians", "at most 1.5", ms(max(alone))
        )


def timed(work, runs):
    """Seconds of each run."""
    return [best(work, 1) for _ in range(runs)]


@contextlib.contextmanager
def busy_processes(count):
    """So many processes that do nothing but take a core each."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        time.sleep(1.0)  # until they run
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


FIGURES = {
    "fit": figure_fit,
    "validate": figure_validate,
    "tune": figure_tune,
    "exact": figure_exact,
    "stated": figure_stated,
    "sparse": figure_sparse,
    "clouds": figure_clouds,
    "warp": figure_warp,
    "rigid": figure_rigid,
    "large": figure_large,
    "many": figure_many,
    "dask": figure_dask,
    "load": figure_load,
}
SHORT = ("validate", "clouds", "warp", "rigid")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", choices=[*FIGURES, "all", "short"])
    chosen = parser.parse_args().figures
    warnings.simplefilter("ignore", KernelGPAWarning)
    groups = {"all": list(FIGURES), "short": list(SHORT)}
    names = dict.fromkeys(name for one in chosen for name in groups.get(one, [one]))
    say("| work | figure | target | times |\n|---|---|---|---|")
    for name in names:
        FIGURES[name]()


if __name__ == "__main__":
    main()

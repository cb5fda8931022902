"""Speed of the library: each figure is a ratio within one run.

    python benchmarks/speed.py all            every figure (some minutes)
    python benchmarks/speed.py short          the small ones (``make bench``)
    python benchmarks/speed.py fit large ...  the named ones

Times are the best of several repeats.  ``product`` is the time of one 2000 x 2000 matrix product in double precision
in the same process; the paper's form is benchmarks/paper_form.py.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import itertools
import subprocess
import sys
import time
import warnings
from functools import partial
from unittest import mock

import numpy as np
import paper_form
from timing import (
    best_time,
    busy_processes,
    cloud,
    peak_memory,
    product_time,
    report,
    row,
    run_times,
    scene,
    seconds_text,
)

from fixed_settings import fixed_kernel
from kernelgpa import KernelGPAWarning, RigidGPA, metrics, selection
from kernelgpa.estimators import registration

FITS = (  # clouds, landmarks, share unseen, target, repeats
    (60, 201, 0.3, 2.5, 9),
    (10, 1000, 0.0, 4.0, 3),
    (10, 2000, 0.0, 5.0, 4),
)
FITS_UNDER_LOAD = (  # clouds, landmarks, share unseen, inducing points, runs
    (60, 201, 0.3, None, 20),
    (10, 1000, 0.0, None, 20),
    (10, 2000, 0.0, None, 20),
    (6, 20_000, 0.0, 400, 20),
)


def figure_fit():
    """Fits of hundreds of landmarks against the paper's form."""
    for n, m, hidden, target, repeats in FITS:
        points = scene(n, m, hidden)
        product = product_time()
        paper = best_time(partial(paper_form.fit, points), 3 if m < 2000 else 1)
        for modes in ("auto", "paper", "program"):
            own = best_time(partial(fixed_kernel(modes=modes).fit, points), repeats)
            work = f'fit {n} x {m}, {hidden:.0%} unseen, modes="{modes}"'
            versus_paper_form(work, paper, own, target)
            if m == 2000:
                least = (n * m**3 + m**3 / 3) / (2 * 2000**3) * product
                ratio = f"{own / least:.2f} times"
                row(f'its least flops, modes="{modes}"', ratio, "at most 2.5", f"least {seconds_text(least)}")


def versus_paper_form(work, paper, own, target, note=""):
    times = f"paper form {seconds_text(paper)}{note}", f"ours {seconds_text(own)}"
    row(work, f"{paper / own:.1f} times faster", f"at least {target:g}", *times)


def figure_validate():
    """Cross-validation with 20 folds against 21 fits in the paper's form."""
    points = scene(60, 201, 0.3)
    paper = 21 * best_time(partial(paper_form.fit, points), 5)
    own = best_time(partial(selection.cross_validate, fixed_kernel(), points, folds=20), 5)
    versus_paper_form("20 folds, 60 x 201", paper, own, 6)


def figure_tune():
    """A surface of 8 x 8 settings x 20 folds against the same number of fits in the paper's form.

    The time in the paper's form is extrapolated from a tenth of the settings.
    """
    points = scene(60, 201, 0.3)
    grid = {"bandwidth": np.geomspace(0.1, 1.5, 8), "smoothing": np.geomspace(1e-3, 10, 8)}
    settings = [(bandwidth, smoothing) for bandwidth in grid["bandwidth"] for smoothing in grid["smoothing"]]
    some = settings[::10]
    start = time.perf_counter()
    for bandwidth, smoothing in some:
        for _ in range(3):
            paper_form.fit(points, bandwidth, smoothing)
    paper = (time.perf_counter() - start) / (3 * len(some)) * len(settings) * 21
    own = best_time(partial(selection.tune, points, grid=grid, folds=20, rounds=0, n_jobs=2), 2)
    versus_paper_form("8 x 8 settings x 20 folds, 60 x 201", paper, own, 12, " (from a tenth)")


# -- large problems, each in a process of its own --


def in_new_process(call):
    """Return the numbers that a call of this module's functions prints in a new process."""
    # workers of a cluster import the main module again, and must not repeat the call
    code = f"import sys; sys.path.insert(0, 'benchmarks'); import speed\nif __name__ == '__main__': speed.{call}"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return [float(number) for number in output.splitlines()[-1].split()]


def fit_and_report(n, m, inducing, repeats):
    """Print the seconds of a fit and the peak memory in GB."""
    warnings.simplefilter("ignore", KernelGPAWarning)
    seconds = best_time(partial(fixed_kernel(inducing=inducing).fit, scene(n, m)), repeats)
    report(seconds, peak_memory() / 1e9)


def figure_large():
    """Many landmarks with inducing points."""
    product = product_time()
    seconds, memory = in_new_process("fit_and_report(6, 20_000, 400, 3)")
    times = seconds_text(seconds), f"{memory:.2f} GB"
    row("20,000 x 6, inducing 400", f"{seconds / product:.1f} products", "at most 40", *times)
    more, memory = in_new_process("fit_and_report(6, 100_000, 400, 1)")
    row("100,000 x 6", f"{more / seconds:.2f} times the 20,000 case", "at most 6", seconds_text(more))
    row("its peak memory", f"{memory:.2f} GB", "at most 5 GB", "in a process of its own")


def figure_many():
    """More features than landmarks."""
    seconds, memory = in_new_process("fit_and_report(60, 20_000, 400, 1)")
    row("20,000 x 60, inducing 400", f"{memory:.2f} GB", "completes in at most 6 GB", seconds_text(seconds))


# -- approximations against exact warps --


def root_mean_square(points):  # (..., d)
    return np.sqrt(np.mean(np.sum(points**2, axis=-1)))


def figure_exact():
    """The map of inducing points against the map of exact warps."""
    points = scene(10, 2000)
    for bandwidth in (0.25, 0.5):
        exact, thin = (fixed_kernel(bandwidth=bandwidth, inducing=count).fit(points) for count in (None, 400))
        error = metrics.map_error(thin.map_, exact.map_) / root_mean_square(exact.map_)
        row(f"thin against exact, m = 2000, bandwidth {bandwidth}", f"{error:.1e} relative", "at most 1e-3", "")


def figure_stated():
    """The error of the warps that inducing points state, against the true error."""
    points = scene(6, 2000)
    for bandwidth in (0.1, 0.25, 0.5):
        exact = fixed_kernel(bandwidth=bandwidth).fit(points)
        size = root_mean_square(exact.map_)
        for count in (50, 200, 400):
            thin = fixed_kernel(bandwidth=bandwidth, inducing=count).fit(points)
            true = root_mean_square(thin.transform_clouds(points) - exact.transform_clouds(points)) / size
            stated = np.sqrt(np.mean(thin.inducing_errors_**2)) / size
            work = f"error of warps, bandwidth {bandwidth}, inducing {count}"
            row(work, f"stated {stated:.1e}", "above the true one", f"true {true:.1e}")


def wendland(r):
    """The kernel "wendland" as a function, whose compact support the library does not know: its matrices are dense."""
    r = np.minimum(r, 1)
    return (1 - r) ** 4 * (1 + 4 * r)


def figure_sparse():
    """A kernel of compact support, with sparse against dense matrices."""
    for landmarks, bandwidth in ((3000, 0.1), (5000, 0.08)):
        points = scene(6, landmarks)
        sparse, dense = (fixed_kernel(kernel=kernel, bandwidth=bandwidth) for kernel in ("wendland", wendland))
        sparse_time, dense_time = (best_time(partial(model.fit, points), 2) for model in (sparse, dense))
        difference = metrics.map_error(sparse.map_, dense.map_) / root_mean_square(sparse.map_)
        times = seconds_text(sparse_time), f"maps {difference:.0e} apart"
        ratio = f"{dense_time / sparse_time:.1f} times faster than dense"
        row(f"Wendland {bandwidth}, {landmarks} x 6, sparse", ratio, "faster", *times)
    volume = scene(6, 5000) * np.random.default_rng(1).uniform(0, 1, (5000, 1)) ** (1 / 3)
    for work, bandwidth, points in (
        ("Wendland 0.1, 5000 x 6 in a volume, sparse", 0.1, volume),
        ("Wendland 0.05, 20,000 x 6, exact", 0.05, scene(6, 20_000)),
    ):
        seconds = best_time(partial(fixed_kernel(kernel="wendland", bandwidth=bandwidth).fit, points), 1)
        row(work, f"{seconds / product_time():.0f} products", "", seconds_text(seconds))


# -- clouds, warps, other packages --


def figure_clouds():
    """A thousand clouds against a hundred."""
    many = scene(1000, 200, 0.3)
    hundred, thousand = (best_time(partial(fixed_kernel().fit, many[:k]), 3) for k in (100, 1000))
    times = seconds_text(hundred), seconds_text(thousand)
    row("1000 clouds x 200", f"{thousand / hundred:.1f} times 100 clouds", "at most 11", *times)


def figure_certificate():
    """The certificate of the rotations as a share of the fit without it, in processor time."""
    without_shape = np.random.default_rng(0).standard_normal((60, 201, 3))
    scenes = {
        "60 x 201": scene(60, 201, 0.3),
        "60 x 201, no common shape": without_shape,
        "1000 x 200": scene(1000, 200, 0.3),
    }
    for (work, points), modes in itertools.product(scenes.items(), ("auto", "paper")):
        share, fit, certificate, found = sorted(certified_fit(points, modes) for _ in range(3))[1]
        verdict = "certified" if found else "not certified"
        times = f"fit {seconds_text(fit)}", f"certificate {seconds_text(certificate)}, {verdict}"
        row(f'certificate, {work}, modes="{modes}"', f"{share:.1%} of the fit", "at most 10%", *times)


def certified_fit(points, modes):
    """Return the time of the certificate as a share of that of the rest of the fit, both times, and the verdict."""
    certify, spent = registration.certify, []

    def timed(*arguments):
        start = time.process_time()
        found = certify(*arguments)
        spent.append(time.process_time() - start)
        return found

    with mock.patch.object(registration, "certify", timed):
        start = time.process_time()
        gpa = fixed_kernel(modes=modes).fit(points)
        rest = time.process_time() - start - sum(spent)
    return sum(spent) / rest, rest, sum(spent), gpa.certified_


def figure_warp():
    """A million points transformed by one kernel warp, against SciPy."""
    from scipy.interpolate import RBFInterpolator

    points = scene(4, 200)
    gpa = fixed_kernel().fit(points)
    query = np.random.default_rng(1).uniform(points[0].min(axis=0), points[0].max(axis=0), (1_000_000, 3))
    interpolator = RBFInterpolator(points[0], gpa.map_, kernel="gaussian", epsilon=1 / 20, smoothing=0.1)
    own, scipy = best_time(lambda: gpa.transform(query, 0), 3), best_time(lambda: interpolator(query), 1)
    times = f"SciPy {seconds_text(scipy)}", f"ours {seconds_text(own)}"
    row("1,000,000 points by one warp", f"{scipy / own:.1f} times faster", "at least 3", *times)


def figure_rigid():
    """Rigid and similarity registration against other Python packages: time, and whether the optimum is the same."""
    points = scene(60, 2002)
    sizes = np.sqrt(np.sum((points - points.mean(axis=1, keepdims=True)) ** 2, axis=(1, 2), keepdims=True))
    own_times, own_aligned, inputs = {}, {}, {False: points, True: points / sizes}
    for scaling, clouds in inputs.items():
        own_times[scaling] = best_time(partial(RigidGPA(scaling=scaling).fit, points), 5)
        own_aligned[scaling] = RigidGPA(scaling=scaling).fit(clouds).transform_clouds(clouds)
    times = f"ours {seconds_text(own_times[False])}", f"with sizes {seconds_text(own_times[True])}"
    row("rigid 60 x 2002", "", "", *times)
    for name, scaling, package, register in other_packages():
        other_time = best_time(partial(register, points), 2)
        ratio = disagreement(register(inputs[scaling])) / disagreement(own_aligned[scaling])
        times = f"{package} {seconds_text(other_time)}", f"disagreement / ours {ratio:.8f}"
        row(f"against {name}", f"{other_time / own_times[scaling]:.2f} times faster", "not slower", *times)


def other_packages():
    """Yield the name, whether sizes are estimated, the package, and a function from clouds to aligned clouds."""
    try:
        import morphops
    except ImportError:
        report("| (morphops is not installed) | | | |")
    else:

        def align_morphops(clouds):
            with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
                return morphops.gpa(clouds)["aligned"]

        yield "morphops (similarities)", True, "morphops", align_morphops
    try:
        from ktch.landmark import GeneralizedProcrustesAnalysis
    except ImportError:
        report("| (ktch is not installed) | | | |")
        return

    def align_ktch(clouds, scaling):
        model = GeneralizedProcrustesAnalysis(n_dim=3, scaling=scaling)
        return np.asarray(model.fit_transform(clouds.reshape(len(clouds), -1))).reshape(clouds.shape)

    for scaling in (False, True):
        yield f"ktch, scaling={scaling}", scaling, "ktch", partial(align_ktch, scaling=scaling)


def disagreement(clouds):
    """Return the squared distance of all clouds from their mean, relative to their size."""
    centred = clouds - clouds.mean(axis=1, keepdims=True)
    return np.sum((centred - centred.mean(axis=0)) ** 2) / np.sum(centred**2)


# -- cluster and load --


def distributed_fit_and_report(clouds, landmarks):
    """Print the seconds of a fit on two workers, the client's peak memory in MB, and the distance of the map.

    The distance is that from the map of one process, relative to its size.
    """
    from distributed import Client, LocalCluster

    from kernelgpa import distributed

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        client.run(lambda: sys.path.insert(0, "benchmarks"))
        start = time.perf_counter()
        result = distributed.fit(fixed_kernel(), client, [partial(cloud, t, landmarks) for t in range(clouds)])
        seconds = time.perf_counter() - start
        memory = peak_memory() / 1e6
        alone = fixed_kernel().fit([cloud(t, landmarks) for t in range(clouds)])
    report(seconds, memory, np.abs(result.map_ - alone.map_).max() / alone.scales_[0])


def figure_dask():
    """A cluster of two local workers against one process."""
    _, less_memory, _ = in_new_process("distributed_fit_and_report(500, 300)")
    seconds, memory, difference = in_new_process("distributed_fit_and_report(2000, 300)")
    row("Dask, 2000 x 300, two workers", f"{difference:.0e} from one process", "at most 1e-9", seconds_text(seconds))
    memories = f"{less_memory:.0f} and {memory:.0f} MB"
    row("client memory, 500 and 2000 clouds", memories, "independent of the clouds", "")


def figure_load():
    """Fits alone and beside two busy processes: the medians, and the slowest of the runs alone."""
    for n, m, hidden, inducing, runs in FITS_UNDER_LOAD:
        fit = partial(fixed_kernel(inducing=inducing).fit, scene(n, m, hidden))
        fit()  # the first run also loads libraries
        gc.collect()  # the first full collection visits all that was imported, which takes half as long as a small fit
        alone = run_times(fit, runs)
        with busy_processes(2):
            loaded = run_times(fit, 5)
        median, slowest = np.median(alone), max(alone)
        name = f"{n} x {m}" + ("" if inducing is None else f", inducing {inducing}")
        ratio = f"{np.median(loaded) / median:.2f} times"
        row(f"{name}, beside two busy processes", ratio, "at most 3", seconds_text(median))
        ratio = f"{slowest / median:.2f} medians"
        row(f"{name}, slowest of {runs} alone", ratio, "at most 1.5", seconds_text(slowest))


def figure_import():
    """An import of the package in a new interpreter; of an estimator, which loads NumPy, SciPy and scikit-learn."""
    for statement, target in (("import kernelgpa", "at most 600 ms"), ("from kernelgpa import KernelGPA", "")):
        times = [float(in_fresh_interpreter(statement)) for _ in range(7)]
        row(f"`{statement}`", seconds_text(min(times)), target, f"median {seconds_text(np.median(times))}")


def in_fresh_interpreter(statement):
    """The processor time in seconds that a statement takes in a new interpreter."""
    code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


FIGURES = {
    "fit": figure_fit,
    "validate": figure_validate,
    "tune": figure_tune,
    "exact": figure_exact,
    "stated": figure_stated,
    "sparse": figure_sparse,
    "clouds": figure_clouds,
    "certificate": figure_certificate,
    "warp": figure_warp,
    "rigid": figure_rigid,
    "large": figure_large,
    "many": figure_many,
    "dask": figure_dask,
    "load": figure_load,
    "import": figure_import,
}
SHORT = ("validate", "clouds", "warp", "rigid", "import")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", choices=[*FIGURES, "all", "short"])
    chosen = parser.parse_args().figures
    warnings.simplefilter("ignore", KernelGPAWarning)
    groups = {"all": list(FIGURES), "short": list(SHORT)}
    names = dict.fromkeys(name for one in chosen for name in groups.get(one, [one]))
    report("| work | figure | target | times |\n|---|---|---|---|")
    for name in names:
        FIGURES[name]()


if __name__ == "__main__":
    main()

"""The tables of docs/trust.md, on seeded simulations.

    python benchmarks/trust.py map          error and consistency of the default map over a grid of settings, and of
                                            the paper's map without and with R_g
    python benchmarks/trust.py forms        map errors of both forms of the paper's map, for each setting of the grid
    python benchmarks/trust.py tune         tuned settings against the best of the grid
    python benchmarks/trust.py robust       wrong matches from 0 to 50 %
    python benchmarks/trust.py few          wrong matches in twelve clouds
    python benchmarks/trust.py modes        the map for different numbers of eigenvectors
    python benchmarks/trust.py weights      landmarks of known unequal accuracy
    python benchmarks/trust.py cover        coverage of 50, 90 and 95 % regions
    python benchmarks/trust.py all

The scene is ``simulate.liver(deformation="arap")``: 60 clouds, 201 landmarks, six handles pulled by 12 mm, with
and without 1 mm noise, 0 and 30 % hidden.  ``--faces faces.npz`` adds real faces (array ``vertices``, (n, v, 3)).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

from fixed_settings import fixed_kernel
from kernelgpa import KernelGPAWarning, RigidGPA, metrics, selection, simulate, uncertainty
from kernelgpa.observations.sampling import farthest_points

SETTINGS = [(0.0, 0.0), (0.3, 0.0), (0.0, 1.0), (0.3, 1.0)]  # hidden, noise in mm
BANDWIDTHS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
SMOOTHINGS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
COLLAPSED = 3.0  # the paper's map has collapsed if its error exceeds this multiple of the rigid map's error


def write(line):
    print(line, flush=True)  # noqa: T201


@cache
def scene(hidden, noise):
    return simulate.liver(hidden=hidden, noise=noise, deformation="arap")


def held_out(liver, every=10):
    """Surface points that are no landmarks, in the frame of each cloud."""
    return liver.surfaces[:, np.setdiff1d(np.arange(0, liver.surfaces.shape[1], every), liver.landmarks)]


def sensor_rms(gpa, points):
    errors = metrics.sensor_error(gpa.transform_clouds(points), gpa.jacobians(points))
    return float(np.sqrt(np.mean(errors**2)))


def sensor_mean(gpa, points):
    residuals = metrics.sensor_residuals(gpa.transform_clouds(points), gpa.jacobians(points))
    return float(np.mean(np.linalg.norm(residuals, axis=2)))


def grid():
    return [{"bandwidth": b, "smoothing": s} for b in BANDWIDTHS for s in SMOOTHINGS]


@cache
def errors_of(hidden, noise, bandwidth, smoothing, modes):
    """Map error and mean consistency at surface points of one fit."""
    liver = scene(hidden, noise)
    gpa = fixed_kernel(bandwidth=bandwidth, smoothing=smoothing, modes=modes).fit(liver.points)
    consistency = metrics.consistency(gpa.transform_clouds(held_out(liver))).mean()
    return metrics.map_error(gpa.map_, liver.template), consistency


def rigid_error(hidden, noise):
    liver = scene(hidden, noise)
    return metrics.map_error(RigidGPA().fit(liver.points).map_, liver.template)


def table_map():
    """The worst settings of the default map, and of the paper's map in both forms."""
    forms = ("program", "paper")
    write(
        "| hidden, noise | default: worst map error / rigid map's, at | "
        + " | ".join(f"{form}: worst / rigid map's, at" for form in forms)
        + " | "
        + " | ".join(f"worst consistency / {form}'s, if not collapsed, at" for form in forms)
        + " |"
    )
    write("|---" * (2 + 2 * len(forms)) + "|")
    keys = [(settings["bandwidth"], settings["smoothing"]) for settings in grid()]
    for hidden, noise in SETTINGS:
        rigid = rigid_error(hidden, noise)
        found = {modes: {key: errors_of(hidden, noise, *key, modes) for key in keys} for modes in ("auto", *forms)}
        cells = []
        for by_key in found.values():
            ratios = {key: error / rigid for key, (error, _) in by_key.items()}
            cells.append(worst(ratios))
        for form in forms:
            kept = [key for key in keys if found[form][key][0] <= COLLAPSED * rigid]
            cells.append(worst({key: found["auto"][key][1] / found[form][key][1] for key in kept}))
        write(f"| {hidden:.0%}, {noise:g} mm | " + " | ".join(cells) + " |")


def worst(ratios):
    key = max(ratios, key=ratios.get)
    return f"{ratios[key]:.3f}, ({key[0]:g}, {key[1]:g})"


def table_forms():
    """Map errors (mm) over bandwidth and smoothing of the paper's map without and with R_g, and of the default map."""
    hidden, noise = SETTINGS[-1]
    write(f"{hidden:.0%} hidden, {noise:g} mm noise; the rigid map's error is {rigid_error(hidden, noise):.2f} mm.\n")
    for modes in ("program", "paper", "auto"):
        write(f'| `modes="{modes}"`: bandwidth, smoothing | ' + " | ".join(f"{s:g}" for s in SMOOTHINGS) + " |")
        write("|---" * (len(SMOOTHINGS) + 1) + "|")
        for b in BANDWIDTHS:
            row = [errors_of(hidden, noise, b, s, modes)[0] for s in SMOOTHINGS]
            write(f"| {b:g} | " + " | ".join(f"{error:.2f}" for error in row) + " |")
        write("")


def table_modes():
    """Map error and, in brackets, consistency for increasing numbers of eigenvectors (docs/theory.md, section 10)."""
    counts = ("program", "paper", 6, 10, 20, 30, 80, 199, "auto")
    write("| bandwidth, smoothing | " + " | ".join(str(count) for count in counts) + " |")
    write("|---" * (len(counts) + 1) + "|")
    liver = simulate.liver(hidden=0.3, noise=1.0)
    for bandwidth, smoothing in ((0.25, 0.1), (0.25, 0.001), (0.5, 0.001), (0.75, 0.01), (1.0, 0.001)):
        cells = []
        for modes in counts:
            gpa = fixed_kernel(bandwidth=bandwidth, smoothing=smoothing, modes=modes).fit(liver.points)
            spread = np.sqrt(np.nanmean(metrics.consistency(gpa.transform_clouds(liver.points)) ** 2))
            cells.append(f"{metrics.map_error(gpa.map_, liver.template):.2f} ({spread:.2f})")
        write(f"| {bandwidth}, {smoothing} | " + " | ".join(cells) + " |")


def table_few():
    """Twelve clouds of 150 landmarks, 30 % hidden: each landmark is seen by eight clouds on average."""
    write("| wrong | seed | map error, clean | robust fit | plain fit | landmarks with fewer than two inliers found |")
    write("|---|---|---|---|---|---|")
    for share in (0.1, 0.2, 0.3):
        for seed in range(3):
            liver = simulate.liver(clouds=12, landmarks=150, hidden=0.3, noise=0.5, seed=seed)
            points, _ = simulate.exchanged(liver.points, share, seed)
            clean, plain = fixed_kernel().fit(liver.points), fixed_kernel().fit(points)
            robust = fixed_kernel(robust="geman-mcclure").fit(points)
            kinds = [finding.kind for finding in robust.diagnose()]
            found = "yes" if "landmarks with fewer than two inliers" in kinds else "no"
            errors = (metrics.map_error(gpa.map_, liver.template) for gpa in (clean, robust, plain))
            cells = " | ".join(f"{error:.2f} mm" for error in errors)
            write(f"| {share:.0%} | {seed} | {cells} | {found} |")


def table_tune():
    """Tuned settings against the best of the grid: by map error, by held-out score, and by error at surface points."""
    write("| hidden, noise | chosen | map error / best of grid | held-out landmarks / best | surface, mean / best |")
    write("|---|---|---|---|---|")
    names = ("bandwidth", "smoothing")
    for hidden, noise in SETTINGS:
        liver = scene(hidden, noise)
        surface = held_out(liver)
        tuning = selection.tune(liver.points, grid=dict(zip(names, (BANDWIDTHS, SMOOTHINGS), strict=True)))
        on_grid = [trial.score for trial in tuning.trials[: len(BANDWIDTHS) * len(SMOOTHINGS)]]
        fits = [fixed_kernel(**settings).fit(liver.points) for settings in grid()]
        ratios = [
            metrics.map_error(tuning.best.map_, liver.template)
            / min(metrics.map_error(gpa.map_, liver.template) for gpa in fits),
            min(trial.score for trial in tuning.trials) / min(on_grid),
            sensor_mean(tuning.best, surface) / min(sensor_mean(gpa, surface) for gpa in fits),
        ]
        chosen = ", ".join(f"{tuning.settings[name]:.3g}" for name in names)
        write(f"| {hidden:.0%}, {noise:g} mm | {chosen} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |")


def table_robust():
    write(
        "| hidden, noise | loss | wrong | map error (clean) | ratio | sensor error (clean) | ratio | avg. precision |"
    )
    write("|---|---|---|---|---|---|---|---|")
    for hidden, noise in SETTINGS:
        liver = scene(hidden, noise)
        surface = held_out(liver)
        for loss in ("geman-mcclure", "tukey", "huber"):
            clean = None
            for share in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
                points, wrong = simulate.exchanged(liver.points, share)
                gpa = fixed_kernel(bandwidth=0.5, smoothing=0.1, robust=loss).fit(points)
                errors = np.array([metrics.map_error(gpa.map_, liver.template), sensor_rms(gpa, surface)])
                clean = errors if clean is None else clean
                seen = ~np.isnan(points[:, :, 0])
                precision = average_precision_score(wrong[seen], gpa.residuals_[seen]) if share else np.nan
                ratio = errors / clean
                write(
                    f"| {hidden:.0%}, {noise:g} mm | {loss} | {share:.0%} "
                    f"| {errors[0]:.3f} ({clean[0]:.3f}) | {ratio[0]:.3f} "
                    f"| {errors[1]:.3f} ({clean[1]:.3f}) | {ratio[1]:.3f} | {precision:.5f} |"
                )


def table_weights():
    """Half of the landmarks, or half of the observations, are known to 0.5 mm and the others to 5 mm."""
    write("| hidden | accuracy belongs to | warps | map error unweighted | weighted | lower by |")
    write("|---|---|---|---|---|---|")
    for hidden in (0.0, 0.3):
        liver = scene(hidden, 0.0)
        rng = np.random.default_rng(0)
        n, m, _ = liver.points.shape
        accurate = {"landmarks": np.tile(np.arange(m) % 2 == 0, (n, 1)), "observations": rng.random((n, m)) < 0.5}
        for what, half in accurate.items():
            deviation = np.where(half, 0.5, 5.0)
            points = liver.points + deviation[:, :, None] * rng.standard_normal(liver.points.shape)
            weights = deviation**-2 / np.mean(deviation**-2)
            for model in (fixed_kernel(bandwidth=0.5), RigidGPA()):
                plain, weighted = (
                    metrics.map_error(model.fit(points, weights=w).map_, liver.template) for w in (None, weights)
                )
                write(
                    f"| {hidden:.0%} | {what} | {type(model).__name__} | {plain:.3f} mm | {weighted:.3f} mm "
                    f"| {1 - weighted / plain:.0%} |"
                )


def coverage(points, settings, outer=5):
    """Shares of held-out observations inside the 50, 90 and 95 % regions; each landmark is held out once."""
    hits, count = np.zeros(3), 0
    order = np.random.default_rng(0).permutation(points.shape[1])
    for i in range(outer):
        out = np.zeros(points.shape[1], dtype=bool)
        out[order[i::outer]] = True
        estimate = uncertainty(selection.cross_validate(fixed_kernel(**settings), points[:, ~out], folds=20))
        gpa, tested = estimate.validation.fitted, points[:, out]
        images = gpa.transform_clouds(tested)
        distances = np.linalg.norm(images - metrics.mean_of_others(images), axis=2)
        for t in range(len(points)):
            seen = np.isfinite(distances[t])
            for k, level in enumerate((0.5, 0.9, 0.95)):
                hits[k] += np.sum(distances[t, seen] <= estimate.radius(tested[t, seen], t, level))
            count += int(seen.sum())
    return hits / count


def table_cover(faces=None):
    write("| data | tuned setting | 50 % | 90 % | 95 % |")
    write("|---|---|---|---|---|")
    scenes = {f"liver, {h:.0%}, {n:g} mm": scene(h, n).points for h, n in SETTINGS}
    if faces is not None:
        scenes["faces"] = faces
    for name, points in scenes.items():
        settings = selection.tune(points).settings
        shares = coverage(points, settings)
        write(
            f"| {name} | {settings['bandwidth']:.3g}, {settings['smoothing']:.3g} | "
            + " | ".join(f"{s:.1%}" for s in shares)
            + " |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["map", "forms", "modes", "tune", "robust", "few", "weights", "cover", "all"])
    parser.add_argument("--faces", type=Path, help="an .npz with the array vertices (n, v, 3)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", KernelGPAWarning)
    faces = None
    if arguments.faces:
        vertices = np.load(arguments.faces)["vertices"].astype(np.float64)
        faces = vertices[:, farthest_points(vertices[0], 160)]
    tables = {
        "map": table_map,
        "forms": table_forms,
        "modes": table_modes,
        "tune": table_tune,
        "robust": table_robust,
        "few": table_few,
        "weights": table_weights,
        "cover": lambda: table_cover(faces),
    }
    for name in tables if arguments.table == "all" else [arguments.table]:
        write(f"\n## python {' '.join(sys.argv[:1])} {name}\n")
        tables[name]()


if __name__ == "__main__":
    main()

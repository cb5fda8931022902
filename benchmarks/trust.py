"""How far results can be trusted: every figure, on seeded simulations, with the command that makes it.

    python benchmarks/trust.py map          the default map's error and consistency over a grid of settings
    python benchmarks/trust.py tune         where tuning lands, against the best of the grid
    python benchmarks/trust.py robust       wrong matches from 0 to 50 %
    python benchmarks/trust.py few          wrong matches in twelve clouds
    python benchmarks/trust.py modes        the map from so many eigenvectors
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

from kernelgpa import KernelGPA, KernelGPAWarning, RigidGPA, metrics, selection, simulate, uncertainty
from kernelgpa.observations.sampling import farthest_points

SETTINGS = [(0.0, 0.0), (0.3, 0.0), (0.0, 1.0), (0.3, 1.0)]  # hidden, noise in mm
BANDWIDTHS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
SMOOTHINGS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
COLLAPSED = 3.0  # the paper's map counts as collapsed where its error is so many times the rigid map's


def say(*words):
    print(*words, flush=True)  # noqa: T201


@cache
def scene(hidden, noise):
    return simulate.liver(hidden=hidden, noise=noise, deformation="arap")


def held_out(liver, every=10):
    """Surface points that are no landmarks, as each cloud has them."""
    return liver.surfaces[:, np.setdiff1d(np.arange(0, liver.surfaces.shape[1], every), liver.landmarks)]


def sensor_rms(gpa, points):
    errors = metrics.sensor_error(gpa.transform_clouds(points), gpa.jacobians(points))
    return float(np.sqrt(np.mean(errors**2)))


def sensor_mean(gpa, points):
    residuals = metrics.sensor_residuals(gpa.transform_clouds(points), gpa.jacobians(points))
    return float(np.mean(np.linalg.norm(residuals, axis=2)))


def grid():
    return [{"bandwidth": b, "smoothing": s} for b in BANDWIDTHS for s in SMOOTHINGS]


def figure_map():
    say(
        "| hidden, noise | worst map error / rigid map's | where | worst consistency / paper's, not collapsed | where |"
    )
    say("|---|---|---|---|---|")
    for hidden, noise in SETTINGS:
        liver = scene(hidden, noise)
        points, surface = liver.points, held_out(liver)
        rigid = metrics.map_error(RigidGPA().fit(points).map_, liver.template)
        errors, ratios = {}, {}
        for settings in grid():
            key = (settings["bandwidth"], settings["smoothing"])
            default = KernelGPA(**settings).fit(points)
            paper = KernelGPA(**settings, modes="paper").fit(points)
            errors[key] = metrics.map_error(default.map_, liver.template) / rigid
            if metrics.map_error(paper.map_, liver.template) <= COLLAPSED * rigid:
                ours, theirs = (metrics.consistency(g.transform_clouds(surface)).mean() for g in (default, paper))
                ratios[key] = ours / theirs
        worst, least = max(errors, key=errors.get), max(ratios, key=ratios.get)
        say(f"| {hidden:.0%}, {noise:g} mm | {errors[worst]:.3f} | {worst} | {ratios[least]:.3f} | {least} |")


def figure_modes():
    """Map error and, in brackets, consistency for a growing number of eigenvectors (docs/theory.md, section 9)."""
    counts = ("paper", 6, 10, 20, 30, 80, 199, "auto")
    say("| bandwidth, smoothing | " + " | ".join(str(count) for count in counts) + " |")
    say("|---" * (len(counts) + 1) + "|")
    liver = simulate.liver(hidden=0.3, noise=1.0)
    for bandwidth, smoothing in ((0.25, 0.1), (0.25, 0.001), (0.5, 0.001), (0.75, 0.01), (1.0, 0.001)):
        cells = []
        for modes in counts:
            gpa = KernelGPA(bandwidth=bandwidth, smoothing=smoothing, modes=modes).fit(liver.points)
            spread = np.sqrt(np.nanmean(metrics.consistency(gpa.transform_clouds(liver.points)) ** 2))
            cells.append(f"{metrics.map_error(gpa.map_, liver.template):.2f} ({spread:.2f})")
        say(f"| {bandwidth}, {smoothing} | " + " | ".join(cells) + " |")


def figure_few():
    """Twelve clouds of 150 landmarks, 30 % hidden: each landmark has eight views on average."""
    say("| wrong | seed | map error, clean | robust fit | plain fit | landmarks named as left to one cloud |")
    say("|---|---|---|---|---|---|")
    for share in (0.1, 0.2, 0.3):
        for seed in range(3):
            liver = simulate.liver(clouds=12, landmarks=150, hidden=0.3, noise=0.5, seed=seed)
            points, _ = simulate.exchanged(liver.points, share, seed)
            clean, plain = KernelGPA().fit(liver.points), KernelGPA().fit(points)
            robust = KernelGPA(robust="geman-mcclure").fit(points)
            lonely = any(finding.kind == "landmarks left to one cloud" for finding in robust.diagnose())
            errors = (metrics.map_error(gpa.map_, liver.template) for gpa in (clean, robust, plain))
            cells = " | ".join(f"{error:.2f} mm" for error in errors)
            say(f"| {share:.0%} | {seed} | {cells} | {'yes' if lonely else 'no'} |")


def figure_tune():
    """Where tuning lands: against the true map, against its own held-out score, and against surface points."""
    say("| hidden, noise | chosen | map error / best of grid | held-out landmarks / best | surface, mean / best |")
    say("|---|---|---|---|---|")
    names = ("bandwidth", "smoothing")
    for hidden, noise in SETTINGS:
        liver = scene(hidden, noise)
        surface = held_out(liver)
        tuning = selection.tune(liver.points, grid=dict(zip(names, (BANDWIDTHS, SMOOTHINGS), strict=True)))
        on_grid = [one.sensor_rms for one in tuning.trials[: len(BANDWIDTHS) * len(SMOOTHINGS)]]
        fits = [KernelGPA(**settings).fit(liver.points) for settings in grid()]
        ratios = [
            metrics.map_error(tuning.best.map_, liver.template)
            / min(metrics.map_error(gpa.map_, liver.template) for gpa in fits),
            min(one.sensor_rms for one in tuning.trials) / min(on_grid),
            sensor_mean(tuning.best, surface) / min(sensor_mean(gpa, surface) for gpa in fits),
        ]
        chosen = ", ".join(f"{tuning.settings[name]:.3g}" for name in names)
        say(f"| {hidden:.0%}, {noise:g} mm | {chosen} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |")


def figure_robust():
    say("| hidden, noise | loss | wrong | map error (clean) | ratio | sensor error (clean) | ratio | avg. precision |")
    say("|---|---|---|---|---|---|---|---|")
    for hidden, noise in SETTINGS:
        liver = scene(hidden, noise)
        surface = held_out(liver)
        for loss in ("geman-mcclure", "tukey", "huber"):
            clean = None
            for share in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
                points, wrong = simulate.exchanged(liver.points, share)
                gpa = KernelGPA(bandwidth=0.5, smoothing=0.1, robust=loss).fit(points)
                figures = np.array([metrics.map_error(gpa.map_, liver.template), sensor_rms(gpa, surface)])
                clean = figures if clean is None else clean
                seen = ~np.isnan(points[:, :, 0])
                precision = average_precision_score(wrong[seen], gpa.residuals_[seen]) if share else np.nan
                ratio = figures / clean
                say(
                    f"| {hidden:.0%}, {noise:g} mm | {loss} | {share:.0%} "
                    f"| {figures[0]:.3f} ({clean[0]:.3f}) | {ratio[0]:.3f} "
                    f"| {figures[1]:.3f} ({clean[1]:.3f}) | {ratio[1]:.3f} | {precision:.5f} |"
                )


def figure_weights():
    """Half of the landmarks, or half of the observations, are known to 0.5 mm and the others to 5 mm."""
    say("| hidden | accuracy belongs to | warps | map error unweighted | weighted | lower by |")
    say("|---|---|---|---|---|---|")
    for hidden in (0.0, 0.3):
        liver = scene(hidden, 0.0)
        rng = np.random.default_rng(0)
        n, m, _ = liver.points.shape
        sharp = {"landmarks": np.tile(np.arange(m) % 2 == 0, (n, 1)), "observations": rng.random((n, m)) < 0.5}
        for what, half in sharp.items():
            deviation = np.where(half, 0.5, 5.0)
            points = liver.points + deviation[:, :, None] * rng.standard_normal(liver.points.shape)
            weights = deviation**-2 / np.mean(deviation**-2)
            for model in (KernelGPA(bandwidth=0.5), RigidGPA()):
                plain, weighted = (
                    metrics.map_error(model.fit(points, weights=w).map_, liver.template) for w in (None, weights)
                )
                say(
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
        known = uncertainty(selection.cross_validate(KernelGPA(**settings), points[:, ~out], folds=20))
        gpa, tested = known.validation.fitted, points[:, out]
        placed = gpa.transform_clouds(tested)
        off = np.linalg.norm(placed - metrics.mean_of_others(placed), axis=2)
        for t in range(len(points)):
            ok = np.isfinite(off[t])
            for k, level in enumerate((0.5, 0.9, 0.95)):
                hits[k] += np.sum(off[t, ok] <= known.radius(tested[t, ok], t, level))
            count += int(ok.sum())
    return hits / count


def figure_cover(faces=None):
    say("| data | tuned setting | 50 % | 90 % | 95 % |")
    say("|---|---|---|---|---|")
    scenes = {f"liver, {h:.0%}, {n:g} mm": scene(h, n).points for h, n in SETTINGS}
    if faces is not None:
        scenes["faces"] = faces
    for name, points in scenes.items():
        settings = selection.tune(points).settings
        shares = coverage(points, settings)
        say(
            f"| {name} | {settings['bandwidth']:.3g}, {settings['smoothing']:.3g} | "
            + " | ".join(f"{s:.1%}" for s in shares)
            + " |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=["map", "modes", "tune", "robust", "few", "weights", "cover", "all"])
    parser.add_argument("--faces", type=Path, help="an .npz with the array vertices (n, v, 3)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", KernelGPAWarning)
    faces = None
    if arguments.faces:
        vertices = np.load(arguments.faces)["vertices"].astype(np.float64)
        faces = vertices[:, farthest_points(vertices[0], 160)]
    figures = {
        "map": figure_map,
        "modes": figure_modes,
        "tune": figure_tune,
        "robust": figure_robust,
        "few": figure_few,
        "weights": figure_weights,
        "cover": lambda: figure_cover(faces),
    }
    for name in figures if arguments.figure == "all" else [arguments.figure]:
        say(f"\n## python {' '.join(sys.argv[:1])} {name}\n")
        figures[name]()


if __name__ == "__main__":
    main()

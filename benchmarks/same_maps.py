"""Compare the results of two versions of the library on ten scenes and 15 models with fixed settings.

    git worktree add ../old ae541f1  # the last commit before the packages and names were redesigned
    PYTHONPATH=../old/src python benchmarks/same_maps.py save old.npz --program paper
    python benchmarks/same_maps.py save new.npz
    python benchmarks/same_maps.py compare old.npz new.npz

``save`` fits every model to every scene and stores the maps, poses, scales, eigenvalues and warped points; or the kind
of the error, if a model refuses a scene.  It fits all of them again with coordinates that are changed by one unit in
the last place, and stores how much each result changes: the rounding error of that result.  Only names that both
versions have are used.  The authors' program is ``modes="program"``; versions up to ae541f1 call it ``modes="paper"``,
which has another meaning now.

``compare`` prints every difference above 1e-12, relative to the largest value, in one of three groups: within the
rounding error of either version, a deliberate change (with its reason), or unexplained.  It exits with 1 if there is an
unexplained one.

The rounding error of ``modes="auto"`` is that of gamma (theory, eq. 16a).  Its search uses the relative increase of the
rigid cost over that of the rigid map, a difference of two nearly equal numbers: gamma is reproduced to 1e-10 and the
map to 1e-12 only.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from fixed_settings import fixed_kernel
from kernelgpa import (
    TPSGPA,
    AffineGPA,
    KernelGPAError,
    KernelGPAWarning,
    RigidGPA,
    StreamingGPA,
    selection,
)

TOLERANCE = 1e-12  # relative difference
ROUNDING_DRAWS = 3  # sets of coordinates changed by one unit in the last place
ROUNDING_MARGIN = 4.0  # times the largest change among so few draws: what rounding may cause
# parts of the names of results that were changed on purpose since ae541f1, and why
DELIBERATE = {
    "closed-form scales": "the scales are the roots of the eigenvalues of the right-hand side of eq. 13, as in the "
    "paper; before, the roots of its diagonal entries",
}


def scene(n, m, d=3, hidden=0.0, noise=0.0, seed=0, axes=(3.0, 2.0, 1.0)):
    """Return (n, m, d) clouds of a random body, smoothly deformed, rotated, shifted and partly hidden."""
    rng = np.random.default_rng(seed)
    body = rng.standard_normal((m, d)) * np.array(axes)[:d]
    points = np.empty((n, m, d))
    for t in range(n):
        rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
        rotation[:, 0] *= np.linalg.det(rotation)
        deformed = body + 0.15 * np.sin(0.5 * body @ rng.standard_normal((d, d)))
        points[t] = (deformed + noise * rng.standard_normal((m, d))) @ rotation.T + rng.uniform(-5, 5, d)
        points[t, rng.random(m) < hidden] = np.nan
    return points


SCENES = {
    "body": scene(6, 40, hidden=0.2, noise=0.01, seed=0),
    "two dimensions": scene(6, 30, d=2, hidden=0.1, noise=0.01, seed=1),
    "few clouds": scene(3, 20, noise=0.05, seed=2),
    "many clouds": scene(40, 25, hidden=0.3, noise=0.02, seed=3),
    "without noise": scene(5, 30, seed=4),
    "flat body": scene(5, 30, hidden=0.1, seed=5, axes=(3.0, 2.0, 0.0)),
    "many landmarks": scene(4, 600, hidden=0.1, noise=0.01, seed=6),
    "much noise": scene(8, 60, hidden=0.4, noise=0.2, seed=7),
    "two clouds": scene(2, 50, noise=0.02, seed=8),
    "thin body": scene(6, 50, hidden=0.1, noise=0.01, seed=9, axes=(3.0, 2.0, 0.01)),
}


def models(program="program"):
    """All models; ``program`` is the name of ``modes`` under which the version knows the authors' program."""
    return {
        "rigid": RigidGPA(),
        "similarity": RigidGPA(scaling=True),
        "affine": AffineGPA(),
        "affine, program": AffineGPA(modes=program),
        "affine, SVD": AffineGPA(method="svd"),  # refuses hidden landmarks
        "thin-plate": TPSGPA(control_points=3, smoothing=0.01),
        "thin-plate, program": TPSGPA(control_points=3, smoothing=0.01, modes=program),
        "kernel": fixed_kernel(),
        "kernel, program": fixed_kernel(modes=program),
        "ten modes": fixed_kernel(modes=10),
        "closed-form scales": fixed_kernel(modes=program, scale_method="closed-form"),
        "pairwise scales": fixed_kernel(modes=program, scale_method="pairwise"),
        "inducing points": fixed_kernel(inducing=15),
        "sparse kernel": fixed_kernel(kernel="wendland", bandwidth=0.5),
        "robust": fixed_kernel(robust="tukey"),
    }


def saved_results(program):
    """All results by name, and as ``rounding of NAME`` how much they change with the last digits of the coordinates."""
    found, rng = results(SCENES, program), np.random.default_rng(0)
    rounding = dict.fromkeys(found, 0.0)
    for _ in range(ROUNDING_DRAWS):
        changed = {name: last_digit_changed(points, rng) for name, points in SCENES.items()}
        for name, value in results(changed, program).items():
            if name in found:
                rounding[name] = max(rounding[name], relative_difference(found[name], value))
    return found | {f"rounding of {name}": np.asarray(value) for name, value in rounding.items()}


def last_digit_changed(points, rng):
    return points * (1 + np.finfo(np.float64).eps * rng.integers(-1, 2, points.shape))


def results(scenes, program):
    """All results as arrays by name."""
    arrays = {}
    for scene_name, points in scenes.items():
        for model_name, model in models(program).items():
            found = fit_results(model, points)
            arrays |= {f"{scene_name}, {model_name}, {name}": np.asarray(value) for name, value in found.items()}
    arrays["cross-validation error"] = np.asarray(selection.cross_validate(fixed_kernel(), scenes["body"], folds=5).cve)
    arrays["stream"] = stream_map(scenes["body"])
    return arrays


def fit_results(model, points):
    try:
        gpa = model.fit(points)
    except KernelGPAError as error:
        return {"error": public_base(error)}
    return {
        "map": gpa.map_,
        "rotations": gpa.rotations_,
        "translations": gpa.translations_,
        "scales": gpa.scales_,
        "eigenvalues": gpa.eigenvalues_,
        "warped points": gpa.transform_clouds(points),
    }


def public_base(error):
    """Return the name of the error's built-in base class, which does not change if an error is renamed."""
    return next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins" and base is not object)


def stream_map(points):
    stream = StreamingGPA(fixed_kernel())
    for cloud in points:
        seen = np.flatnonzero(np.isfinite(cloud[:, 0]))
        stream.add(cloud[seen], seen.tolist())
    stream.update()
    return stream.map_


def relative_difference(old, new):
    """Return the largest difference relative to the largest value; infinity if texts, shapes or gaps differ."""
    if old.dtype.kind != new.dtype.kind or old.shape != new.shape:
        return np.inf
    if old.dtype.kind == "U":
        return 0.0 if (old == new).all() else np.inf
    finite = np.isfinite(old)
    if (finite != np.isfinite(new)).any():
        return np.inf
    if not finite.any():
        return 0.0
    return float(np.abs(old[finite] - new[finite]).max() / max(1.0, np.abs(old[finite]).max()))


def compare(old_path, new_path):
    """Print the differences, and return whether all of them are explained."""
    groups = {"unexplained": [], "deliberate": [], "within rounding": []}
    with np.load(old_path) as old, np.load(new_path) as new:
        names = {name for name in (*old.files, *new.files) if not name.startswith("rounding of ")}
        for name in sorted(names):
            if name not in old.files or name not in new.files:
                groups["unexplained"].append(f"{name}: in one file only")
                continue
            difference = relative_difference(old[name], new[name])
            rounding = ROUNDING_MARGIN * max(float(file[f"rounding of {name}"]) for file in (old, new))
            if difference > TOLERANCE:
                groups[group_of(name, difference, rounding)].append(
                    f"{name}: {difference:.1e}, rounding {rounding:.1e}"
                )
    for group, lines in groups.items():
        for line in lines:
            print(f"{group}: {line}")  # noqa: T201
    for part, reason in DELIBERATE.items():
        print(f"deliberate change of {part}: {reason}")  # noqa: T201
    counts = ", ".join(f"{len(lines)} {group}" for group, lines in groups.items())
    same = len(names) - sum(map(len, groups.values()))
    print(f"{len(names)} results; {same} are equal to {TOLERANCE:.0e}, {counts}")  # noqa: T201
    return not groups["unexplained"]


def group_of(name, difference, rounding):
    """Which explanation a difference has."""
    if difference <= rounding:
        return "within rounding"
    return "deliberate" if any(part in name for part in DELIBERATE) else "unexplained"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save")
    saving.add_argument("output", type=Path)
    saving.add_argument("--program", default="program", help="the value of modes= that is the authors' program")
    comparison = commands.add_parser("compare")
    comparison.add_argument("old", type=Path)
    comparison.add_argument("new", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "save":
        warnings.simplefilter("ignore", KernelGPAWarning)
        np.savez(arguments.output, **saved_results(arguments.program))
    elif not compare(arguments.old, arguments.new):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

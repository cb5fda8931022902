"""Compare the results of two versions of the library on ten scenes and all models.

    PYTHONPATH=OLD/src python benchmarks/same_maps.py save old.npz
    PYTHONPATH=NEW/src python benchmarks/same_maps.py save new.npz
    python benchmarks/same_maps.py compare old.npz new.npz

``save`` fits every model to every scene and stores the maps, poses, eigenvalues, warped points and the number of
findings; or the kind of the error, if a model refuses a scene.  ``compare`` prints the largest relative difference and
exits with 1 if it is above 1e-12.  Only names that both versions have are used.
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
MODELS = {
    "rigid": RigidGPA(),
    "similarity": RigidGPA(scaling=True),
    "affine": AffineGPA(),
    "affine, program": AffineGPA(modes="program"),
    "affine, SVD": AffineGPA(method="svd"),  # refuses hidden landmarks
    "thin-plate": TPSGPA(control_points=3, smoothing=0.01),
    "thin-plate, program": TPSGPA(control_points=3, smoothing=0.01, modes="program"),
    "kernel": fixed_kernel(),
    "kernel, program": fixed_kernel(modes="program"),
    "ten modes": fixed_kernel(modes=10),
    "closed-form scales": fixed_kernel(modes="program", scale_method="closed-form"),
    "pairwise scales": fixed_kernel(modes="program", scale_method="pairwise"),
    "inducing points": fixed_kernel(inducing=15),
    "sparse kernel": fixed_kernel(kernel="wendland", bandwidth=0.5),
    "robust": fixed_kernel(robust="tukey"),
}


def results():
    """Return all results as arrays by name."""
    arrays = {}
    for scene_name, points in SCENES.items():
        for model_name, model in MODELS.items():
            found = fit_results(model, points)
            arrays |= {f"{scene_name}, {model_name}, {name}": value for name, value in found.items()}
    arrays["cross-validation error"] = selection.cross_validate(fixed_kernel(), SCENES["body"], folds=5).cve
    arrays["stream"] = stream_map(SCENES["body"])
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
        "number of findings": len(gpa.diagnose()),
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
    """Print the differences, and return whether all are below the tolerance."""
    with np.load(old_path) as old, np.load(new_path) as new:
        if unmatched := set(old.files) ^ set(new.files):
            print(f"results in one file only: {', '.join(sorted(unmatched))}")  # noqa: T201
        differences = {name: relative_difference(old[name], new[name]) for name in old.files if name in new.files}
    for name, difference in differences.items():
        if difference > TOLERANCE:
            print(f"{name}: {difference:.1e}")  # noqa: T201
    largest = max(differences.values(), default=np.inf)
    print(f"{len(differences)} results; largest relative difference {largest:.1e}, tolerance {TOLERANCE:.0e}")  # noqa: T201
    return not unmatched and largest <= TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("save").add_argument("output", type=Path)
    comparison = commands.add_parser("compare")
    comparison.add_argument("old", type=Path)
    comparison.add_argument("new", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "save":
        warnings.simplefilter("ignore", KernelGPAWarning)
        np.savez(arguments.output, **results())
    elif not compare(arguments.old, arguments.new):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""All checks, and the order in which their findings explain each other.

    wrong data        explain a collapsed map, that a model does not suit, and all symptoms
    a collapsed map   explains that its model does not suit, and the symptoms: the settings that were given are wrong
    another model     explains the symptoms, and a collapsed map with settings that the fit chose

What is explained is named in the finding that explains it, and not reported on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...errors import KernelGPAError
from ...typing import Name
from . import clouds, connectivity, matches, placeholders, suitability, symptoms
from .evidence import Evidence
from .finding import NOT_RUN, CheckNotPossible, Finding, FittedRegistration

Check = Callable[[Evidence], list[Finding]]

WRONG_DATA: Mapping[str, Check] = {
    "placeholder coordinates": placeholders.placeholder_coordinates,
    "mirror images": clouds.mirror_images,
    "another unit": clouds.another_unit,
    "wrong matches": matches.wrong_matches,
}
ANOTHER_MODEL: Mapping[str, Check] = {
    "simpler models": suitability.simpler_model,
    "shape models": suitability.shape_model,
}
COLLAPSED_MAP: Mapping[str, Check] = {"collapsed map": symptoms.collapsed_map}
SYMPTOMS: Mapping[str, Check] = {
    "size factors": clouds.odd_sizes,
    "folded warps": symptoms.folded_warps,
}
INDEPENDENT: Mapping[str, Check] = {
    "left and right": clouds.left_right_search_possible,
    "same cloud twice": clouds.same_cloud_twice,
    "connected groups": connectivity.weakly_connected_groups,
    "undetermined turns": connectivity.undetermined_turns,
    "connected clouds": connectivity.weakly_connected_clouds,
    "rarely seen landmarks": connectivity.rarely_seen_landmarks,
    "inliers": matches.single_inliers,
    "all matches": matches.unjudged_observations,
    "spectral gap": symptoms.small_gap,
    "bandwidth": symptoms.unusual_bandwidth,
    "inducing points": symptoms.few_inducing_points,
}
EXPLAINS = 0.05  # least severity of a finding that explains others
# words of warnings, and the kinds of findings that report the same with more detail
REPEATED = {
    "mirror image": ("mirror images", "left and right exchanged"),
    "landmarks on one line": ("undetermined turn",),
    "seen by": ("landmarks seen once or never",),
    "check its unit": ("another unit", "placeholder coordinates"),
    "have the same position": ("placeholder coordinates",),
}
WARNING_SEVERITY = 0.1


def diagnose(
    gpa: FittedRegistration,
    points: npt.ArrayLike | None = None,  # (k, d)
    cloud: Name | None = None,
) -> list[Finding]:
    """Return everything that may be wrong, most severe first; an empty list if every check ran and passed.

    If ``points`` of a ``cloud`` are given, a finding reports whether they lie too far from its landmarks to be warped.
    """
    evidence = Evidence(gpa)
    impossible: dict[str, CheckNotPossible] = {}

    def run(checks: Mapping[str, Check]) -> list[Finding]:
        findings = []
        for name, check in checks.items():
            try:
                findings += check(evidence)
            except CheckNotPossible as error:
                impossible[name] = error
            except (KernelGPAError, np.linalg.LinAlgError) as error:
                impossible[name] = CheckNotPossible(str(error))
        return findings

    findings: list[Finding] = []
    models = (ANOTHER_MODEL, COLLAPSED_MAP) if gpa.automatic_ is None else (COLLAPSED_MAP, ANOTHER_MODEL)
    for checks in (SYMPTOMS, *models, WRONG_DATA):
        findings = explained(run(checks), findings)
    findings += run(INDEPENDENT)
    findings += _warnings(gpa, findings) + _checks_not_run(impossible)
    if points is not None and cloud is not None:
        findings += symptoms.far_points(gpa, points, cloud)
    return sorted(findings, key=lambda finding: -finding.severity)


def explained(causes: list[Finding], consequences: list[Finding]) -> list[Finding]:
    """Return the causes, and the consequences unless a cause explains them, which then names them.

    Possible wrong matches do not explain that a shape model suits better if that model would gain more.
    """
    if not causes or max(cause.severity for cause in causes) < EXPLAINS:
        return causes + consequences
    first = max(causes, key=lambda cause: cause.severity)
    doubtful = first.kind == matches.WRONG_MATCHES
    kept = [
        one
        for one in consequences
        if doubtful and one.kind == suitability.SHAPE_MODEL_KIND and one.severity > first.severity
    ]
    consequences = [one for one in consequences if one not in kept]
    if not consequences:
        return causes + kept
    kinds = tuple(dict.fromkeys(kind for one in consequences for kind in (one.kind, *one.explains)))
    found = f"{first.found}. It explains: {', '.join(kinds)}"
    return kept + [replace(one, found=found, explains=kinds) if one is first else one for one in causes]


def _warnings(gpa: FittedRegistration, findings: list[Finding]) -> list[Finding]:
    """The warnings of the fit that no finding repeats."""
    kinds = {finding.kind for finding in findings}
    messages = [
        message
        for message in gpa.registration_.warnings
        if not any(words in message and kinds.intersection(same) for words, same in REPEATED.items())
    ]
    return [_as_finding(message) for message in messages]


def _as_finding(message: str) -> Finding:
    """The last sentence of a warning states what to do."""
    for separator in ("; ", ". "):
        found, separator_found, action = message.rpartition(separator)
        if separator_found:
            return Finding("warning of the fit", WARNING_SEVERITY, found, action)
    return Finding("warning of the fit", WARNING_SEVERITY, message, "check these data")


def _checks_not_run(impossible: Mapping[str, CheckNotPossible]) -> list[Finding]:
    """One finding for each reason, with the names of the checks."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, error in impossible.items():
        reasons.setdefault((str(error), error.action), []).append(name)
    return [
        Finding(NOT_RUN, 0.0, f"{', '.join(names)}: {reason}", action) for (reason, action), names in reasons.items()
    ]

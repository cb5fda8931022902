"""What a diagnosis returns, and what its checks read of a fitted estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...observations.collection import Observations
from ...observations.identifiers import abbreviated
from ...spectrum.eigenpairs import Spectrum
from ...typing import Array, IndexArray, Name
from ...warps import Warp

if TYPE_CHECKING:  # estimators import this package
    from ...estimators.automatic import AutomaticChoice
    from ...estimators.prediction.backward import BackwardWarps
    from ...estimators.registration import Registration

LISTED = 4  # names in a message
NO_GAIN = 0.005  # severity below which a correction gains nothing: it is printed as 0
NOT_RUN = "checks that could not run"


class FittedRegistration(Protocol):
    """What the checks read of a fitted estimator: n clouds, m landmarks, d dimensions."""

    _deforms: bool  # whether the warps are more than rigid motions and similarities
    _sizes_differ: bool  # whether each cloud has a size factor
    modes: str | int

    # read only, as attributes of the estimators are properties
    @property
    def robust_(self) -> str | None: ...  # the loss that was used
    @property
    def automatic_(self) -> AutomaticChoice | None: ...  # the settings that the fit chose
    @property
    def observations_(self) -> Observations: ...
    @property
    def registration_(self) -> Registration: ...
    @property
    def map_(self) -> Array: ...  # (m, d)
    @property
    def scales_(self) -> Array: ...  # (d,)
    @property
    def rotations_(self) -> Array: ...  # (n, d, d)
    @property
    def translations_(self) -> Array: ...  # (n, d)
    @property
    def size_factors_(self) -> Array: ...  # (n,)
    @property
    def warps_(self) -> list[Warp]: ...
    @property
    def mirrored_(self) -> list[Name]: ...
    @property
    def spectrum_(self) -> Spectrum: ...
    @property
    def shared_landmarks_(self) -> IndexArray: ...  # landmarks that the map was solved from
    @property
    def weights_(self) -> Array: ...  # (n, m) of the last solve
    @property
    def residuals_(self) -> Array: ...  # (n, m) leave-one-out, in the map
    @property
    def inducing_errors_(self) -> Array: ...  # (n,)
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def _backward(self) -> BackwardWarps: ...


@dataclass(frozen=True)
class Finding:
    """One thing that may be wrong.

    Attributes
    ----------
    kind : str
        What kind of problem it is, in a few words.
    severity : float
        The share of the leave-one-out error that correcting it is expected to remove, from 0 (nothing) to 1.  For what
        residuals cannot show, such as positions without a second observation, a fixed value from 0 (good to know) to 1
        (the result is useless).
    found : str
        What was found, with numbers.
    action : str
        What to do about it.
    explains : tuple of str
        Kinds of findings that are consequences of this one and not reported on their own; ``found`` names them, too.
    is_note : bool
        Whether it is good to know, but no problem, because correcting it is expected to gain nothing.

    Examples
    --------
    >>> print(Finding("another unit", 0.9, "cloud 3 is 25.4 times as large as the others are", "check its unit"))
    another unit (severity 0.9 of 1): cloud 3 is 25.4 times as large as the others are; check its unit
    """

    kind: str
    severity: float
    found: str
    action: str
    explains: tuple[str, ...] = ()

    @property
    def is_note(self) -> bool:
        return bool(self.severity < NO_GAIN and self.kind != NOT_RUN)  # a severity may be a NumPy number

    def __str__(self) -> str:
        rank = "note" if self.is_note else f"severity {self.severity:.2g} of 1"
        return f"{self.kind} ({rank}): {self.found}; {self.action}"


@dataclass(frozen=True)
class SuspiciousObservation:
    """An observation that may be a wrong match.

    Attributes
    ----------
    cloud, landmark : hashable
        Names of the cloud and of the landmark.
    residual : float
        Length of the leave-one-out residual in the map: the distance of the observation from where the rest of its
        cloud and the map predict it.
    weight : float
        Weight in the fit as a share of the weight given; less than 1 if a robust fit down-weighted it.

    Examples
    --------
    >>> from kernelgpa import RigidGPA, simulate
    >>> points = simulate.liver(clouds=6, landmarks=40, seed=0).points
    >>> points[2, [5, 9]] = points[2, [9, 5]]  # a wrong match
    >>> worst = RigidGPA().fit(points).suspicious_observations(count=2)
    >>> sorted((one.cloud, one.landmark) for one in worst)
    [(2, 5), (2, 9)]
    """

    cloud: Name
    landmark: Name
    residual: float
    weight: float


class CheckNotPossible(Exception):
    """A check cannot run on these data: why, and what would make it possible."""

    def __init__(self, reason: str, action: str = "give more landmarks, or drop clouds") -> None:
        super().__init__(reason)
        self.action = action


def named(what: str, names: Sequence[Name]) -> str:
    """Return for instance "clouds 1, 2, 3, 4 and 5 more"."""
    return f"{what}{'' if len(names) == 1 else 's'} {abbreviated(names, LISTED)}"

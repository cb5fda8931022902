"""Whether the next update of a stream has enough memory, found out before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TooLarge
from ..spectrum.forecast import clouds_of_stream, forecast_stream
from ..spectrum.running_sum import Key, RunningSum
from ..typing import Name

UNASKED = 1 << 25  # bytes: less is taken without asking the system, which takes longer than most frames


def require_memory(running: RunningSum, names: Sequence[Name] = (), leaving: Sequence[Key] = ()) -> None:
    """An error unless an update has enough memory once a cloud of such landmarks has come and others have left."""
    d, features = running.dimension, running.family.features(running.dimension)
    held = running.held + 8 * clouds_of_stream(running.sizes, d, features)
    sizes, m = running.most_with(names)
    needed = forecast_stream(sizes, m, d, features, held, UNASKED)
    if needed.fits:
        return
    sizes, m = running.sizes_with(names, leaving)
    needed = forecast_stream(sizes, m, d, features, held, UNASKED)
    if not needed.fits:
        what = f"a frame of {len(names)} landmarks" if names else "this update"
        raise TooLarge(
            f"{what} would take {needed.memory / 1e9:.2f} GB of {needed.available / 1e9:.2f} GB free, because {m} "
            f"landmarks are shared by {len(sizes)} frames; use fewer landmarks per frame or a smaller window"
        )

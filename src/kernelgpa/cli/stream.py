"""``kernelgpa stream``: frames in as they come, a line for every update out."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from ..errors import FormatError, InvalidObservations, InvalidSetting
from ..io.atomic import require_writable_file, write_bytes
from ..io.base import Contents, Specimen
from ..io.files import FORMATS
from ..streaming import StreamingGPA
from ..streaming.checkpoint import read as read_checkpoint
from ..streaming.frames import Drop, End, parse
from ..streaming.journal import MAP, POSES, UPDATES, Journal, require_sizes
from ..streaming.lines import STANDARD_INPUT, Line, Place, lines_of
from ..streaming.session import Session
from ..streaming.view import page
from .app import app
from .messages import print_message
from .options import Verbose
from .settings import estimator_of, modes_of

STOPPED = 1  # the exit code of a run that was stopped before the end of its input
A_SECOND = 1.0


class StreamMethod(StrEnum):
    AFFINE = "affine"
    TPS = "tps"
    KERNEL = "kernel"


@app.command()
def stream(
    frames: Annotated[Path, typer.Argument(help="A file of frames, one JSON object a line; - is standard input.")],
    follow: Annotated[
        bool, typer.Option("--follow", help='Wait for the file to grow, until Ctrl-C or a line {"end": true}.')
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for poses.tum, updates.jsonl and map.csv.")
    ] = None,
    window: Annotated[int | None, typer.Option(help="How many frames are kept, the oldest go.  [all]")] = None,
    every: Annotated[int, typer.Option(min=1, help="Solve the map again after so many frames.")] = 1,
    with_map: Annotated[bool, typer.Option("--map", help="Tell the landmarks that are new or moved.")] = False,
    map_tolerance: Annotated[float, typer.Option(min=0.0, help="How far a landmark moves before it is told.")] = 0.0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="The state is kept here; a run that finds it goes on from it.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Frames from one checkpoint to the next.")] = 100,
    view: Annotated[
        Path | None, typer.Option(help="A live picture: an HTML page that loads itself again every second.")
    ] = None,
    method: Annotated[StreamMethod | None, typer.Option(help="The warps.  [kernel]")] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Kernel: width, as a multiple of the mean distance between points.  [0.25]")
    ] = None,
    smoothing: Annotated[float | None, typer.Option(help="Kernel and tps: the price of bending.  [0.1, 0.01]")] = None,
    modes: Annotated[str | None, typer.Option(help="auto, paper, or how many eigenvectors.  [auto]")] = None,
    verbose: Verbose = False,
) -> None:
    """Register frames as they come: after each the map is solved again, and one line of JSON tells the pose.

    A frame is one line, {"frame": 7, "time": 0.7, "ids": ["a", "b", ...], "points": [[x, y, z], ...]}, with "weights",
    "odometry" and "pose" if there are any; {"drop": 7} takes a frame back.  A line that cannot be used is reported with
    its number, and skipped.  With --checkpoint a run that was killed goes on where it was.

    Examples:

        kernelgpa stream frames.jsonl -o out

        kernelgpa stream frames.jsonl --follow --window 300 --checkpoint state.npz -o out --view live.html

        sensor | kernelgpa stream - --window 100 --map
    """
    typed = {
        "name": None if method is None else method.value,
        "bandwidth": bandwidth,
        "smoothing": smoothing,
        "modes": modes_of(modes),
    }
    if window is not None and every > window:
        raise InvalidSetting(f"--every is {every} and --window {window}; frames would leave before they are solved")
    _require_apart(frames, output, checkpoint, view)
    estimator = estimator_of({key: value for key, value in typed.items() if value is not None})
    session = Session(StreamingGPA(estimator, window=window), every, map_tolerance if with_map else None)
    about = _resumed(session, checkpoint)
    place = Place(**about.get("place", {}))
    with ExitStack() as stack:
        lines = stack.enter_context(lines_of(frames, follow, place))  # before anything is written
        journal = None if output is None else stack.enter_context(Journal(output, about.get("sizes")))
        run = Run(session, journal, output, view, checkpoint, checkpoint_every, place, about.get("sizes"))
        ended = run.over(lines, str(frames))
    if not ended and not follow:
        raise typer.Exit(STOPPED)


def _require_apart(frames: Path, output: Path | None, checkpoint: Path | None, view: Path | None) -> None:
    """Nothing that is written may be what is read, or be written twice; and all folders are there."""
    growing = [] if output is None else [output / name for name in (POSES, UPDATES, MAP)]
    paths = [one.resolve() for one in (frames, checkpoint, view, *growing) if one is not None]
    twice = [one for one in paths if paths.count(one) > 1]
    if twice:
        raise InvalidSetting(f"{twice[0]} is given twice, to be read and written; give files of their own")
    for one in (checkpoint, view):
        if one is not None:
            require_writable_file(one)


def _resumed(session: Session, checkpoint: Path | None) -> dict[str, Any]:
    """What was kept at a checkpoint, if there is one; the session goes on from it."""
    if checkpoint is None or not checkpoint.exists():
        return {}
    found, about = read_checkpoint(StreamingGPA, checkpoint)
    wanted = session.stream
    for what, old, new in (
        ("method", repr(found.estimator), repr(wanted.estimator)),
        ("window", found.window, wanted.window),
    ):
        if old != new:
            raise InvalidSetting(f"{checkpoint} was made with {what} {old}, not {new}; use that, or another checkpoint")
    try:
        session.stream = found
        session.restore(about["session"])
        Place(**about["place"])
        require_sizes(about.get("sizes"))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise FormatError(checkpoint, None, "it was not made by kernelgpa stream", "give another checkpoint") from None
    return about


@dataclass
class Run:
    """One session over its lines, with everything that is written on the way."""

    session: Session
    journal: Journal | None
    output: Path | None
    view: Path | None
    checkpoint: Path | None
    checkpoint_every: int
    place: Place  # after the last line that is dealt with
    sizes: dict[str, int] | None = None  # of the files of an earlier run, where this one writes none
    unsaved: int = 0  # frames since the last checkpoint
    line: dict[str, Any] = field(default_factory=dict)  # of the last update
    shown: float = -A_SECOND  # when the picture was last written
    spoke: float = -A_SECOND

    def over(self, lines: Iterator[Line], source: str) -> bool:
        """Take the lines one by one; whether they ended by themselves."""
        source = "standard input" if source == STANDARD_INPUT else source
        with Stop() as stop:
            try:
                while (line := stop.next_of(lines)) is not None:
                    if not self._deal_with(line, source):
                        break
                if not stop.asked and self.session.pending:
                    self._update()
            except BrokenPipeError:  # whoever read the lines has ended, such as head
                self._finish()
                raise
            self._finish()
            return not stop.asked

    def _deal_with(self, line: Line, source: str) -> bool:
        """False at the end, which is not passed over, so that a run that goes on finds it again."""
        session = self.session
        try:
            said = parse(line.text, source, line.number) if line.text.strip() else None
            if isinstance(said, End):
                return False
            if isinstance(said, Drop):
                session.drop(said)
            elif said is not None:
                session.take(said, line.number)
                self.unsaved += 1
        except FormatError as error:
            session.before = None
            print_message(f"{error}; the line is skipped")
            if not line.whole:  # perhaps still being written
                return True
        except (InvalidObservations, MemoryError) as error:
            found = str(error) or "there is not enough memory for it"
            print_message(f"{source}, line {line.number}: {found}; the line is skipped")
        self.place = line.place
        if session.due:
            self._update()
        if self.unsaved >= self.checkpoint_every:
            self._save()
        return True

    def _update(self) -> None:
        told = self.session.update()
        self.line, text = told.line, json.dumps(told.line, allow_nan=False)
        if self.journal is not None:  # first: standard output may be closed
            self.journal.append(UPDATES, text + "\n")
            self.journal.append(POSES, told.poses)
        typer.echo(text)
        now = time.monotonic()
        if self.view is not None and now >= self.shown + A_SECOND:
            self._show()
        if sys.stderr is not None and sys.stderr.isatty() and now >= self.spoke + A_SECOND:
            self.spoke = now
            print_message(
                f"frame {told.line['frame']}: {told.line['clouds']} clouds, {told.line['landmarks']} landmarks"
            )

    def _show(self, ended: bool = False) -> None:
        if self.view is not None and self.line:
            write_bytes(self.view, page(self.session, self.line, ended).encode())
            self.shown = time.monotonic()

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        sizes = self.sizes if self.journal is None else self.journal.sizes()
        about = {"session": self.session.about(), "place": asdict(self.place), "sizes": sizes}
        self.session.stream.checkpoint(self.checkpoint, about)
        self.unsaved = 0

    def _finish(self) -> None:
        names, places = self.session.places()
        if self.output is not None and names:
            contents = Contents((Specimen("map", places, tuple(names)),), labelled=True)
            write_bytes(self.output / MAP, FORMATS[".csv"].render(contents))
        self._show(ended=True)
        self._save()


class Stop:
    """Ctrl-C and SIGTERM end a run between two lines, never within one; asked twice, at once."""

    def __init__(self) -> None:
        self.asked, self.idle = False, False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        self._before = {one: signal.signal(one, self._ask) for one in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def next_of(self, lines: Iterator[Line]) -> Line | None:
        """The next line; None at the end, and when a run is stopped while it waits."""
        try:
            self.idle = True
            return None if self.asked else next(lines, None)
        except KeyboardInterrupt:
            return None
        finally:
            self.idle = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or self.idle:
            raise KeyboardInterrupt

"""``kernelgpa stream``: frames in as they arrive, one line of JSON out for each update."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from ..errors import FormatError, InvalidObservations, InvalidSetting
from ..io.atomic import require_writable_file, write_bytes
from ..io.file_list import GENERIC, known_suffix
from ..io.files import FORMATS
from ..io.landmark_file import LabelledCloud, LandmarkFile
from ..streaming import StreamingGPA
from ..streaming.checkpoint import read as read_checkpoint
from ..streaming.frames import Drop, End, parse
from ..streaming.frames.input_lines import STANDARD_INPUT, InputLine, InputPosition, read_lines
from ..streaming.frames.live_view import page
from ..streaming.frames.output_files import MAP, POSES, UPDATES, OutputFiles, require_sizes
from ..streaming.frames.pipeline import FramePipeline, UpdateReport
from . import options
from .app import app
from .messages import print_message
from .settings import estimator_of, modes_of, number_or_word

STOPPED = 1  # the exit code of a run that was stopped before the end of its input
REFRESH_INTERVAL = 1.0  # seconds between two pages of --view, or two lines of progress


class StreamMethod(StrEnum):
    """The methods whose warps deform."""

    AFFINE = "affine"
    TPS = "tps"
    KERNEL = "kernel"


Frames = Annotated[Path, typer.Argument(help="A file of frames, one JSON object per line; - is standard input.")]
Follow = Annotated[
    bool, typer.Option("--follow", help='Wait for lines to be appended, until Ctrl-C or a line {"end": true}.')
]
OutputFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="A folder for poses.tum, updates.jsonl and map.csv.")
]
Window = Annotated[int | None, typer.Option(help="How many frames to keep; the oldest leave.  [all]")]
Every = Annotated[int, typer.Option(min=1, help="Update the map after this many frames.")]
WithMap = Annotated[bool, typer.Option("--map", help="Report the landmarks that are new or moved.")]
MapTolerance = Annotated[float, typer.Option(min=0.0, help="Motion beyond which a landmark is reported.")]
Checkpoint = Annotated[Path | None, typer.Option(help="A file for the state; a run that finds it resumes from it.")]
CheckpointEvery = Annotated[int, typer.Option(min=1, help="Save the state after this many frames.")]
View = Annotated[Path | None, typer.Option(help="A live view: an HTML page that reloads itself every second.")]
MethodName = Annotated[StreamMethod | None, typer.Option(help="Family of warps.  [kernel]")]


@app.command()
def stream(
    frames: Frames,
    follow: Follow = False,
    output: OutputFolder = None,
    window: Window = None,
    every: Every = 1,
    with_map: WithMap = False,
    map_tolerance: MapTolerance = 0.0,
    checkpoint: Checkpoint = None,
    checkpoint_every: CheckpointEvery = 100,
    view: View = None,
    method: MethodName = None,
    bandwidth: options.Bandwidth = None,
    smoothing: options.Smoothing = None,
    modes: options.Modes = None,
    mirrored: options.Mirrored = None,
    verbose: options.Verbose = False,
) -> None:
    """Register frames as they arrive.

    Each frame updates the map, and one line of JSON reports its pose.

    A frame is one line, {"frame": 7, "time": 0.7, "ids": ["a", "b", ...], "points": [[x, y, z], ...]}, optionally with
    "weights", "odometry" and "pose"; {"drop": 7} removes a frame.  A line that cannot be used is reported with its
    number and skipped.  With --checkpoint a run that was killed resumes where it was.

    Examples:

        kernelgpa stream frames.jsonl -o out

        kernelgpa stream frames.jsonl --follow --window 300 --checkpoint state.npz -o out --view live.html

        sensor | kernelgpa stream - --window 100 --map
    """
    _require_lines(frames)
    _require_window(window, every)
    _require_distinct(frames, output, checkpoint, view)
    name = None if method is None else method.value
    arguments: dict[str, Any] = {"name": name, "modes": modes_of(modes), "mirrored": mirrored}
    arguments["bandwidth"] = number_or_word("bandwidth", bandwidth)
    arguments["smoothing"] = number_or_word("smoothing", smoothing)
    given = {key: value for key, value in arguments.items() if value is not None}
    estimator = estimator_of(given, offered=arguments)
    pipeline = FramePipeline(StreamingGPA(estimator, window=window), every, map_tolerance if with_map else None)
    saved = _resume(pipeline, checkpoint)
    with ExitStack() as stack:
        lines = stack.enter_context(read_lines(frames, follow, saved.position))  # before anything is written
        files = None if output is None else stack.enter_context(OutputFiles(output, saved.sizes))
        run = Run(pipeline, files, output, view, checkpoint, checkpoint_every, saved)
        ended = run.process(lines, str(frames))
    if not ended and not follow:
        raise typer.Exit(STOPPED)


def _require_lines(frames: Path) -> None:
    """A file of a landmark format holds all frames at once, not one per line."""
    suffix = known_suffix(frames, list(FORMATS))
    if suffix is not None and suffix not in GENERIC:
        raise FormatError(
            frames, None, f"a {suffix} file holds no lines of JSON", f"register it with: kernelgpa register {frames}"
        )


def _require_window(window: int | None, every: int) -> None:
    if window is not None and every > window:
        raise InvalidSetting(
            f"--every is {every} and --window is {window}: frames would leave before an update; use a larger --window"
        )


def _require_distinct(frames: Path, output: Path | None, checkpoint: Path | None, view: Path | None) -> None:
    """The files must differ from each other, and their folders must exist."""
    outputs = [] if output is None else [output / name for name in (POSES, UPDATES, MAP)]
    paths = [one.resolve() for one in (frames, checkpoint, view, *outputs) if one is not None]
    repeated = [one for one in paths if paths.count(one) > 1]
    if repeated:
        raise InvalidSetting(f"{repeated[0]} is given twice, to be read and written; use different files")
    for one in (checkpoint, view):
        if one is not None:
            require_writable_file(one)


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds of a run, beside the stream and its frames."""

    position: InputPosition = field(default_factory=InputPosition)  # after the last line that was processed
    sizes: dict[str, int] | None = None  # of the output files; None: there are none


def _resume(pipeline: FramePipeline, checkpoint: Path | None) -> Saved:
    """Let the pipeline continue from a checkpoint, if there is one."""
    if checkpoint is None or not checkpoint.exists():
        return Saved()
    found, about = read_checkpoint(StreamingGPA, checkpoint)
    wanted = pipeline.stream
    for what, old, new in (
        ("method", repr(found._given), repr(wanted._given)),
        ("window", found.window, wanted.window),
    ):
        if old != new:
            raise InvalidSetting(f"{checkpoint} was made with {what} {old}, not {new}; use that, or another checkpoint")
    try:
        pipeline.stream = found
        pipeline.restore(about["pipeline"])
        require_sizes(about.get("sizes"))
        return Saved(InputPosition(**about["position"]), about.get("sizes"))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise FormatError(checkpoint, None, "it was not made by kernelgpa stream", "use another checkpoint") from None


@dataclass
class Run:
    """The lines of one run, and everything that is written while they are processed."""

    pipeline: FramePipeline
    files: OutputFiles | None
    output: Path | None
    view: Path | None
    checkpoint: Path | None
    checkpoint_every: int
    saved: Saved
    unsaved_frames: int = 0  # since the last checkpoint
    report: UpdateReport | None = None  # of the last update
    viewed: float = -REFRESH_INTERVAL  # when the view was last written
    printed: float = -REFRESH_INTERVAL  # when progress was last printed

    def process(self, lines: Iterator[InputLine], source: str) -> bool:
        """Process line after line; whether all were processed before the run was stopped."""
        source = "standard input" if source == STANDARD_INPUT else source
        with Stop() as stop:
            try:
                while (line := stop.next_of(lines)) is not None:
                    if not self._process_line(line, source):
                        break
                if not stop.requested and self.pipeline.pending:
                    self._update()
            except BrokenPipeError:  # the reader of standard output has ended, such as head
                self._finish()
                raise
            self._finish()
            return not stop.requested

    def _process_line(self, line: InputLine, source: str) -> bool:
        """Process a line; False at the end, whose line is not counted, so that a resumed run finds it again."""
        pipeline = self.pipeline
        try:
            content = parse(line.text, source, line.number) if line.text.strip() else None
            if isinstance(content, End):
                return False
            if isinstance(content, Drop):
                pipeline.drop(content)
            elif content is not None:
                pipeline.add(content, line.number)
                self.unsaved_frames += 1
        except FormatError as error:
            pipeline.previous = None
            print_message(f"{error}; the line is skipped")
            if not line.complete:  # perhaps still being written
                return True
        except (InvalidObservations, MemoryError) as error:
            found = str(error) or "there is not enough memory for it"
            print_message(f"{source}, line {line.number}: {found}; the line is skipped")
        self.saved = replace(self.saved, position=line.position)
        if pipeline.update_is_due:
            self._update()
        if self.unsaved_frames >= self.checkpoint_every:
            self._save()
        return True

    def _update(self) -> None:
        report = self.report = self.pipeline.update()
        text = json.dumps(report.as_json(), allow_nan=False)
        if self.files is not None:  # first, because standard output may be closed
            self.files.append(UPDATES, text + "\n")
            self.files.append(POSES, report.new_poses)
        typer.echo(text)
        now = time.monotonic()
        if self.view is not None and now >= self.viewed + REFRESH_INTERVAL:
            self._show()
        if sys.stderr is not None and sys.stderr.isatty() and now >= self.printed + REFRESH_INTERVAL:
            self.printed = now
            print_message(f"frame {report.frame}: {report.clouds} clouds, {report.landmarks} landmarks")

    def _show(self, ended: bool = False) -> None:
        if self.view is not None and self.report is not None:
            write_bytes(self.view, page(self.pipeline, self.report, ended).encode())
            self.viewed = time.monotonic()

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        sizes = self.saved.sizes if self.files is None else self.files.sizes()
        about = {"pipeline": self.pipeline.state(), "position": asdict(self.saved.position), "sizes": sizes}
        self.pipeline.stream.checkpoint(self.checkpoint, about)
        self.unsaved_frames = 0

    def _finish(self) -> None:
        names, positions = self.pipeline.landmark_positions()
        if self.output is not None and names:
            contents = LandmarkFile((LabelledCloud("map", positions, tuple(names)),), labelled=True)
            write_bytes(self.output / MAP, FORMATS[".csv"].render(contents))
        self._show(ended=True)
        self._save()


class Stop:
    """Ctrl-C and SIGTERM stop a run between two lines; a second one stops it at once."""

    def __init__(self) -> None:
        self.requested, self.idle = False, False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        self._before = {one: signal.signal(one, self._request) for one in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def next_of(self, lines: Iterator[InputLine]) -> InputLine | None:
        """The next line; None at the end, and if the run is stopped while it waits for a line."""
        try:
            self.idle = True
            return None if self.requested else next(lines, None)
        except KeyboardInterrupt:
            return None
        finally:
            self.idle = False

    def _request(self, number: int, frame: FrameType | None) -> None:
        again, self.requested = self.requested, True
        if again or self.idle:
            raise KeyboardInterrupt

"""The few frames of a clip that the report shows; they are chosen while the clip is denoised."""

from typing import NamedTuple

from ...types import Pixels
from ..display import middle

MOST = 12
"""The number of frames of a clip that the report shows, at most."""
SIDE = 512
"""The largest side of the part of a frame that is shown, in pixels."""
_THUMBNAIL = 128  # the least number of rows or columns of a thumbnail of a frame larger than that


class ClipFrame(NamedTuple):
    """What the report shows of a frame."""

    number: int
    """Its number in the clip, from 0."""
    before: Pixels
    """The middle of the frame: (height, width), or (height, width, 3) in RGB."""
    after: Pixels
    thumbnail: Pixels
    """The whole frame after denoising, with fewer pixels."""


class FrameSample:
    """Keeps a few evenly spaced frames of a clip, of any length, as they are denoised.

    The frames before denoising have to wait for the denoised ones, which come later:

        sample = FrameSample(count)  # the length, if it is known
        if sample.wants(number):  # when a frame is read: keep it
        sample.add(number, before, after)  # when it is denoised

    Frames are upright arrays of (height, width), or of (height, width, 3) in RGB; only their middle is kept.
    """

    def __init__(self, count: int | None = None) -> None:
        self.frames: list[ClipFrame] = []
        self.height = self.width = 0
        """The size of the frames."""
        self._step = 1 if count is None else max(1, -(-count // MOST))

    def wants(self, number: int) -> bool:
        """Return whether a frame may be shown. The answer may become False once the clip turns out to be longer."""
        return number % self._step == 0

    def add(self, number: int, before: Pixels, after: Pixels) -> None:
        """Keep a frame if it is wanted. Frames must be added in order."""
        if self.wants(number) and len(self.frames) == MOST:
            self._step *= 2
            self.frames = [frame for frame in self.frames if self.wants(frame.number)]
        if not self.wants(number):
            return
        self.height, self.width = after.shape[:2]
        every = max(1, min(self.height, self.width) // _THUMBNAIL)
        thumbnail = after[::every, ::every].copy()
        self.frames.append(
            ClipFrame(number, middle(before, SIDE).copy(), middle(after, SIDE).copy(), thumbnail)
        )

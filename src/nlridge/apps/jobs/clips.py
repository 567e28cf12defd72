"""Denoising of video files, frame after frame."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import estimate_noise
from ...atomic import expect_new
from ...files.video import open_clip, rewrite
from ...files.video.pixels import images_of, parts_of, planar
from ...noise import Noise
from .filmstrip import FrameSample
from .frames import DenoisedClip, FrameDenoiser
from .grain import level_in, plain_words
from .paths import INSTEAD_OF_EXISTING
from .words import recorded_warnings


def clean_clip(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    codec: str | None,
    quality: int | None,
    progress: Callable[[float, str], None],
    **options: Any,
) -> DenoisedClip:
    """Read, denoise and write a video file; `progress` is called with the fraction that is done and words on the speed.

    The other options are those of `FrameDenoiser`.
    """
    denoiser = FrameDenoiser(**options)
    expect_new("output", target, overwrite=overwrite, alternatives=INSTEAD_OF_EXISTING)
    sample = FrameSample()

    def seen(done: int, total: int | None) -> None:
        progress(min(done / total, 1.0) if total else 0.0, denoiser.speed(done))

    target.parent.mkdir(parents=True, exist_ok=True)
    with recorded_warnings() as warnings:
        written = rewrite(
            source, target, denoiser.change, codec=codec, quality=quality, seen=seen, viewer=sample
        )
    return denoiser.result(written.frames, warnings, list(written.notes), sample)


def noise_in_clip(path: Path, kind: str) -> tuple[Noise, str, int, int]:
    """Estimate the noise in the first frame of a video, or in its luma.

    Returns the noise, how strong it is in plain words, the number of the frame (from 1), and the number of frames.
    """
    with open_clip(path) as clip:
        frame = planar(next(clip.frames()))
        parts = parts_of(frame)
        channel_axis = 0 if len(parts.planes[0]) > 1 else None
        image = images_of(frame, parts)[0]
        model = estimate_noise(image, channel_axis=channel_axis, kind=kind)
        level = level_in(model, image, channel_axis)
        return model, plain_words(model, level, (0.0, parts.peak)), 1, clip.count or 1

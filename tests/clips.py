"""Clips of random frames, with sound, and the pixels of their files."""

from fractions import Fraction

import numpy as np
import pytest

from nlridge.files.video.pixels import plane_of

av = pytest.importorskip("av")

BT709 = (1, 1, 1, 1)


def random_frame(size, format, seed):
    rng = np.random.default_rng(seed)
    frame = av.VideoFrame(*size, format)
    bits = frame.format.components[0].bits
    for number, plane in enumerate(frame.planes):
        if frame.format.is_planar or (len(frame.planes) == 1 and format.startswith("gray")):
            values = plane_of(frame, number)
            values[...] = rng.integers(0, 2**bits, values.shape)
        else:
            plane.update(rng.bytes(plane.buffer_size))
    return frame


def make_clip(
    path,
    *,
    codec="libx264",
    format="yuv420p",
    size=(48, 32),
    times=range(8),
    unit=Fraction(1, 25),
    audio=None,
    rotation=None,
    aspect=None,
    timecode=None,
):
    """Write a clip of random frames, with half a second of a tone."""
    options = {"strict": "-1"} if path.suffix == ".y4m" else {}
    with av.open(str(path), "w", container_options=options) as out:
        stream = out.add_stream(codec, rate=25)
        context = stream.codec_context
        context.width, context.height = size
        context.pix_fmt, context.time_base, stream.time_base = format, unit, unit
        context.color_primaries, context.color_trc, context.colorspace, context.color_range = BT709
        if codec == "libx265":
            stream.options = {"x265-params": "log-level=error"}
        if rotation:
            stream.set_display_rotation(rotation)
        if timecode:
            stream.metadata["timecode"] = timecode
        if aspect:
            context.sample_aspect_ratio = aspect
        out.metadata["title"] = "a night"
        sound = audio and out.add_stream(audio, rate=48000, layout="mono")
        for k, time in enumerate(times):
            frame = random_frame(size, format, k)
            frame.pts, frame.time_base = time, unit
            frame.color_primaries, frame.color_trc, frame.colorspace, frame.color_range = BT709
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
        if sound:
            tone = (9000 * np.sin(np.arange(24000) / 20)).astype(np.int16)[None]
            frame = av.AudioFrame.from_ndarray(tone, format="s16", layout="mono")
            frame.sample_rate = 48000
            samples = sound.codec_context.frame_size or 1024
            resampler = av.AudioResampler(sound.format, "mono", 48000, samples)
            for part in [*resampler.resample(frame), *resampler.resample(None)]:
                out.mux(sound.encode(part))
            out.mux(sound.encode(None))
    return path


def planes_of(path):
    with av.open(str(path)) as file:
        return [
            [plane_of(frame, k).copy() for k in range(len(frame.planes))]
            for frame in file.decode(video=0)
        ]

"""The filter for VapourSynth, in VapourSynth. `make vapoursynth` installs it; elsewhere these tests are skipped."""

import numpy as np
import pytest

import nlridge
from nlridge.files.video.pixels import Parts, luma_of

vs = pytest.importorskip(
    "vapoursynth", reason="VapourSynth is not installed; make vapoursynth installs it"
)
denoise = pytest.importorskip("nlridge.vapoursynth").denoise

FORMATS = ["GRAY8", "GRAY16", "GRAYS", "YUV420P8", "YUV422P10", "YUV444P16", "YUV444PS", "RGB24", "RGBS"]  # fmt: skip
COUNT = 8  # from which the noise is estimated, whether frames are in memory or arrive


def noisy_clip(format, count=COUNT, size=(40, 34)):
    """A clip of noisy frames, and its planes as arrays of (frames, height, width)."""
    rng = np.random.default_rng(0)
    blank = vs.core.std.BlankClip(
        format=getattr(vs, format), width=size[0], height=size[1], length=count, keep=True
    )
    peak = 1.0 if blank.format.sample_type == vs.FLOAT else 2**blank.format.bits_per_sample - 1
    planes = []
    for frame in [blank.get_frame(0)]:
        for plane in frame:
            shape = np.asarray(plane).shape
            y, x = np.mgrid[: shape[0], : shape[1]]
            scene = 0.5 + 0.2 * np.sin(x / 5) * np.cos(y / 6)
            values = peak * (scene + rng.normal(0, 0.04, (count, *shape)))
            planes.append(np.clip(values, 0, peak).astype(np.asarray(plane).dtype))

    def fill(n, f):
        frame = f.copy()
        for number, plane in enumerate(planes):
            np.asarray(frame[number])[...] = plane[n]
        frame.props["Number"] = n
        return frame

    return blank.std.ModifyFrame(blank, fill), planes


def pixels_of(clip, order=None):
    """The planes of all frames, which are asked for in some order."""
    frames = {n: clip.get_frame(n) for n in order or range(clip.num_frames)}
    return [
        np.stack([np.asarray(frames[n][plane]) for n in sorted(frames)])
        for plane in range(clip.format.num_planes)
    ]


def expected_of(clip, planes, sigma=None):
    """The results of `nlridge.denoise_frames`, of the luma, and of both chroma planes, or of all channels."""
    peak = 2**clip.format.bits_per_sample - 1 if clip.format.sample_type == vs.INTEGER else None
    options = {"method": "fast", "data_range": peak}
    if clip.format.color_family != vs.YUV:
        stack = len(planes) > 1
        pixels = np.stack(planes, axis=1) if stack else planes[0]
        result = results_of(pixels, sigma, channel_axis=0 if stack else None, **options)
        return list(np.moveaxis(result, 1, 0)) if stack else [result]
    luma, *chroma = planes
    rows, columns = 1 << clip.format.subsampling_h, 1 << clip.format.subsampling_w
    parts = Parts(((0,), (1, 2)), clip.format.bits_per_sample, (rows, columns))
    options |= {"similar": [luma_of((frame,), parts) for frame in luma], "channel_axis": 0}
    level = None if sigma is None else sigma / (rows * columns) ** 0.5
    result = results_of(np.stack(chroma, axis=1), level, **options)
    return [
        results_of(luma, sigma, method="fast", data_range=peak),
        *np.moveaxis(result, 1, 0),
    ]


def results_of(frames, sigma, **options):
    result = np.stack(list(nlridge.denoise_frames(frames, sigma, **options)))
    peak = options["data_range"]
    return result if peak is None else np.clip(np.rint(result), 0, peak)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("given", [False, True])
def test_frames_have_the_bits_of_denoise_frames(format, given):
    clip, planes = noisy_clip(format)
    before = [plane.copy() for plane in planes]
    sigma = 0.04 * float(np.max(planes[0])) if given else None
    clean = denoise(clip, sigma, method="fast")
    assert (clean.format, clean.num_frames) == (clip.format, clip.num_frames)
    found = pixels_of(clean)
    for plane, expected, noisy in zip(found, expected_of(clip, planes, sigma), before, strict=True):
        np.testing.assert_array_equal(plane, expected)
        assert np.std(plane - noisy.astype(float)) > 0
    assert [clean.get_frame(n).props["Number"] for n in (0, 7)] == [0, 7]
    for plane, noisy in zip(planes, before, strict=True):
        np.testing.assert_array_equal(plane, noisy)


def test_any_order_of_requests():
    clip, _ = noisy_clip("GRAY8", count=70)
    expected = pixels_of(denoise(clip, 10, method="fast"))
    order = [69, 0, 35, 34, 36, 1, *reversed(range(40, 60)), 10, 12, 11]
    clean = denoise(clip, 10, method="fast")
    (some,) = pixels_of(clean, order)
    np.testing.assert_array_equal(some, expected[0][sorted(order)])


def test_requests_of_several_threads():
    clip, _ = noisy_clip("YUV420P8", count=20)
    clean = denoise(clip, 10, method="fast")
    futures = [clean.get_frame_async(n) for n in range(20)]
    expected = pixels_of(denoise(clip, 10, method="fast"))
    for n, future in enumerate(futures):
        np.testing.assert_array_equal(np.asarray(future.result()[2]), expected[2][n])


def test_half_precision():
    clip, planes = noisy_clip("GRAYH", count=3)
    clean = denoise(clip, 0.04, method="fast")
    expected = nlridge.denoise(planes[0].astype(np.float32), 0.04, method="fast", time_axis=0)
    np.testing.assert_array_equal(pixels_of(clean)[0], expected.astype(np.float16))


def test_strength_0_changes_nothing():
    clip, planes = noisy_clip("YUV420P8", count=3)
    for plane, noisy in zip(pixels_of(denoise(clip, strength=0)), planes, strict=True):
        np.testing.assert_array_equal(plane, noisy)


def test_wrong_arguments_are_refused_when_the_filter_is_made():
    clip, _ = noisy_clip("YUV420P8", count=3)
    for arguments, message in (
        ({"sigma": -1}, "sigma is -1"),
        ({"sigma": [1, 2]}, "sigma has 2 values; expected 1, or 3 for luma and chroma"),
        ({"method": "quick"}, "method"),
        ({"strength": "high"}, "strength"),
        ({"workers": 0}, "workers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            denoise(clip, **arguments)
    with pytest.raises(TypeError, match=r"clip is .*; expected a VideoNode of VapourSynth"):
        denoise(np.zeros((3, 8, 8)))
    mixed = vs.core.std.Splice([clip, noisy_clip("GRAY8", 1)[0]], mismatch=True)
    with pytest.raises(ValueError, match="clip has a variable format or size; expected a constant"):
        denoise(mixed)
    wide = vs.core.std.BlankClip(format=vs.GRAY32, width=8, height=8, length=1)
    with pytest.raises(ValueError, match="clip has the format Gray32; expected 8 to 16 bits"):
        denoise(wide)

"""Video files: what is kept when a clip is written again, and what is refused."""

import base64
import io
import json
import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nlridge.cli import main
from nlridge.cli.parser import build_parser
from nlridge.files.video import CODECS, SUFFIXES, open_clip, rewrite
from nlridge.files.video.pixels import images_of, parts_of, planar, plane_of, put_images
from nlridge.jobs.clips import sigma_of

av = pytest.importorskip("av")

MILLISECONDS = Fraction(1, 1000)
UNEVEN = [40, 140, 190, 340, 341, 540, 940, 941]  # times of frames
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


def facts(path):
    """What a copy of a clip must have in common with it."""
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        frames = list(file.decode(stream))
        first = frames[0]
        return {
            "codec": stream.codec_context.codec.canonical_name,
            "format": first.format.name,
            "times": [frame.pts * frame.time_base for frame in frames],
            "rate": stream.average_rate,
            "colours": (
                first.color_primaries,
                first.color_trc,
                first.colorspace,
                first.color_range,
            ),
            "rotation": first.rotation,
            "aspect": stream.sample_aspect_ratio,
            "title": file.metadata.get("title"),
            "streams": [stream.type for stream in file.streams],
        }


def with_telemetry(path, kind=b"gpmd"):
    """A clip with a stream of data, as action cameras and telephones write it: made of one of time codes."""
    make_clip(path, timecode="01:02:03:04")
    data = path.read_bytes()
    start = data.index(b"mhlrtmcd")
    place = data.index(b"tmcd", data.index(b"stsd", start))
    data = data[:start] + b"mhlrmeta" + data[start + 8 : place] + kind + data[place + 4 :]
    path.write_bytes(data)
    return path


def sound_of(path):
    """The packets of the sound, with their times."""
    with av.open(str(path)) as file:
        packets = [p for p in file.demux(file.streams.audio[0]) if p.size]
        return [(bytes(packet), packet.pts * packet.time_base) for packet in packets]


def tone_of(path):
    """The amplitude and the phase of the tone of `make_clip`, by the times of its samples."""
    total, rate = 0.0, 48000
    with av.open(str(path)) as file:
        for frame in file.decode(audio=0):
            values = frame.to_ndarray()[0].astype(float)
            values /= 2**15 if frame.format.name == "s16" else 1
            start = float(frame.pts * frame.time_base) * rate
            places = start + np.arange(len(values))
            inside = (places > 4000) & (places < 4000 + 100 * 40 * np.pi)
            total += np.sum(inside * values * np.exp(-1j * places / 20))
    return total


def planes_of(path):
    with av.open(str(path)) as file:
        return [
            [plane_of(frame, k).copy() for k in range(len(frame.planes))]
            for frame in file.decode(video=0)
        ]


def unchanged(frames, channels):
    """Return the frames as they are, some of them late, as a denoiser does that reads ahead."""
    waiting = []
    for frame in frames:
        waiting.append(frame)
        if len(waiting) > 5:
            yield waiting.pop(0)
    yield from waiting


CLIPS = {
    "phone.mp4": {
        "audio": "aac",
        "rotation": 90,
        "unit": Fraction(1, 12800),
        "times": range(0, 4096, 512),
    },
    "uneven.mp4": {"unit": MILLISECONDS, "times": UNEVEN, "audio": "aac"},
    "uneven.mkv": {"unit": MILLISECONDS, "times": UNEVEN, "audio": "libopus", "rotation": 180},
    "camera.mov": {
        "codec": "prores_ks",
        "format": "yuv422p10le",
        "audio": "pcm_s16le",
        "rotation": -90,
    },
    "ten_bits.mp4": {"codec": "libx265", "format": "yuv420p10le", "size": (64, 64)},
    "ten_bits.mkv": {"format": "yuv422p10le", "aspect": Fraction(4, 3)},
    "odd.webm": {"codec": "libvpx-vp9", "size": (47, 33), "audio": "libopus"},
    "odd.avi": {"codec": "ffv1", "size": (47, 33), "audio": "pcm_s16le"},
    "gray.mkv": {"codec": "ffv1", "format": "gray16le"},
    "colours.mkv": {"codec": "ffv1", "format": "bgr0"},
    "plain.y4m": {"codec": "rawvideo", "size": (47, 33)},
    "gray.y4m": {"codec": "rawvideo", "format": "gray10le"},
}


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_keeps_everything_but_its_pixels(tmp_path, name):
    source, target = tmp_path / name, tmp_path / f"new_{name}"
    options = CLIPS[name]
    make_clip(source, **options)
    written = rewrite(source, target, unchanged)
    assert written.frames == 8
    assert not written.notes
    before, after = facts(source), facts(target)
    assert after == before
    assert len(before["times"]) == 8
    if "unit" in options:
        assert before["times"] == [time * options["unit"] for time in options["times"]]
    assert before["rotation"] % 360 == options.get("rotation", 0) % 360
    if options.get("audio"):
        assert len(sound_of(source)) > 10
        assert sound_of(target) == sound_of(source)


@pytest.mark.parametrize(
    ("target", "kind", "kept"),
    [("new.mov", b"gpmd", True), ("new.mp4", b"gpmd", True), ("new.mkv", b"gpmd", False), ("new.mov", b"mebx", False)],
)  # fmt: skip
def test_data_are_copied_where_their_kind_can_be_written(tmp_path, target, kind, kept):
    source = with_telemetry(tmp_path / "telemetry.mov", kind)
    with av.open(str(source)) as file:
        (stream,) = file.streams.data
        packets = [bytes(packet) for packet in file.demux(stream) if packet.size]
    written = rewrite(source, tmp_path / target, unchanged)
    with av.open(str(tmp_path / target)) as file:
        assert len(file.streams.data) == kept
        if kept:
            assert [bytes(p) for p in file.demux(file.streams.data[0]) if p.size] == packets
    assert (kind in (tmp_path / target).read_bytes()) == kept
    sentence = "a stream of other data (TimeCodeHandler) cannot be copied, and was dropped"
    assert list(written.notes) == ([] if kept else [sentence])


@pytest.mark.parametrize("name", ["new.mov", "new.mp4"])
def test_time_codes_are_made_again_and_not_twice(tmp_path, name):
    source = make_clip(tmp_path / "old.mov", timecode="01:02:03:04")
    written = rewrite(source, tmp_path / name, unchanged)
    assert not written.notes
    with av.open(str(tmp_path / name)) as file:
        assert [stream.type for stream in file.streams] == ["video", "data"]
        assert file.streams.data[0].metadata["timecode"] == "01:02:03:04"


PLAYED = {
    ("old.avi", "new.mp4"): ("mjpeg", "yuvj420p", "pcm_s16le", ["h264", "aac"]),
    ("old.mov", "new.m4v"): ("prores_ks", "yuv422p10le", "pcm_s16le", ["hevc", "aac"]),
    ("old.mkv", "new.mp4"): ("ffv1", "yuv420p", "libmp3lame", ["h264", "mp3"]),
    ("old.mp4", "new.webm"): ("libx264", "yuv420p", "aac", ["vp9", "opus"]),
    ("old.webm", "new.mov"): ("libvpx-vp9", "yuv420p", "libopus", ["h264", "aac"]),
}


@pytest.mark.parametrize("names", PLAYED)
def test_a_file_of_another_kind_has_the_codecs_that_players_expect(tmp_path, names):
    codec, format, audio, expected = PLAYED[names]
    source, target = (tmp_path / name for name in names)
    make_clip(source, codec=codec, format=format, audio=audio, size=(64, 64))
    written = rewrite(source, target, unchanged)
    with av.open(str(target)) as file:
        codecs = [stream.codec_context.codec.canonical_name for stream in file.streams]
    assert codecs == expected
    notes = [note for note in written.notes if "sound" in note]
    assert len(notes) == (audio != "libmp3lame")
    if notes:
        one, other = map(tone_of, (source, target))
        assert abs(other) == pytest.approx(abs(one), rel=0.05)
        assert abs(np.angle(other / one)) < 48 / 20  # a millisecond


@pytest.mark.parametrize("name", ["odd.avi", "gray.mkv", "plain.y4m", "gray.y4m"])
def test_a_lossless_clip_from_which_nothing_is_removed_is_the_same(tmp_path, name):
    source, target = make_clip(tmp_path / name, **CLIPS[name]), tmp_path / f"new_{name}"
    rewrite(source, target, unchanged)
    for before, after in zip(planes_of(source), planes_of(target), strict=True):
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(one, other)


FORMATS = {
    "yuv420p": [(23, 37), (2, 12, 19)],
    "yuvj422p": [(23, 37), (2, 23, 19)],
    "yuv444p10le": [(23, 37), (2, 23, 37)],
    "yuv411p": [(23, 37), (2, 23, 10)],
    "yuva420p": [(23, 37), (2, 12, 19)],
    "gbrp": [(3, 23, 37)],
    "gray12le": [(23, 37)],
}


@pytest.mark.parametrize("format", FORMATS)
def test_pixels_come_back_bit_by_bit(format):
    frame = random_frame((37, 23), format, 0)
    before = [plane_of(frame, k).copy() for k in range(len(frame.planes))]
    parts = parts_of(frame)
    images = images_of(frame, parts)
    assert [image.shape for image in images] == FORMATS[format]
    put_images(frame, parts, tuple(image[..., ::-1, :] - 0.4 for image in images))
    for k, plane in enumerate(before):
        alpha = format == "yuva420p" and k == 3
        np.testing.assert_array_equal(plane_of(frame, k), plane if alpha else plane[::-1])
    put_images(frame, parts, tuple(1000.0 * image.astype(float) - 500 for image in images))
    assert plane_of(frame, 0).max() == parts.peak
    put_images(frame, parts, images)
    for k, plane in enumerate(before):
        np.testing.assert_array_equal(plane_of(frame, k), plane)


def test_colours_are_red_green_and_blue():
    frame = av.VideoFrame.from_ndarray(np.full((4, 4, 3), (1, 2, 3), np.uint8), format="rgb24")
    frame = planar(frame)
    (image,) = images_of(frame, parts_of(frame))
    np.testing.assert_array_equal(image[:, 0, 0], (1, 2, 3))


def test_sigma_is_that_of_the_luma():
    """Chroma that is shared by four pixels has half of it."""
    parts = parts_of(av.VideoFrame(8, 8, "yuv420p"))
    assert [sigma_of(20, parts, k) for k in (0, 1)] == [20, 10]
    assert [sigma_of([20, 6, 7], parts, k) for k in (0, 1)] == [20, [6, 7]]
    with pytest.raises(ValueError, match="sigma has 2 values; expected 1, or 3"):
        sigma_of([1, 2], parts, 0)
    assert sigma_of([1, 2, 3], parts_of(av.VideoFrame(8, 8, "gbrp")), 0) == [1, 2, 3]


def test_luma_and_chroma_are_denoised(tmp_path, capsys):
    """Each with its own noise, which is estimated."""
    y, x = np.mgrid[:64, :96]
    rng = np.random.default_rng(0)
    with av.open(str(tmp_path / "a.mkv"), "w") as out:
        stream = out.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        scene = [120 + 60 * np.sin(x / 9) * np.cos(y / 11), 100 + x[::2, ::2], 90 + y[::2, ::2]]
        for _ in range(2):
            frame = av.VideoFrame(96, 64, "yuv420p")
            for k, (clean, level) in enumerate(zip(scene, (15, 5, 5), strict=True)):
                plane_of(frame, k)[...] = np.clip(clean + rng.normal(0, level, clean.shape), 0, 255)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    words = ["denoise", str(tmp_path / "a.mkv"), "--noise", "gaussian", "--method", "fast"]
    page = tmp_path / "r.html"
    assert main([*words, "--json", "--report", str(page)]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["noise"]["sigma"] == pytest.approx(15, rel=0.1)
    assert line["chroma_noise"]["sigma"] == pytest.approx(5, rel=0.2)
    assert not line["noise_given"]
    luma, chroma = line["noise"]["words"], line["chroma_noise"]["words"]
    shown = (
        f"<dt>noise</dt><dd>{line['in_words']}; {luma} (estimated) in luma, {chroma} in chroma</dd>"
    )
    assert shown in page.read_text("utf-8")
    for planes in planes_of(tmp_path / "a_denoised.mkv"):
        for plane, clean, level in zip(planes, scene, (15, 5, 5), strict=True):
            assert np.sqrt(np.mean((plane - clean) ** 2)) < 0.5 * level


@pytest.mark.parametrize("name", ["phone.mp4", "uneven.mkv", "odd.avi", "plain.y4m"])
@pytest.mark.parametrize("share", [0.5, 0.97])
def test_a_truncated_clip_is_refused_and_nothing_is_written(tmp_path, capsys, name, share):
    source = make_clip(tmp_path / name, **CLIPS[name])
    source.write_bytes(source.read_bytes()[: int(share * source.stat().st_size)])
    assert main(["denoise", str(source), "--method", "fast", "--sigma", "20"]) == 1
    error = capsys.readouterr().err
    assert "the file is damaged" in error
    assert error.count("\n") == 1 or "compiling" in error
    assert list(tmp_path.iterdir()) == [source]


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_text("#EXTM3U\n/etc/hosts\n")
    with pytest.raises(ValueError, match="the file is damaged or no mp4 file"), open_clip(path):
        pass
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="the file is empty; expected a video"), open_clip(path):
        pass


def test_an_interrupted_run_leaves_no_file(tmp_path):
    source = make_clip(tmp_path / "a.mp4", audio="aac")

    def interrupted(frames, channels):
        yield next(frames)
        raise KeyboardInterrupt

    target = tmp_path / "b.mp4"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        rewrite(source, target, interrupted)
    assert sorted(tmp_path.iterdir()) == [source, target]
    assert target.read_text() == "old"


def test_frames_of_a_constant_rate_get_a_note(tmp_path):
    source = make_clip(tmp_path / "a.mkv", unit=MILLISECONDS, times=UNEVEN, rotation=90)
    written = rewrite(source, tmp_path / "b.y4m", unchanged)
    assert list(written.notes) == [
        "y4m files cannot store the rotation",
        "y4m files have a constant frame rate; the times of some frames have changed",
    ]
    assert len(facts(tmp_path / "b.y4m")["times"]) == 8


def test_a_codec_and_a_quality_can_be_chosen(tmp_path):
    source = make_clip(tmp_path / "a.mp4", size=(64, 64))
    sizes = []
    for quality in (10, 40):
        rewrite(source, tmp_path / "b.mp4", unchanged, codec="hevc", quality=quality)
        assert facts(tmp_path / "b.mp4")["codec"] == "hevc"
        sizes.append((tmp_path / "b.mp4").stat().st_size)
    assert sizes[0] > 2 * sizes[1]
    for options, words in (
        ({"quality": 52}, "quality is 52; expected a number from 0 to 51"),
        ({"codec": "prores"}, "codec is prores; expected another one for mp4 files"),
    ):
        with pytest.raises(ValueError, match=words):
            rewrite(source, tmp_path / "c.mp4", unchanged, **options)
    assert not (tmp_path / "c.mp4").exists()
    odd = make_clip(tmp_path / "odd.y4m", codec="rawvideo", size=(47, 33))
    with pytest.raises(ValueError, match="expected vp9 or ffv1, which take frames of 47 x 33 pixels"):  # fmt: skip
        rewrite(odd, tmp_path / "c.mp4", unchanged, codec="h264")
    rewrite(odd, tmp_path / "c.mp4", unchanged)
    assert facts(tmp_path / "c.mp4")["codec"] == "vp9"


def noisy_clip(path):
    """A lossless clip of a still scene with noise of standard deviation 12."""
    y, x = np.mgrid[:40, :56]
    scene = 120 + 60 * np.sin(x / 6) * np.cos(y / 7)
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as out:
        stream = out.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 56, 40, "gray"
        for _ in range(4):
            noisy = np.clip(scene + rng.normal(0, 12, scene.shape), 0, 255).astype(np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(noisy, format="gray")))
        out.mux(stream.encode(None))
    return scene


@pytest.mark.parametrize("frames", ["auto", "independent"])
def test_the_command_line_denoises_clips_and_images_in_a_folder(tmp_path, capsys, frames):
    from PIL import Image

    scene = noisy_clip(tmp_path / "a.mkv")
    Image.fromarray(np.uint8(scene)).save(tmp_path / "b.png")
    words = ["denoise", str(tmp_path), "--sigma", "12", "--method", "fast", "--frames", frames]
    assert main([*words, "--json"]) == 0
    clip, image = map(json.loads, capsys.readouterr().out.splitlines())
    assert (clip["status"], clip["frames"], clip["notes"]) == ("done", 4, [])
    assert 8 < clip["removed"] < 13
    assert clip["noise"]["words"] == "Gaussian noise with a standard deviation of 12"
    assert (clip["noise_given"], clip["unchanged"]) == (True, "")
    assert "chroma_noise" not in clip
    assert image["status"] == "done"
    after = np.array([planes[0] for planes in planes_of(tmp_path / "a_denoised.mkv")])
    assert np.sqrt(np.mean((after - scene) ** 2)) < 7
    assert main([*words, "--overwrite"]) == 0
    how = "denoised together in time, with" if frames == "auto" else "the first with"
    assert clip["in_words"] == "very strong noise, about 5% of the range"
    words = f"a_denoised.mkv: 4 frames, {how} {clip['in_words']}; {clip['noise']['words']} (given); removed "
    printed = capsys.readouterr().out
    assert words in printed
    share = int(re.search(r"\(rms\), (\d+)% of its level", printed)[1])
    assert share == pytest.approx(100 * clip["removed"] / 12, abs=1)


def test_the_command_line_says_what_it_expects(tmp_path, capsys):
    noisy_clip(tmp_path / "a.mkv")
    clip = str(tmp_path / "a.mkv")
    np.save(tmp_path / "a.npy", np.zeros((9, 9)))
    for words, message in (
        ([clip, "-o", str(tmp_path / "b.png")], "expected a name that ends in .mp4, .mov"),
        ([clip, "--format", "tif"], "expected a name that ends in .mp4, .mov"),
        ([clip, "--frames", "depth"], "--frames is depth; expected auto, time or independent"),
        ([str(tmp_path / "a.npy"), "--codec", "h264"], "--codec is h264; expected none, as there"),
    ):
        assert main(["denoise", *words]) == 1
        assert message in capsys.readouterr().err


def test_the_noise_of_a_clip(tmp_path, capsys):
    noisy_clip(tmp_path / "a.mkv")
    assert main(["noise", str(tmp_path / "a.mkv"), "--kind", "gaussian", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["frames"] == 4
    assert line["noise"]["sigma"] == pytest.approx(12, rel=0.25)


def test_a_missing_library_is_named_with_the_way_to_install_it(tmp_path, capsys, monkeypatch):
    noisy_clip(tmp_path / "a.mkv")
    monkeypatch.setitem(sys.modules, "av", None)
    assert main(["denoise", str(tmp_path / "a.mkv")]) == 1
    error = capsys.readouterr().err
    assert "video files need av, which is not installed: pip install av" in error
    assert [path.name for path in tmp_path.iterdir()] == ["a.mkv"]


def test_the_parser_knows_all_codecs():
    parser = build_parser().commands.choices["denoise"]
    (action,) = (a for a in parser._actions if a.dest == "codec")
    assert tuple(action.choices) == tuple(CODECS)
    assert all(suffix in (Path("docs") / "files.md").read_text("utf-8") for suffix in SUFFIXES)


def test_the_report_shows_a_video_as_a_filmstrip(tmp_path):
    """In colour, and upright."""
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.set_display_rotation(90)
        for k in range(15):
            red = np.zeros((48, 64, 3), np.uint8)
            red[:, :32] = (200 - 5 * k, 20, 20)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(red, format="rgb24")))
        out.mux(stream.encode(None))
    page = tmp_path / "r.html"
    words = ["denoise", str(path), "--sigma", "5", "--method", "fast", "--codec", "ffv1", "--quiet"]
    assert main([*words, "--report", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "<dt>frames</dt><dd>15 of 48 × 64 pixels, uint8</dd>" in text
    assert "--codec ffv1" in text
    assert text.count('type="radio"') == 8  # every other frame
    thumbnail = text.split('<form class="strip"')[1].split("base64,")[1].split('"')[0]
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(thumbnail)))).astype(float)
    assert shown.shape == (64, 48, 3)
    below, above = shown[40:, :].mean((0, 1)), shown[:24, :].mean((0, 1))
    np.testing.assert_allclose(below, (200, 20, 20), atol=12)
    np.testing.assert_allclose(above, 0, atol=12)

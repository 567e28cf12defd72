"""Video files: what is kept when a clip is written again, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from clips import make_clip, planes_of, random_frame

from nlridge.apps.cli import main
from nlridge.files.video import open_clip, rewrite
from nlridge.files.video.pixels import images_of, parts_of, planar, plane_of, put_images

av = pytest.importorskip("av")

MILLISECONDS = Fraction(1, 1000)
UNEVEN = [40, 140, 190, 340, 341, 540, 940, 941]  # times of frames


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
            "colors": (
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
    "colors.mkv": {"codec": "ffv1", "format": "bgr0"},
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


def test_colors_are_red_green_and_blue():
    frame = av.VideoFrame.from_ndarray(np.full((4, 4, 3), (1, 2, 3), np.uint8), format="rgb24")
    frame = planar(frame)
    (image,) = images_of(frame, parts_of(frame))
    np.testing.assert_array_equal(image[:, 0, 0], (1, 2, 3))


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


@pytest.mark.parametrize("name", ["phone.mp4", "uneven.mkv", "odd.avi", "plain.y4m"])
@pytest.mark.parametrize("named", [".mp4", ".webm"])
def test_a_clip_is_read_by_its_content(tmp_path, capsys, name, named):
    path = make_clip(tmp_path / name, **CLIPS[name])
    times = facts(path)["times"]
    wrong = path.rename(tmp_path / f"wrong{named}")
    with open_clip(wrong) as clip:
        assert len(list(clip.frames())) == len(times)
    command = ["denoise", str(wrong), "-o", str(tmp_path / "a.mkv"), "--method", "fast"]
    assert main([*command, "--sigma", "20"]) == 0
    same = {"phone.mp4": ".mp4", "uneven.mkv": ".webm"}.get(name)
    note = f"the content of the file is {path.suffix[1:]} data, though its name ends in {named}"
    assert (note in capsys.readouterr().out) == (named != same)
    assert len(facts(tmp_path / "a.mkv")["times"]) == len(times)

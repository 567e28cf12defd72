"""Images and frames through the standard input and the standard output."""

import io
import json
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

import nlridge
from nlridge.apps.cli import main
from nlridge.files.video.pixels import luma_of
from nlridge.files.video.streams import StreamFormat, StreamFrame, raw_format, y4m_format

FAST = ("--sigma", "9", "--method", "fast")
RNG = np.random.default_rng(0)
FORMATS = {
    "420jpeg": "yuv420p",
    "420mpeg2": "yuv420p",
    "420p10": "yuv420p10le",
    "422": "yuv422p",
    "422p12": "yuv422p12le",
    "444": "yuv444p",
    "444p16": "yuv444p16le",
    "mono": "gray",
    "mono10": "gray10le",
    "mono16": "gray16le",
    "444alpha": "yuva444p",
}


class Pipe(io.TextIOWrapper):
    """A standard stream of bytes, which is not a terminal."""

    def __init__(self, data=b""):
        super().__init__(io.BytesIO(data))


@pytest.fixture
def run(monkeypatch):
    """Run the command line with bytes as its input; returns the exit code and the bytes of its output."""

    def run(data, *words):
        output = Pipe()
        monkeypatch.setattr(sys, "stdin", Pipe(data))
        monkeypatch.setattr(sys, "stdout", output)
        code = main(["denoise", *words])
        return code, output.buffer.getvalue()

    return run


def header(space, size=(34, 26), more="F25:1 Ip A1:1 XCOLORRANGE=LIMITED"):
    return f"YUV4MPEG2 W{size[0]} H{size[1]} C{space} {more}\n".encode()


def noisy(stream, count=3):
    """The pixels of frames of a smooth scene with noise."""
    peak = stream.parts.peak
    data = []
    for _ in range(count):
        planes = [
            np.add.outer(*(np.arange(length) for length in shape[:2])) * 2.0 + 60
            for shape in stream.shapes
        ]
        if len(stream.shapes[0]) == 3:
            planes = [np.repeat(planes[0][..., None], 3, axis=2)]
        values = [(plane + RNG.normal(0, 9, plane.shape)) * peak / 255 for plane in planes]
        data.append(b"".join(np.clip(v, 0, peak).astype(stream.dtype).tobytes() for v in values))
    return data


def y4m(space, **more):
    head = header(space, **more)
    frames = noisy(y4m_format(head))
    return head + b"".join(b"FRAME Ixyz\n" + frame for frame in frames)


@pytest.mark.parametrize("space", FORMATS)
def test_every_kind_of_y4m_keeps_all_but_its_pixels(run, space):
    data = y4m(space)
    stream = y4m_format(header(space))
    assert stream.name == FORMATS[space]
    code, written = run(
        data, "-", "-o", "-", "--sigma", str(9 * stream.parts.peak / 255), "--method", "fast"
    )
    assert code == 0
    assert len(written) == len(data)
    assert written.startswith(header(space) + b"FRAME Ixyz\n")
    before, after = (list(stream.frames(body(content))) for content in (data, written))
    assert len(before) == len(after) == 3
    sigma = 9 * stream.parts.peak / 255
    pixels = [stream.images(frame)[0] for frame in before]
    expected = list(
        nlridge.denoise_frames(
            pixels, sigma, method="fast", data_range=stream.parts.peak, dtype=stream.dtype
        )
    )
    expected = np.minimum(expected, stream.parts.peak)
    np.testing.assert_array_equal([stream.images(frame)[0] for frame in after], expected)
    assert not np.array_equal(expected, pixels)
    if space == "444alpha":
        assert [frame.data[3 * 34 * 26 :] for frame in before] == [
            frame.data[3 * 34 * 26 :] for frame in after
        ]


def body(data):
    file = io.BytesIO(data)
    file.readline()
    return file


def test_patches_of_chroma_are_those_of_the_luma(run):
    data = y4m("420jpeg", size=(49, 33))
    stream = y4m_format(header("420jpeg", size=(49, 33)))
    _, written = run(data, "-", "-o", "-", "--sigma", "9", "--method", "fast")
    images, result = (
        [stream.images(frame) for frame in stream.frames(body(content))]
        for content in (data, written)
    )
    expected = nlridge.denoise_frames(
        [chroma for _, chroma in images],
        4.5,
        method="fast",
        channel_axis=0,
        data_range=255,
        dtype=np.uint8,
        similar=[luma_of(both, stream.parts) for both in images],
    )
    np.testing.assert_array_equal([chroma for _, chroma in result], list(expected))


@pytest.mark.parametrize("space", ["420jpeg", "422p10", "mono12"])
def test_frames_are_those_of_the_file_to_file_command(run, tmp_path, space):
    """Luma and chroma, to the bit, with noise that is estimated."""
    pytest.importorskip("av")
    data = y4m(space, size=(49, 33))
    (tmp_path / "a.y4m").write_bytes(data)
    assert main(["denoise", str(tmp_path / "a.y4m"), "--method", "fast"]) == 0
    stream = y4m_format(header(space, size=(49, 33)))
    _, piped = run(data, "-", "-o", "-", "--method", "fast")
    result = (tmp_path / "a_denoised.y4m").read_bytes()
    frames, expected = (
        [frame.data for frame in stream.frames(body(content))] for content in (piped, result)
    )
    assert frames == expected
    assert piped != data


def test_planes_are_where_pyav_finds_them(tmp_path):
    av = pytest.importorskip("av")
    from nlridge.files.video.pixels import images_of, parts_of

    for space in set(FORMATS) - {"444alpha"}:
        path = tmp_path / "a.y4m"
        path.write_bytes(y4m(space))
        stream = y4m_format(header(space))
        with av.open(str(path)) as container:
            frames = list(container.decode(video=0))
        assert parts_of(frames[0]) == stream.parts
        for frame, own in zip(frames, stream.frames(body(path.read_bytes())), strict=True):
            for one, other in zip(images_of(frame, stream.parts), stream.images(own), strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["gray16le", "yuv420p", "rgb24", "bgr24", "rgb48le", "gbrp10le"])
def test_raw_video(run, name):
    stream = raw_format(f"34x26:{name}")
    data = noisy(stream)
    code, written = run(
        b"".join(data), "-", "-o", "-", "--raw-video", f"34x26:{name}", "--method", "fast"
    )
    assert code == 0
    assert len(written) == 3 * stream.size
    frames = list(stream.frames(io.BytesIO(written)))
    images = [stream.images(StreamFrame(b"", frame)) for frame in data]
    expected = nlridge.denoise_frames(
        [image[0] for image in images],
        channel_axis=0 if images[0][0].ndim == 3 else None,
        method="fast",
        data_range=stream.parts.peak,
    )
    for frame, image in zip(frames, expected, strict=True):
        rounded = np.clip(np.rint(image), 0, stream.parts.peak)
        np.testing.assert_array_equal(stream.images(frame)[0], rounded)


def test_blue_comes_first_in_bgr():
    pixels = bytes(range(6))
    rgb, bgr = (
        StreamFormat(name, 2, 1).images(StreamFrame(b"", pixels))[0] for name in ("rgb24", "bgr24")
    )
    np.testing.assert_array_equal(rgb, [[[0, 3]], [[1, 4]], [[2, 5]]])
    np.testing.assert_array_equal(bgr, rgb[::-1])


def test_strength_0_changes_no_bit(run):
    data = y4m("420p10")
    assert run(data, "-", "-o", "-", "--strength", "0") == (0, data)


def test_a_stream_that_breaks_off_keeps_its_whole_frames(run, capsys):
    data = y4m("mono")
    code, written = run(data[:-5], "-", "-o", "-", *FAST)
    assert code == 1
    whole = y4m_format(header("mono")).size
    assert len(written) == len(header("mono")) + 2 * (whole + len(b"FRAME Ixyz\n"))
    assert (
        f"ends within frame 2, after {whole - 5} bytes; expected {whole}" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        (b"", ("-", "-o", "-"), "the standard input is empty; expected an image or a Y4M stream"),
        (b"hello", ("-", "-o", "-"), "known by its first bytes; expected an image"),
        (header("mono"), ("-", "-o", "-"), "it has no frames; expected at least one"),
        (header("mono")[:-1], ("-", "-o", "-"), "the stream ends within its header"),
        (header("420p7"), ("-", "-o", "-"), "of format 420p7; expected mono, 420"),
        (header("mono", (0, 9)), ("-", "-o", "-"), "frames of 0 x 9 pixels; expected two positive"),
        (header("mono", (99999, 99999)), ("-", "-o", "-"), "expected at most 2147483648"),
        (header("mono") + b"FRAMO\n", ("-", "-o", "-"), "frame 0 does not start with FRAME"),
        (y4m("mono"), ("-",), "expected -o - or -o NAME for a pipe"),
        (y4m("mono"), ("-", "a.png", "-o", "-"), "input has 2 names; expected one for a pipe"),
        (y4m("mono"), ("-", "-o", "a.mkv"), "pipe it into ffmpeg -i - a.mkv"),
        (y4m("mono"), ("-", "-o", "-", "--frames", "depth"), "expected auto, time or independent"),
        (y4m("mono"), ("-", "-o", "-", "--report", "a.html"), "--report is given; expected none"),
        (y4m("mono"), ("-", "-o", "-", "--keep-outliers"), "expected images for --keep-outliers"),
        (b"", ("-", "-o", "-", "--raw-video", "9x9"), "expected a size and a pixel format"),
        (b"", ("-", "-o", "-", "--raw-video", "9x9:nv12"), "expected a pixel format such as gray"),
        (b"", ("a.mkv", "-o", "-"), "a.mkv: no such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_a_sentence(run, capsys, data, words, message):
    code, _ = run(data, *words)
    assert code == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("suffix", [".png", ".tif", ".npy"])
def test_images_are_known_by_their_first_bytes(run, tmp_path, suffix):
    image = np.clip(100 + RNG.normal(0, 9, (24, 30)), 0, 255).astype(np.uint8)
    path = tmp_path / f"a{suffix}"
    np.save(path, image) if suffix == ".npy" else Image.fromarray(image).save(path)
    code, written = run(path.read_bytes(), "-", "-o", "-", *FAST)
    assert code == 0
    (tmp_path / f"piped{suffix}").write_bytes(written)
    assert main(["denoise", str(path), *FAST]) == 0
    assert (tmp_path / f"a_denoised{suffix}").read_bytes() == written
    # From a file into a pipe, from a pipe into a file, and into another format.
    assert run(b"", str(path), "-o", "-", *FAST) == (0, written)
    assert run(path.read_bytes(), "-", "-o", str(tmp_path / f"b{suffix}"), *FAST)[0] == 0
    assert (tmp_path / f"b{suffix}").read_bytes() == written
    _, other = run(path.read_bytes(), "-", "-o", "-", "--format", "png", *FAST)
    assert np.array_equal(
        np.asarray(Image.open(io.BytesIO(other))), np.asarray(read(path, tmp_path))
    )


def read(path, folder):
    from nlridge.files import read

    return read(folder / f"a_denoised{path.suffix}").layers[0].pixels


def test_messages_leave_the_pixels_alone(run, capsys):
    code, written = run(y4m("mono"), "-", "-o", "-", "--json", *FAST)
    assert code == 0
    line = json.loads(capsys.readouterr().err)
    assert (line["status"], line["frames"], line["input"]) == ("done", 3, "-")
    assert b"status" not in written
    _, quiet = run(y4m("mono"), "-", "-o", "-", "--quiet", *FAST)
    assert capsys.readouterr().err == ""
    assert len(quiet) == len(written)


def test_interlaced_streams_are_noted(run, capsys):
    run(y4m("mono", more="F25:1 It"), "-", "-o", "-", *FAST)
    assert "both fields of a frame were denoised as one image" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGPIPE")
def test_a_reader_that_stops_ends_the_program_without_a_word():
    data = y4m("mono")
    frame = data[len(header("mono")) :]
    words = [sys.executable, "-m", "nlridge", "denoise", "-", "-o", "-", "--quiet", *FAST]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        with pytest.raises(BrokenPipeError):
            process.stdin.writelines([header("mono"), *[frame] * 100_000])
        with suppress(BrokenPipeError):  # of what is left in its buffer
            process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141

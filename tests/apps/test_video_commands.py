"""Video files on the command line: noise of luma and chroma, messages, and the report."""

import base64
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from clips import planes_of
from PIL import Image

from nlridge.apps.cli import main
from nlridge.apps.cli.parser import build_parser
from nlridge.apps.jobs.frames import sigma_of
from nlridge.files.video import CODECS, SUFFIXES
from nlridge.files.video.pixels import parts_of, plane_of

av = pytest.importorskip("av")


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
    """In color, and upright."""
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

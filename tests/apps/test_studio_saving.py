"""What is saved: the pixels on the screen, in the files that the command line writes."""

import io
import os

import numpy as np
import pytest
import tifffile
from PIL import Image
from studio_client import Page, picture, png, serving, until

from nlridge.apps.cli import main
from nlridge.files import read


@pytest.mark.slow
def test_the_commands_do_the_same(page, tmp_path, monkeypatch):
    data = png(96, 80, 3)
    image = page.open("it's a photo.png", data)
    page.set(image, strength=1.25, method="fast")
    _, saved, _ = page.save(image)
    commands = page.get(f"/api/images/{image['id']}/commands")[1]
    (tmp_path / "it's a photo.png").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    exec(commands["python"])
    with Image.open("it's a photo_denoised.png") as opened, Image.open(io.BytesIO(saved)) as own:
        np.testing.assert_array_equal(np.asarray(opened), np.asarray(own))
    os.remove("it's a photo_denoised.png")
    words = __import__("shlex").split(commands["shell"])
    assert words[0] == "nlridge"
    assert main([*words[1:], "--quiet"]) == 0
    with Image.open("it's a photo_denoised.png") as opened, Image.open(io.BytesIO(saved)) as own:
        np.testing.assert_array_equal(np.asarray(opened), np.asarray(own))


def _write_files(folder):
    """One file of each kind whose result is compared with that of the command line."""
    deep = (picture(90, 110) * 200).astype(np.uint16)
    files = {
        "gray.png": lambda path: Image.fromarray(picture(90, 110).astype(np.uint8)).save(path),
        "deep.png": lambda path: Image.fromarray(deep).save(path),
        "color.png": lambda path: Image.fromarray(picture(90, 110, 3).astype(np.uint8)).save(path),
        "photo.jpg": lambda path: _jpeg(path),
        "deep.tif": lambda path: tifffile.imwrite(path, deep, description="kept"),
        "float.tif": lambda path: tifffile.imwrite(path, _with_gap(picture(90, 110))),
        "stack.tif": lambda path: tifffile.imwrite(
            path,
            np.stack([(picture(40, 50, seed=k) * 90).astype(np.uint16) for k in range(3)]),
            photometric="minisblack",
        ),
        "video.ome.tif": lambda path: tifffile.imwrite(
            path,
            np.stack([(picture(40, 50, seed=k) * 90).astype(np.uint16) for k in range(4)]),
            metadata={"axes": "TYX"},
        ),
        "array.npy": lambda path: np.save(path, picture(50, 60)),
    }
    for name, write in files.items():
        write(folder / name)
    return list(files)


def _jpeg(path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    exif[0x010E] = "kept"
    pixels = picture(90, 110, 3).astype(np.uint8)
    Image.fromarray(pixels).save(path, quality=95, exif=exif)


def _with_gap(pixels):
    pixels = pixels.astype(np.float32)
    pixels[20:30, 40:45] = np.nan
    return pixels


@pytest.mark.slow
def test_saved_files_are_those_of_the_command_line(page, tmp_path):
    for name in _write_files(tmp_path):
        image = page.open(name, (tmp_path / name).read_bytes())
        page.set(image, strength=1.1)
        status, data, headers = page.save(image)
        assert status == 200, data
        stem, _, suffix = name.partition(".")
        assert headers["content-disposition"] == f'attachment; filename="{stem}_denoised.{suffix}"'
        assert main(["denoise", str(tmp_path / name), "--strength", "1.1", "--quiet"]) == 0
        target = tmp_path / f"{stem}_denoised.{suffix}"
        own = tmp_path / f"own.{suffix}"
        own.write_bytes(data)
        expected, actual = read(target), read(own)
        for one, other in zip(expected.layers, actual.layers, strict=True):
            np.testing.assert_array_equal(one.pixels, other.pixels)
            assert (one.axes, one.pixels.dtype) == (other.axes, other.pixels.dtype)
        for kept in ("exif", "profile", "turn", "channels"):
            assert getattr(expected, kept) == getattr(actual, kept)
        if suffix in ("png", "jpg", "npy"):  # TIFF files have dates
            assert target.read_bytes() == data


@pytest.mark.slow
def test_pixels_on_the_screen_are_those_that_are_saved_in_any_orientation(page, tmp_path):
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turn
        data = io.BytesIO()
        Image.fromarray(picture(280, 330).astype(np.uint8)).save(data, "PNG", exif=exif)
        image = page.open("turned.png", data.getvalue())
        assert (image["width"], image["height"]) == ((330, 280) if turn < 5 else (280, 330))
        page.set(image, method="fast", noise={"level": 15})
        page.see(image, x=200, y=190, width=60, height=60)
        until(lambda: page.tile(image, revision=2)[2].get("x-state") == "exact")  # noqa: B023
        (tmp_path / "own.png").write_bytes(page.save(image)[1])
        from PIL import ImageOps

        with Image.open(tmp_path / "own.png") as saved:
            upright = np.asarray(ImageOps.exif_transpose(saved))
        shown = [
            np.concatenate([page.tile(image, revision=2, column=k, row=row)[1] for k in (0, 1)], 1)
            for row in (0, 1)
        ]
        np.testing.assert_array_equal(np.concatenate(shown), upright)


@pytest.mark.slow
def test_raw_files_are_developed_for_the_screen_and_saved_as_by_the_command_line(page, tmp_path):
    pytest.importorskip("rawpy")
    from raw_images import mosaic_of, scene, with_noise, write_raw

    noisy = with_noise(mosaic_of(scene(128, 160)))
    write_raw(tmp_path / "a.dng", noisy)
    tags = [(33421, 3, 2, (2, 2), False), (33422, 1, 4, bytes([0, 1, 1, 2]), False)]
    tifffile.imwrite(tmp_path / "b.tif", noisy, photometric="cfa", extratags=tags, metadata=None)
    for name, size, kind in (("a.dng", (128, 160), "uint8"), ("b.tif", (160, 128), "uint16")):
        image = page.open(name, (tmp_path / name).read_bytes())
        assert (image["width"], image["height"], image["dtype"]) == (*size, kind)  # DNG is turned
        page.see(image)
        revision = page.set(image, strength=1.2, noise={"rectangle": [8, 16, 64, 48]})
        state = page.finished(image)
        assert "rms" in state["finished"]["removed"]
        _, data, _ = page.save(image)
        stem, _, suffix = name.partition(".")
        commands = page.get(f"/api/images/{image['id']}/commands")[1]
        words = __import__("shlex").split(commands["shell"])
        assert (words[:3], commands["python"]) == (["nlridge", "denoise", "--sigma"], "")
        assert main([*words[1:-1], "--quiet", str(tmp_path / name)]) == 0
        target = tmp_path / f"{stem}_denoised.{suffix}"
        assert target.read_bytes() == data
        ends = "" if kind == "uint8" else "?low=0&high=16383"
        shown = page.tile(image, revision=revision, query=ends)[1]
        again = page.open(target.name, data)  # what was saved looks like what was shown
        np.testing.assert_array_equal(page.tile(again, "before", query=ends)[1], shown)


@pytest.mark.slow
def test_frames_of_a_video_are_shown_alone_until_it_is_saved(page, tmp_path):
    pytest.importorskip("av", reason="PyAV is not installed")
    from clips import make_clip

    from nlridge.files.video import open_clip
    from nlridge.files.video.pixels import as_shown

    make_clip(tmp_path / "clip.mkv", codec="ffv1", size=(64, 48))
    image = page.open("clip.mkv", (tmp_path / "clip.mkv").read_bytes())
    assert (image["width"], image["height"], image["together"]) == (64, 48, "time")
    assert len(image["frames"]) == 8
    page.set(image, method="fast", noise={"level": 20})
    with open_clip(tmp_path / "clip.mkv") as clip:
        frames = [as_shown(frame) for frame in clip.frames()]
    for number in (5, 0, 7):
        page.see(image, frame=number)
        query = f"?frame={number}"
        np.testing.assert_array_equal(page.tile(image, "before", query=query)[1], frames[number])
        until(lambda: page.tile(image, revision=2, query=query)[0] == 200)  # noqa: B023
        _, tile, headers = page.tile(image, revision=2, query=query)
        assert headers["x-state"] == "fast"
        assert 1 < np.std(tile.astype(float) - frames[number]) < 60
    commands = page.get(f"/api/images/{image['id']}/commands")[1]
    assert commands["shell"] == "nlridge denoise --sigma 20.0 --method fast clip.mkv"
    status, saved, headers = page.save(image)
    assert status == 200
    assert headers["content-disposition"] == 'attachment; filename="clip_denoised.mkv"'
    (tmp_path / "own.mkv").write_bytes(saved)
    words = [*commands["shell"].split()[1:-1], str(tmp_path / "clip.mkv"), "--quiet"]
    assert main(words) == 0
    decoded = []
    for name in ("own.mkv", "clip_denoised.mkv"):
        with open_clip(tmp_path / name) as clip:
            decoded.append([as_shown(frame) for frame in clip.frames()])
    np.testing.assert_array_equal(*decoded)
    _, tile, headers = page.tile(image, revision=2, query="?frame=7")
    assert headers["x-state"] == "exact"
    np.testing.assert_array_equal(tile, decoded[0][7])


@pytest.mark.slow
def test_arrays_without_names_of_their_axes_are_stacks_or_in_color(tmp_path):
    folder = tmp_path / "arrays"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, shape in (("color", (24, 32, 3)), ("stack", (3, 24, 32)), ("four", (2, 2, 24, 32))):
        np.save(folder / f"{name}.npy", rng.normal(100, 20, shape).astype(">f4"))
    with serving(tmp_path / "work", folder) as running:
        page = Page(running.address)
        files = {file["name"]: file for file in page.get("/api/state")[1]["folder"]["files"]}
        for name, frames, words in (
            ("color", 1, ["--channel-axis", "2"]),
            ("stack", 3, ["--stack-axis", "0"]),
        ):
            path = folder / f"{name}.npy"
            status, image, _ = page("POST", f"/api/files/{files[path.name]['id']}/open")
            assert status == 200
            assert (image["width"], image["height"], len(image["frames"])) == (32, 24, frames)
            assert image["dtype"] == "float32"
            assert "does not name its axes" in image["notes"][0]
            _, data, _ = page.save(image)
            command = page.get(f"/api/images/{image['id']}/commands")[1]["shell"].split()
            assert command == ["nlridge", "denoise", *words, str(path)]
            assert main([*command[1:-1], "--quiet", "-o", str(tmp_path / path.name), str(path)]) == 0  # fmt: skip
            assert (tmp_path / path.name).read_bytes() == data
        status, answer, _ = page("POST", f"/api/files/{files['four.npy']['id']}/open")
        assert (status, "4 dimensions" in answer["error"]) == (422, True)
        page("POST", "/api/folder/run", {"settings": {}})
        until(lambda: not page.get("/api/state")[1]["folder"]["running"])
        for name in ("color", "stack"):  # the same in a run over the folder
            made = (folder / f"{name}_denoised.npy").read_bytes()
            assert made == (tmp_path / f"{name}.npy").read_bytes()

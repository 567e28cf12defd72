"""Stacks of images in files: which frames are denoised together."""

import json
import re

import numpy as np
import pytest
import tifffile

import nlridge
from nlridge.apps.cli import main
from nlridge.apps.jobs import pictures
from nlridge.apps.jobs.axes import sequence_of
from nlridge.files import Layer, read


@pytest.fixture
def calls(monkeypatch):
    """The shape and the axes of each array that is denoised."""
    recorded = []
    prepare = pictures.prepare

    def recording(image, **options):
        axes = {name: value for name, value in options.items() if name in ("channel_axis", "time_axis", "depth_axis", "spacing")}  # fmt: skip
        recorded.append((image.shape, axes))
        return prepare(image, **options)

    monkeypatch.setattr(pictures, "prepare", recording)
    return recorded


def hyperstack(path, shape=(3, 4, 2, 24, 32), **metadata):
    """Write an ImageJ file of TZCYX, in which times are more similar than slices."""
    _, x = np.mgrid[: shape[-2], : shape[-1]]
    slices = np.stack([200 + 40 * k + 90 * np.sin(x / (4 + k)) for k in range(shape[1])])
    noise = np.random.default_rng(0).normal(0, 10, shape)
    pixels = np.clip(slices[None, :, None] + noise, 0, 65535).astype(np.uint16)
    labels = [f"image {k}" for k in range(int(np.prod(shape[:3])))]
    tifffile.imwrite(
        path,
        pixels,
        imagej=True,
        resolution=(1 / 0.25, 1 / 0.25),
        metadata={
            "axes": "TZCYX",
            "unit": "um",
            "spacing": 2.0,
            "finterval": 0.5,
            "Labels": labels,
            "mode": "composite",
            **metadata,
        },
    )
    return pixels


def test_a_hyperstack_of_imagej_keeps_its_metadata(tmp_path, calls):
    source, target = tmp_path / "a.tif", tmp_path / "b.tif"
    pixels = hyperstack(source)
    words = ["--sigma", "10", "--method", "fast"]
    assert main(["denoise", str(source), "-o", str(target), *words]) == 0
    assert (
        calls == [((3, 2, 24, 32), {"channel_axis": 1, "time_axis": 0})] * 4
    )  # one for each slice
    with tifffile.TiffFile(source) as before, tifffile.TiffFile(target) as after:
        assert after.is_imagej
        assert after.series[0].axes == before.series[0].axes == "TZCYX"
        assert after.series[0].shape == pixels.shape
        assert after.imagej_metadata == before.imagej_metadata
        assert after.imagej_metadata["finterval"] == 0.5
        assert len(after.imagej_metadata["Labels"]) == 24
        for code in (282, 283, 296):
            assert after.pages[0].tags[code].value == before.pages[0].tags[code].value
        denoised = after.asarray()
    assert denoised.dtype == np.uint16
    assert 5 < np.std(denoised.astype(float) - pixels) < 12


def test_slices_are_a_volume_with_the_size_of_its_voxels(tmp_path, calls, capsys):
    hyperstack(tmp_path / "a.tif", (1, 4, 2, 24, 32))
    assert read(tmp_path / "a.tif").layers[0].spacing == pytest.approx((2, 0.25, 0.25))
    assert main(["denoise", str(tmp_path / "a.tif"), "--sigma", "10", "--method", "fast"]) == 0
    ((shape, axes),) = calls
    assert shape == (4, 2, 24, 32)
    assert axes == {"channel_axis": 1, "depth_axis": 0, "spacing": pytest.approx((2, 0.25, 0.25))}
    said = "4 frames, denoised together in depth, with [^;]* noise, [^;]*; Gaussian noise"
    assert re.search(said, capsys.readouterr().out)


def test_the_voxels_of_an_ome_file(tmp_path):
    metadata = {"axes": "ZYX", "PhysicalSizeX": 0.1, "PhysicalSizeY": 0.1, "PhysicalSizeZ": 0.3}
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((3, 9, 9), np.uint8), metadata=metadata)
    assert read(tmp_path / "a.ome.tif").layers[0].spacing == pytest.approx((0.3, 0.1, 0.1))
    metadata |= {"PhysicalSizeZUnit": "nm"}
    tifffile.imwrite(tmp_path / "b.ome.tif", np.zeros((3, 9, 9), np.uint8), metadata=metadata)
    assert read(tmp_path / "b.ome.tif").layers[0].spacing is None
    tifffile.imwrite(
        tmp_path / "c.tif", np.zeros((3, 9, 9), np.uint8), imagej=True, metadata={"axes": "ZYX"}
    )
    assert read(tmp_path / "c.tif").layers[0].spacing is None


def test_which_frames_belong_together():
    rng = np.random.default_rng(0)
    times, slices = rng.normal(0, 1, (3, 4, 9, 9)), rng.normal(0, 1, (3, 4, 9, 9))
    times += 10 * np.arange(4)[:, None, None]
    slices += 10 * np.arange(3)[:, None, None, None]
    for pixels, axes, frames, expected in (
        (times, "TZYX", "auto", ("T", "time")),
        (slices, "TZYX", "auto", ("Z", "depth")),
        (times, "TZYX", "depth", ("Z", "depth")),
        (times, "TZYX", "independent", ("", "")),
        (times[:, 0], "ZYX", "auto", ("Z", "depth")),
        (times[:, 0], "ZYX", "time", ("Z", "time")),
        (times[:, 0], "QYX", "auto", ("", "")),
        (times[:, 0], "QYX", "depth", ("Q", "depth")),
        (times, "QZYX", "time", ("Q", "time")),
        (times[:1, :1], "TZYX", "auto", ("", "")),
        (times[0, 0], "YX", "time", ("", "")),
        (np.full((2, 2, 3, 3), np.nan), "TZYX", "auto", ("T", "time")),
    ):
        assert sequence_of(Layer(pixels, axes), frames) == expected


def test_pages_belong_together_if_the_user_says_so(tmp_path, calls, capsys):
    pages = np.random.default_rng(0).normal(100, 10, (3, 20, 24)).astype(np.float32)
    tifffile.imwrite(tmp_path / "a.tif", pages, photometric="minisblack")
    np.save(tmp_path / "b.npy", pages)
    words = ["--sigma", "10", "--method", "fast", "--overwrite", "--json"]
    assert main(["denoise", str(tmp_path / "a.tif"), *words]) == 0
    assert calls == [((20, 24), {"channel_axis": None})] * 3
    calls.clear()
    assert main(["denoise", str(tmp_path / "a.tif"), *words, "--frames", "time"]) == 0
    axis = ["--stack-axis", "0", "--frames", "depth"]
    assert main(["denoise", str(tmp_path / "b.npy"), *words, *axis]) == 0
    assert [axes for _, axes in calls] == [
        {"channel_axis": None, "time_axis": 0},
        {"channel_axis": None, "depth_axis": 0},
    ]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(line["status"] == "done" for line in lines)


@pytest.mark.slow
def test_a_hyperstack_in_tiles(tmp_path, capsys, monkeypatch):
    """As in memory, with the same axes and pixel sizes, unless its frames are large."""
    pixels = hyperstack(tmp_path / "a.tif")
    words = ["denoise", str(tmp_path / "a.tif"), "--sigma", "10", "--method", "fast"]
    assert main([*words, "-o", str(tmp_path / "whole.tif")]) == 0
    assert main([*words, "-o", str(tmp_path / "tiled.tif"), "--tile", "64"]) == 0
    said = "12 frames, denoised together in time, with (.*); Gaussian noise"
    first, second = re.findall(said, capsys.readouterr().out)
    assert first.startswith("strong noise, about ")
    assert first == second
    tiled = read(tmp_path / "tiled.tif").layers[0]
    assert np.array_equal(tiled.pixels, read(tmp_path / "whole.tif").layers[0].pixels)
    assert (tiled.axes, tiled.spacing) == ("TZCYX", pytest.approx((2, 0.25, 0.25)))
    with tifffile.TiffFile(tmp_path / "tiled.tif") as file:
        assert 'TimeIncrement="0.5"' in file.ome_metadata
        assert 'PhysicalSizeZ="2.0" PhysicalSizeZUnit="µm"' in file.ome_metadata
    monkeypatch.setattr("nlridge.apps.jobs.tiled._LARGEST", 1500)
    large = [*words, "--tile", "64", "--overwrite", "-o", str(tmp_path / "tiled.tif")]
    assert main([*large, "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("frames were denoised independently, as they are large; --frames time")
    alone = nlridge.denoise(pixels[0, 0], 10, method="fast", channel_axis=0)
    result = read(tmp_path / "tiled.tif").layers[0].pixels[0, 0]
    assert np.array_equal(result, nlridge.to_dtype(alone, np.uint16))
    assert main([*large, "--scheduler", "tcp://127.0.0.1:1", "--frames", "time"]) == 1
    monkeypatch.undo()
    zarr = str(tmp_path / "tiled.zarr")
    assert main([*words, "--scheduler", "tcp://127.0.0.1:1", "-o", zarr]) == 1
    expected = "--scheduler is tcp://127.0.0.1:1; expected none for frames that belong together"
    assert expected in capsys.readouterr().err


def test_frames_of_a_plain_array_in_tiles(tmp_path):
    pages = np.random.default_rng(0).normal(100, 10, (20, 20, 24)).astype(np.float32)
    np.save(tmp_path / "a.npy", pages)
    words = ["--sigma", "10", "--method", "fast", "--tile", "64", "--stack-axis", "0"]
    assert main(["denoise", str(tmp_path / "a.npy"), *words, "--frames", "time"]) == 0
    result = np.load(tmp_path / "a_denoised.npy")
    assert np.array_equal(result, nlridge.denoise(pages, 10, method="fast", time_axis=0))


def test_similar_pages_of_a_plain_tiff_are_noted(tmp_path, capsys):
    """They were denoised one by one without a word."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:64, :80]
    moving = [100 + 40 * np.sin((x + shift) / 9) * np.cos(y / 11) for shift in range(5)]
    others = [100 + 40 * np.sin(x / (5 + 2 * k)) * np.cos(y / (12 - 2 * k)) for k in range(5)]
    for name, pages, metadata in (
        ("alike", moving, None),
        ("different", others, None),
        ("named", moving, {"axes": "TYX"}),
    ):
        noisy = np.array(pages) + rng.normal(0, 20, (5, 64, 80))
        file = tmp_path / f"{name}.tif"
        tifffile.imwrite(file, noisy.clip(0, 255).astype(np.uint8), photometric="minisblack", metadata=metadata)  # fmt: skip
        words = ["denoise", str(file), "--method", "fast", "--sigma", "20"]
        assert main(words) == 0
        note = "neighbouring images of the stack are alike, but were denoised one by one; "
        assert (note in capsys.readouterr().err) == (name == "alike")
        if name == "alike":
            target = tmp_path / "alike_denoised.tif"
            errors = [np.std(tifffile.imread(target) - np.array(pages))]
            # What the note suggests removes more noise.
            assert main([*words, "--overwrite", "--frames", "time"]) == 0
            assert note not in capsys.readouterr().err
            errors.append(np.std(tifffile.imread(target) - np.array(pages)))
            assert errors[1] < 0.9 * errors[0]

"""Images larger than memory: the same result to the bit, however the work is divided, stopped or distributed."""

import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from groups import Custom

import nlridge
from nlridge import progress
from nlridge.algorithm import pyramid
from nlridge.algorithm.inputs import PlaneNoise, StepInputs
from nlridge.algorithm.passes import Pass
from nlridge.cli import main
from nlridge.engines import cpu
from nlridge.engines.grid import Window, whole_window
from nlridge.large import limits, resume, scales
from nlridge.large.bands import bands_of
from nlridge.large.executors import Cluster
from nlridge.large.frames import Frame, Source, _scan, sample_of
from nlridge.large.lazy import LazyImage
from nlridge.large.scales import ImagesInParts, Part
from nlridge.planning.levels import counted
from nlridge.planning.missing import fill

zarr = pytest.importorskip("zarr")


def noisy(height, width, *channels, seed=0):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    clean = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    return (clean + rng.normal(0, 20, (*channels, height, width))).astype(np.float32)


def counts(*shape):
    """An image of few photons."""
    y, x = np.mgrid[: shape[-2], : shape[-1]]
    return np.random.default_rng(0).poisson(0.5 + 0.4 * np.sin(x / 9) * np.cos(y / 7), shape)


GIVEN = {"sigma": 20, "data_range": 255}


@pytest.mark.parametrize("method", nlridge.method_names())
def test_tiles_are_the_same_as_the_whole_image(method, tmp_path):
    image = noisy(157, 203)
    whole = nlridge.denoise(image, method=method, **GIVEN)
    tiled = nlridge.denoise(image, method=method, out=tmp_path / "out.npy", tile=64, **GIVEN)
    assert np.array_equal(tiled, whole)
    assert isinstance(tiled, np.memmap)
    assert not tiled.flags.writeable
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (5, 5), (130, 1), (129, 64)])
def test_images_of_any_shape_in_tiles(shape, tmp_path):
    image = noisy(*shape)
    tiled = nlridge.denoise(image, out=tmp_path / "out.npy", tile=64, **GIVEN)
    assert np.array_equal(tiled[:], nlridge.denoise(image, **GIVEN))


@pytest.mark.parametrize(
    ("image", "options"),
    [
        (noisy(100, 90, 3), {"sigma": 20, "channel_axis": 0}),
        (noisy(100, 90, 3).transpose(1, 2, 0), {"channel_axis": -1}),
        (noisy(100, 90, 3), {"stack_axis": 0, "method": "fast"}),
        (noisy(80, 70, 2, 3), {"stack_axis": 0, "channel_axis": 1, "method": "fast"}),
        (noisy(100, 90).astype(np.uint8), {"method": "fast"}),
        ((50 * noisy(100, 90)).astype(np.uint16), {"method": "fast"}),
        (noisy(100, 90).astype(np.float64), {"sigma": 20, "strength": 1.2}),
        (noisy(100, 90), {"noise": nlridge.PoissonGaussianNoise(3.0, 4.0), "method": "fast"}),
        (counts(150, 90), {"noise": nlridge.PoissonGaussianNoise(1.0)}),
        (counts(3, 150, 90), {"noise": nlridge.PoissonGaussianNoise(1.0), "channel_axis": 0}),
    ],
)
def test_facts_about_the_whole_image_are_as_in_memory(image, options, tmp_path):
    """Ranges, noise and the correlation of channels are as in memory, if the sample is the whole image."""
    whole = nlridge.denoise(image, **options)
    tiled = nlridge.denoise(image, out=tmp_path / "out.zarr", tile=64, **options)
    assert tiled.dtype == whole.dtype
    assert np.array_equal(tiled[:], whole)


def test_any_rows_of_a_step():
    """Whatever rows are asked for, and however many strips they come in."""
    image = noisy(211, 90)[None]
    recipe = nlridge.recipe("nl-ridge", 20)
    step = Pass(recipe.family, False, replace(recipe.first, window=9))
    inputs = StepInputs(image, guide=image, similar=image, noise=PlaneNoise(400.0))
    whole, _ = cpu.run_pass(inputs, step, workers=2, tick=lambda: None)
    for rows in (range(211), range(5, 9), range(70, 150), range(200, 211)):
        window = Window(rows, range(90))
        strips = cpu.strips(inputs, step, None, window=window, workers=1, tick=lambda: None)
        at = rows.start
        for some, strip, _ in strips:
            assert some.start == at
            assert np.array_equal(strip, whole[:, some.start : some.stop])
            at = some.stop
        assert at == rows.stop


def test_arithmetic_of_images_that_are_not_in_memory():
    a, b = noisy(10, 5, 2), noisy(10, 5, 2, seed=1)
    everything = whole_window(a.shape[1:])
    x, y = (
        LazyImage(image.shape, lambda window, i=image: i[window.inside(everything)])
        for image in (a, b)
    )
    assert np.array_equal((x + 0.25 * (y - x))[:, 2:7], (a + 0.25 * (b - a))[:, 2:7])
    assert np.array_equal(x[:1][:, 3:5], a[:1, 3:5])
    assert np.array_equal((x**2)[:, 3:5, 1:], (a**2)[:, 3:5, 1:])


def test_the_noise_of_a_sample_is_near_that_of_the_whole():
    image = np.random.default_rng(0).normal(100, 20, (2100, 2100)).astype(np.float32)
    pixels, missing = sample_of(Source(Frame(image, "YX")))
    assert pixels.shape == (1, 2072, 2072)
    assert np.count_nonzero(~missing) == 16 * 512**2
    sigma = nlridge.estimate_sigma(pixels[0], mask=missing[0])
    assert sigma == pytest.approx(20, rel=0.02)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_keeps_its_attributes_and_version(tmp_path, version):
    image = (50 * noisy(150, 130)).astype(np.uint16)
    store = str(tmp_path / "in.zarr")
    made = zarr.create_array(
        store, data=image, chunks=(64, 64), zarr_format=version, attributes={"from": "a scanner"}
    )
    tiled = nlridge.denoise(made, 1000, data_range=12750, out=tmp_path / "out.zarr", tile=64)
    assert tiled.metadata.zarr_format == version
    assert dict(tiled.attrs) == {"from": "a scanner"}
    assert tiled.chunks == (64, 64)
    assert np.array_equal(tiled[:], nlridge.denoise(image, 1000, data_range=12750))


@pytest.mark.parametrize("version", [2, 3])
def test_a_pyramid_of_images_stays_one(tmp_path, version, capsys):
    """OME-Zarr: the largest image is cleaned, and the smaller ones are made from it; metadata stay."""
    image = np.clip(50 * noisy(101, 130, 2, 3), 0, 65535).astype(np.uint16)
    axes = [{"name": name} for name in "tcyx"]
    scales = [{"axes": axes, "datasets": [{"path": "0"}, {"path": "1"}], "version": "0.4"}]
    about = {"multiscales": scales} if version == 2 else {"ome": {"multiscales": scales}}
    group = zarr.create_group(tmp_path / "in.zarr", zarr_format=version, attributes=about)
    group.create_array("0", data=image, chunks=(1, 1, 64, 64))
    group.create_array("1", data=image[..., ::2, ::2], chunks=(1, 1, 64, 64))
    options = ["--method", "fast", "--sigma", "1000", "--tile", "64", "--frames", "independent"]
    assert (
        main(["denoise", str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), *options])
        == 0
    )
    assert "standard deviation of 1000" in capsys.readouterr().out
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert dict(out.attrs) == about
    clean = nlridge.denoise(image, 1000, method="fast", stack_axis=0, channel_axis=1)
    assert np.array_equal(out["0"][:], np.clip(np.rint(clean), 0, 65535).astype(np.uint16))
    assert out["1"].shape == (2, 3, 51, 65)
    means = out["0"][..., :100, :].reshape(2, 3, 50, 2, 65, 2).mean(axis=(3, 5))
    assert np.array_equal(out["1"][..., :50, :], np.rint(means))


@pytest.mark.parametrize("suffix", ["npy", "tif"])
def test_files_on_the_command_line(tmp_path, suffix, capsys):
    import tifffile

    image = (50 * noisy(150, 130)).astype(np.uint16)
    source = tmp_path / f"in.{suffix}"
    if suffix == "npy":
        np.save(source, image)
    else:
        tifffile.imwrite(source, image, compression="zlib", tile=(64, 64))
    assert main(["denoise", str(source), "--method", "fast", "--tile", "64", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["status"] == "done"
    target = tmp_path / f"in_denoised.{suffix}"
    result = np.load(target) if suffix == "npy" else tifffile.imread(target)
    assert result.dtype == np.uint16
    assert np.array_equal(result, np.rint(nlridge.denoise(image, method="fast")))
    assert main(["denoise", str(source), "--tile", "64"]) == 1
    assert "in_denoised" in capsys.readouterr().err
    assert main(["denoise", str(source), "--tile", "64", "--skip-existing"]) == 0


def test_a_tiff_file_in_colour(tmp_path):
    import tifffile

    image = np.clip(noisy(90, 80, 3), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    tifffile.imwrite(tmp_path / "in.tif", image, photometric="rgb")
    given = ["--method", "fast", "--sigma", "20", "--tile", "64"]
    assert main(["denoise", str(tmp_path / "in.tif"), "-o", str(tmp_path / "out.tif"), *given]) == 0
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        assert file.pages.first.photometric == tifffile.PHOTOMETRIC.RGB
        result = file.asarray()
    clean = nlridge.denoise(image, 20, method="fast", channel_axis=-1)
    assert np.array_equal(result, np.clip(np.rint(clean), 0, 255))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"out": "a.png"}, ValueError, r"out is a.png; expected a name that ends in .zarr, .npy, .tif, .tiff"),
        ({"out": "a.npy", "tile": 3}, ValueError, "tile is 3; expected at least 64"),
        ({"out": "a.npy", "tile": "x"}, TypeError, "tile is 'x'; expected a whole number"),
        ({"out": "a.npy", "mask": np.zeros((40, 50))}, TypeError, "mask has dtype float64; expected bool"),
        ({"out": "a.npy", "mask": [[True], [True, False]]}, TypeError, "mask has dtype object; expected bool"),
        ({"out": "a.npy", "mask": np.zeros((50, 40), bool)}, ValueError, r"mask has shape \(50, 40\); expected \(40, 50\)"),
        ({"out": "a.npy", "mask": np.ones((40, 50), bool)}, ValueError, "image has no valid pixels; expected at least one"),
        ({"out": "a.npy", "sigma": np.ones((50, 40))}, ValueError, r"sigma has shape \(50, 40\); expected a number, .* or \(40, 50\)"),
        ({"out": "a.npy", "sigma": np.ones((40, 50), bool)}, TypeError, "sigma has dtype bool; expected numbers"),
        ({"out": "a.npy", "sigma": np.full((40, 50), -1.0)}, ValueError, "sigma is negative in 2000 pixels; expected 0 or more"),
        ({"out": "a.npy", "sigma": np.zeros((40, 50))}, ValueError, r"sigma has shape \(40, 50\) and no positive value"),
        ({"out": "a.npy", "sigma": np.full((40, 50), np.inf)}, ValueError, "sigma is not finite in 2000 pixels"),
        ({"out": "a.npy", "sigma": np.ones((40, 50)), "noise": nlridge.GaussianNoise(1)}, ValueError, "sigma is given and"),
        ({"out": "a.npy", "client": "tcp://1"}, ValueError, r"out is a.npy; expected a name that ends in .zarr, which"),
        ({"out": "a.zarr", "client": "tcp://1"}, TypeError, "image is in the memory of this process"),
        ({"client": "tcp://1"}, ValueError, "client is 'tcp://1'; expected None without out"),
        ({"out": 5}, TypeError, "out is 5; expected a path"),
    ],
)  # fmt: skip
def test_bad_options(options, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        nlridge.denoise(noisy(40, 50), **{"sigma": 20, **options})
    assert not list(tmp_path.iterdir())


def test_options_of_large_images_are_refused_for_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    for name in ("out", "client"):
        with pytest.raises(ValueError, match=f"{name} is 'x.npy'; expected None for a tensor"):
            nlridge.denoise(torch.ones(9, 9), 1, **{name: "x.npy"})


@pytest.mark.parametrize("sigma", [20, None])
def test_infinite_pixels_are_refused(sigma, tmp_path):
    image = noisy(640, 50)
    image[600, 4] = np.inf
    with pytest.raises(
        ValueError,
        match=r"image has 1 infinite pixels in rows .* to 639; expected finite values, or NaN",
    ):
        nlridge.denoise(image, sigma, out=tmp_path / "a.npy")
    assert not list(tmp_path.iterdir())


def test_no_more_than_a_part_is_in_memory(tmp_path):
    class Made:
        shape, dtype, chunks = (8192, 1024), np.dtype(np.float32), (256, 1024)

        def __getitem__(self, index):
            rows, columns = (
                len(range(*k.indices(n))) for k, n in zip(index, self.shape, strict=True)
            )
            return np.ones((rows, columns), np.float32)

    tracemalloc.start()
    scan = _scan(Source(Frame(Made(), "YX")), (), with_means=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (scan.means[0][0].size, scan.sample.shape) == (1024 * 128, (1, 2**20))
    assert peak < 4 * 8192 * 1024 / 2


def test_nothing_that_is_not_a_result_is_replaced(tmp_path, capsys):
    image = noisy(70, 80)
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("in.zarr", data=image, chunks=(64, 64))
    (tmp_path / "other.npy").mkdir()
    (tmp_path / "other.npy" / "letter.txt").write_text("dear")
    for target in ("g.zarr", "g.zarr/in.zarr", "g.zarr/in.zarr/out.zarr", "other.npy"):
        given = [str(tmp_path / "g.zarr" / "in.zarr"), "-o", str(tmp_path / target), "--overwrite"]
        assert main(["denoise", *given, "--sigma", "20", "--json"]) == 1
        said = capsys.readouterr()
        assert "expected another" in said.err
        assert json.loads(said.out)["status"] == "failed"
    assert np.array_equal(zarr.open_array(tmp_path / "g.zarr" / "in.zarr", mode="r")[:], image)
    assert (tmp_path / "other.npy" / "letter.txt").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.zarr", "other.npy"]


def _tiff(path, pixels, **options):
    import tifffile

    with tifffile.TiffWriter(path) as file:
        for image in pixels:
            file.write(image, **options)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(70, 80, 4)], {"photometric": "rgb", "extrasamples": ["unassalpha"]}, "it has extra samples"),
        ([(70, 80)], {"photometric": "miniswhite"}, "it is a negative"),
        ([(70, 80)], {"photometric": "palette", "colormap": np.zeros((3, 256), np.uint16)}, "palette"),
        ([(70, 80), (80, 70)], {}, "it holds 2 images"),
    ],
)  # fmt: skip
def test_tiff_files_that_are_more_than_an_array(shapes, options, message, tmp_path, capsys):
    rng = np.random.default_rng(0)
    _tiff(
        tmp_path / "in.tif", [rng.integers(0, 255, s).astype(np.uint8) for s in shapes], **options
    )
    assert main(["denoise", str(tmp_path / "in.tif"), "--tile", "64"]) == 1
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]


def test_a_tiff_file_that_was_cut_off(tmp_path, capsys):
    _tiff(tmp_path / "in.tif", [noisy(70, 80)])
    whole = (tmp_path / "in.tif").read_bytes()
    (tmp_path / "in.tif").write_bytes(whole[:-1000])
    assert main(["denoise", str(tmp_path / "in.tif"), "--tile", "64"]) == 1
    assert "the file is damaged" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]


def test_a_stack_of_a_tiff_file_by_its_axes(tmp_path):
    import tifffile

    image = (50 * noisy(70, 80, 3)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "in.tif", image, photometric="minisblack")
    given = [str(tmp_path / "in.tif"), "--method", "fast", "--sigma", "1000", "--tile", "64"]
    assert main(["denoise", *given]) == 0
    apart = nlridge.denoise(image, 1000, method="fast", stack_axis=0)
    assert np.array_equal(tifffile.imread(tmp_path / "in_denoised.tif"), np.rint(apart))
    assert main(["denoise", *given, "--overwrite", "--channel-axis", "0"]) == 0
    together = nlridge.denoise(image, 1000, method="fast", channel_axis=0)
    assert np.array_equal(tifffile.imread(tmp_path / "in_denoised.tif"), np.rint(together))


def _pyramid(path, version, *shapes):
    axes = [{"name": name} for name in ("depth", "y", "x")]
    scales = [{"axes": axes, "datasets": [{"path": str(k)} for k in range(len(shapes))]}]
    about = {"multiscales": scales} if version == 2 else {"ome": {"multiscales": scales}}
    group = zarr.create_group(path, zarr_format=version, attributes=about)
    names = {} if version == 2 else {"dimension_names": ["depth", "y", "x"]}
    for k, shape in enumerate(shapes):
        group.create_array(
            str(k), shape=shape, dtype="uint16", chunks=(1, 64, 64), fill_value=7, **names,
            chunk_key_encoding={"name": "v2", "separator": "/"} if version == 2 else None,
        )  # fmt: skip
    return group


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_of_a_pyramid_are_laid_out_as_before(version, tmp_path):
    _pyramid(tmp_path / "in.zarr", version, (2, 100, 90), (2, 50, 45))
    given = [str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), "--tile", "64"]
    assert main(["denoise", *given, "--sigma", "1", "--method", "fast"]) == 0
    before, after = (zarr.open_group(tmp_path / f"{name}.zarr", mode="r") for name in ("in", "out"))
    for name in ("0", "1"):
        one, other = before[name].metadata, after[name].metadata
        assert np.array_equal(after[name][:], before[name][:])
        if version == 2:
            assert one.dimension_separator == other.dimension_separator == "/"
        else:
            assert one.dimension_names == other.dimension_names == ("depth", "y", "x")


def test_levels_that_cannot_be_regenerated(tmp_path, capsys):
    _pyramid(tmp_path / "in.zarr", 3, (1, 200, 200), (1, 130, 130))
    assert main(["denoise", str(tmp_path / "in.zarr"), "--tile", "64"]) == 1
    assert "expected integer factors" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"multiscales": [{"datasets": []}]}, "multiscales that name no arrays; expected a list of datasets"),
        ({"multiscales": [{"datasets": [{}]}]}, "multiscales that name no arrays; expected"),
        ({"multiscales": [{"datasets": [{"path": 5}]}]}, "multiscales that name no arrays; expected"),
        ({"multiscales": []}, "multiscales that name no arrays; expected"),
        ({"multiscales": 7}, "multiscales that name no arrays; expected"),
        ({"ome": ["multiscales"]}, "a group without multiscales; expected an array"),
        ({"ome": None}, "a group without multiscales; expected an array"),
        ({"multiscales": [{"datasets": [{"path": "7"}]}]}, "has no array 7; expected one, since its multiscales name it"),
        ({"multiscales": [{"datasets": [{"path": "../in"}]}]}, "in.zarr is not a readable Zarr array or group"),
        ({"multiscales": [{"datasets": [{"path": "0"}], "axes": 5}]}, "has axes 5; expected a list of names"),
        ({"multiscales": [{"datasets": [{"path": "0"}], "axes": [{"name": 1}]}]}, "expected a list of names"),
        ({"multiscales": [{"datasets": [{"path": "0"}], "axes": ["y", "y"]}]}, "its axes are YY; expected an image with Y and X, each axis once"),
        ({"multiscales": [{"datasets": [{"path": "0"}]}]}, "it has 2 dimensions, (70, 60); expected 5"),
    ],
)  # fmt: skip
def test_invalid_ome_zarr_metadata(about, message, tmp_path, capsys):
    group = zarr.create_group(tmp_path / "in.zarr", attributes=about)
    group.create_array("0", data=noisy(70, 60), chunks=(64, 64))
    for command in ("denoise", "noise"):
        assert main([command, str(tmp_path / "in.zarr")]) == 1
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda chunk: chunk.write_bytes(chunk.read_bytes()[:99]), "image cannot be read: "),
        (lambda chunk: chunk.write_bytes(b"\0" * 5000), "image cannot be read: "),
        (lambda chunk: chunk.write_bytes(b""), "image cannot be read: "),
        (lambda chunk: (chunk.unlink(), os.mkfifo(chunk)), "is not a regular file; expected one"),
    ],
)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes")
def test_damaged_chunks(damage, message, version, tmp_path, capfd):
    made = zarr.create_array(
        tmp_path / "in.zarr", data=noisy(150, 130), chunks=(64, 64), zarr_format=version
    )
    damage(tmp_path / "in.zarr" / ("1.1" if version == 2 else "c/1/1"))
    assert main(["denoise", str(tmp_path / "in.zarr"), "--sigma", "20", "--tile", "64"]) == 1
    said = capfd.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    with pytest.raises((OSError, ValueError), match=message):
        nlridge.denoise(made, **GIVEN, out=tmp_path / "out.zarr", tile=64)
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


def test_stores_that_claim_more_than_they_hold(tmp_path, monkeypatch):
    """Nothing of them is read: a store is refused by what it stores, and by what the disk can hold."""
    given = {**GIVEN, "out": tmp_path / "out.zarr"}
    empty = zarr.create_array(
        tmp_path / "a.zarr", shape=(10**6, 10**6), chunks=(2048, 2048), dtype="u2"
    )
    with pytest.raises(
        ValueError, match=r"image has shape \(1000000, 1000000\), of which \d+ bytes are stored"
    ):
        nlridge.denoise(empty, **given)  # fmt: skip
    chunk = zarr.create_array(
        tmp_path / "b.zarr", shape=(10**6, 10**6), chunks=(10**6, 10**6), dtype="u2"
    )
    with pytest.raises(
        ValueError, match="image has chunks of 1000000000000 pixels; expected at most"
    ):
        nlridge.denoise(chunk, **given)  # fmt: skip

    class Claims:
        shape, dtype = (10**7, 10**7), np.dtype(np.uint16)

        def __getitem__(self, index):
            raise AssertionError("something was read")

    with pytest.raises(
        OSError, match=r"800,000 GB are needed to process the image, but .* are free"
    ):
        nlridge.denoise(Claims(), **given)  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.zarr"]


def test_a_result_may_be_empty(tmp_path, monkeypatch):
    """Chunks of zeros are not stored: what holds of an input from elsewhere does not hold of a result."""
    monkeypatch.setattr(limits, "_MAY_BE_EMPTY", 100)
    result = nlridge.denoise(np.zeros((90, 80), np.float32), **GIVEN, out=tmp_path / "out.zarr", tile=64)  # fmt: skip
    assert not result[:].any()
    monkeypatch.setattr(limits, "_PIXELS_PER_BYTE", 1e-9)
    with pytest.raises(ValueError, match="bytes are stored; expected at least one byte"):
        nlridge.denoise(result, **GIVEN, out=tmp_path / "again.zarr", tile=64)


def test_a_store_that_is_mostly_empty_is_cleaned(tmp_path):
    image = np.zeros((300, 200), np.float32)
    image[100:164, 64:128] = noisy(64, 64)
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64), config={"write_empty_chunks": False})  # fmt: skip
    assert 0 < sum(path.is_file() for path in (tmp_path / "in.zarr" / "c").rglob("*")) < 9
    result = nlridge.denoise(source, **GIVEN, method="fast", out=tmp_path / "out.zarr", tile=64)
    assert np.array_equal(result[:], nlridge.denoise(image, **GIVEN, method="fast"))


def test_the_noise_of_zarr(tmp_path, capsys):
    image = noisy(300, 200, 3)
    zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(1, 64, 64))
    assert main(["noise", str(tmp_path / "in.zarr"), "--stack-axis", "0", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["frame"], line["frames"]) == (2, 3)
    assert line["noise"]["sigma"] == pytest.approx(nlridge.estimate_noise(image[1]).sigma)


def test_zarr_is_compared_in_parts(tmp_path, capsys, monkeypatch):
    from nlridge.cli import metrics

    monkeypatch.setattr(metrics, "_PIXELS", 100 * 200)
    a, b = noisy(300, 200, 2), noisy(300, 200, 2, seed=1)
    zarr.create_array(str(tmp_path / "a.zarr"), data=a, chunks=(1, 64, 64))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    said = []
    for name in ("a.npy", "a.zarr"):
        names = [str(tmp_path / name), str(tmp_path / "b.npy")]
        assert main(["compare", *names, "--stack-axis", "0", "--json"]) == 0
        said.append({**json.loads(capsys.readouterr().out), "a": None})
    assert said[0] == said[1]
    assert said[0]["rmse"] == pytest.approx(np.sqrt(np.mean((a.astype(float) - b) ** 2)))
    assert said[0]["peak"] == pytest.approx(np.ptp(a))
    from skimage.metrics import structural_similarity

    expected = structural_similarity(
        a, b, channel_axis=0, data_range=np.ptp(a), gaussian_weights=True, use_sample_covariance=False,
        win_size=11, full=False,
    )  # fmt: skip
    assert said[0]["ssim"] == pytest.approx(expected, abs=0.01)


# A run that is stopped.

kills = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")

PROGRAM = """
import os, sys, signal
import numpy as np
import nlridge
from nlridge.large import frames

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(function, calls):
    def call(*arguments):
        nonlocal calls
        calls -= 1
        if calls == 0:
            die()
        return function(*arguments)
    return call

def torn(frame, rows, pixels, workers):
    if rows.start:
        write(frame, range(rows.start, rows.start + 10), pixels[:, :10], workers)
        die()
    write(frame, rows, pixels, workers)

how, folder = sys.argv[1:]
if how == "while a file is written":
    os.replace = dying(os.replace, 6)
if how == "while a tile is written":
    write, frames.Frame.write = frames.Frame.write, torn
nlridge.denoise(
    np.load(folder + "/in.npy", mmap_mode="r"), 20, data_range=255, out=folder + "/out.zarr", tile=64,
    progress=dying(lambda *_: None, 7 if how == "in between" else -1),
)
"""


@kills
@pytest.mark.parametrize(
    "how", ["in between", "while a file is written", "while a tile is written"]
)
def test_a_run_that_is_killed_is_resumed(how, tmp_path):
    image = noisy(157, 140)
    np.save(tmp_path / "in.npy", image)
    killed = subprocess.run([sys.executable, "-c", PROGRAM, how, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.zarr.part", "in.npy"]
    before = {path: path.stat().st_mtime_ns for path in kept(tmp_path)}
    assert before
    seen = []

    def look(done, total):
        for path in kept(tmp_path):
            assert before.get(path, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
        seen.append((done, total))

    memory = np.load(tmp_path / "in.npy", mmap_mode="r")
    out = nlridge.denoise(memory, **GIVEN, out=tmp_path / "out.zarr", tile=64, progress=look)
    assert seen[-1][0] == seen[-1][1]
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.zarr"]


def kept(folder):
    """Files of whole bands."""
    work = folder / ".out.zarr.part"
    return [path for path in work.glob("*/0-*/*-*/*") if not path.name.startswith(".")]


class Stopped(Exception):
    pass


def stops_at(tick):
    """For `progress`: an exception after so many bands."""

    def stop(done, total):
        if done == tick:
            raise Stopped

    return stop


def test_a_run_with_other_settings_starts_again(tmp_path):
    stop = stops_at(6)
    image, out = noisy(157, 140), tmp_path / "out.npy"
    with pytest.raises(Stopped):
        nlridge.denoise(image, **GIVEN, out=out, tile=64, progress=stop)
    other = nlridge.denoise(image, 30, data_range=255, out=out, tile=64)
    assert np.array_equal(other[:], nlridge.denoise(image, 30, data_range=255))


def is_resumed(before, after, folder, between=lambda: None):
    """Whether a run with one recipe, which was stopped, is resumed with another; the result is right in any case."""
    image = noisy(157, 140)
    given = {**GIVEN, "out": folder / "out.npy", "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise(image, **given, method=before, progress=stops_at(6))
    between()
    counts = []
    result = nlridge.denoise(
        image, **given, method=after, progress=lambda done, total: counts.append(done)
    )
    assert np.array_equal(result, nlridge.denoise(image, **GIVEN, method=after))
    return counts != list(range(1, counts[-1] + 1))  # what was done before is counted at once


STEPS = nlridge.Step(6, 16, 5, 15), nlridge.Step(6, 16, 5, 15)


def test_a_run_is_resumed_with_an_equal_family(tmp_path):
    before, after = (nlridge.Recipe(nlridge.families.Ridge(0.1, 1.0), *STEPS) for _ in range(2))
    assert before is not after
    assert is_resumed(before, after, tmp_path)


@pytest.mark.parametrize(
    "family",
    [
        nlridge.families.Ridge(0.2, 1.0),
        nlridge.families.Ridge(0.1, 2.0),
        nlridge.families.TwoSided(0.1, 1.0),
        nlridge.families.BM3D(),
    ],
    ids=repr,
)
def test_a_run_is_not_resumed_with_another_family_or_other_options(family, tmp_path):
    before = nlridge.Recipe(nlridge.families.Ridge(0.1, 1.0), *STEPS)
    assert not is_resumed(before, replace(before, family=family), tmp_path)


FACTOR = 0.5


def weights_of(Y):
    return np.ones(Y.shape)[..., 0, :]


def with_factor(factor):
    return lambda Y, X, noise: (factor * Y, weights_of(Y))


def with_half_by_default(Y, X, noise, factor=0.5):
    return factor * Y, weights_of(Y)


def with_most_by_default(Y, X, noise, factor=0.9):
    return factor * Y, weights_of(Y)


def with_global(Y, X, noise):
    return FACTOR * Y, weights_of(Y)


@dataclass
class Multiply:
    factor: float

    def __call__(self, Y, X, noise):
        return self.factor * Y, weights_of(Y)


FORMULAS = {
    "constant": (
        lambda Y, X, noise: (0.5 * Y, weights_of(Y)),
        lambda Y, X, noise: (0.9 * Y, weights_of(Y)),
    ),
    "closure": (with_factor(0.5), with_factor(0.9)),
    "default": (with_half_by_default, with_most_by_default),
    "callable object": (Multiply(0.5), Multiply(0.9)),
    "global": (with_global, with_global),
}


@pytest.mark.parametrize("difference", FORMULAS)
def test_a_run_with_a_custom_formula_is_never_resumed(difference, tmp_path, monkeypatch):
    """Nothing shows whether code from outside the package is what it was: here it never is."""
    before, after = (
        nlridge.Recipe(Custom(nlridge.Estimator(formula)), STEPS[0])
        for formula in FORMULAS[difference]
    )
    change = partial(monkeypatch.setitem, globals(), "FACTOR", 0.9)
    assert not is_resumed(before, after, tmp_path, between=change)


def test_a_run_with_a_custom_transform_is_never_resumed(tmp_path):
    def rotated(size):
        return nlridge.families.bm3d.dct(size)[:, ::-1]

    recipe = nlridge.Recipe(nlridge.families.BM3D(patch_transform=rotated), *STEPS)
    assert not is_resumed(recipe, recipe, tmp_path)


def test_a_frame_that_has_changed_is_done_again(tmp_path):
    def stop(done, total):
        if done == 2 * total / 3:
            raise Stopped

    images, out = noisy(90, 80, 3), tmp_path / "out.npy"
    given = {**GIVEN, "method": "fast", "stack_axis": 0, "out": out, "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise(images, **given, progress=stop)
    images[1] += 10
    result = nlridge.denoise(images, **given)
    assert np.array_equal(result, nlridge.denoise(images, **GIVEN, method="fast", stack_axis=0))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_image_that_has_changed_in_one_row_is_done_again(dtype, tmp_path, monkeypatch):
    """All pixels count, not only the sample that the noise is estimated from."""
    from nlridge.large import frames

    monkeypatch.setattr(frames, "_SAMPLE_SIDE", 16)
    image, out = noisy(157, 140).astype(dtype), tmp_path / "out.npy"
    assert not any(30 in rows for rows in frames._sample_ranges(157, 16))
    given = {**GIVEN, "method": "fast", "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise(image, **given, out=out, progress=stops_at(6))
    image[30] += 5
    assert np.array_equal(nlridge.denoise(image, **given, out=out), nlridge.denoise(image, **{**GIVEN, "method": "fast"}))  # fmt: skip


def test_an_image_that_changes_and_changes_back(tmp_path):
    """What was done for the other image in between is not taken for its own."""
    first, second, out = noisy(157, 140), noisy(157, 140, seed=1), tmp_path / "out.npy"
    given = {**GIVEN, "method": "fast", "tile": 64, "out": out}
    total = []
    nlridge.denoise(first, **{**given, "out": tmp_path / "whole.npy"}, progress=lambda *t: total.append(t[1]))  # fmt: skip
    for image, stop in ((first, total[0] - 1), (second, total[0] - 1)):
        with pytest.raises(Stopped):
            nlridge.denoise(image, **given, progress=stops_at(stop))
    assert np.array_equal(nlridge.denoise(first, **given), np.load(tmp_path / "whole.npy"))


def test_progress_starts_at_what_is_done(tmp_path, capsys):
    """What was done before does not count for the time left."""
    image, given = noisy(157, 140), {**GIVEN, "method": "fast", "tile": 64, "out": tmp_path / "out.npy"}  # fmt: skip
    with pytest.raises(Stopped):
        nlridge.denoise(image, **given, progress=stops_at(6))
    bars = []

    class Bar(progress.tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            bars.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "tqdm", Bar)
        nlridge.denoise(image, **given, progress=True)
    (bar,) = bars
    assert bar.n == bar.total
    assert bar.initial >= 5
    assert "%" in capsys.readouterr().err


def test_the_folder_of_a_finished_run_is_removed(tmp_path):
    """It is left if the run is killed just after its result got its name."""
    image, out = noisy(90, 80), tmp_path / "out.zarr"
    given = {**GIVEN, "method": "fast", "tile": 64, "out": out}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume, "discard", lambda path: None)
        patch.setattr(resume.shutil, "rmtree", lambda path: None)
        nlridge.denoise(image, **given)
    assert (tmp_path / ".out.zarr.part").exists()
    with pytest.raises(FileExistsError, match="which exists; expected a new name"):
        nlridge.denoise(image, **given)
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


def test_two_runs_never_write_the_same_output(tmp_path):
    image, out = noisy(100, 90), tmp_path / "out.npy"

    def again(done, total):
        if done == 2:
            with pytest.raises(FileExistsError, match="in use by another process"):
                nlridge.denoise(image, **GIVEN, out=out, method="fast", tile=64)

    nlridge.denoise(image, **GIVEN, out=out, method="fast", tile=64, progress=again)


def test_modules_for_large_images_are_imported_only_if_needed():
    program = (
        "import sys, numpy, nlridge\n"
        "nlridge.denoise(numpy.eye(9), 1)\n"
        "assert not {'dask', 'zarr', 'distributed', 'nlridge.large'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# Missing pixels, and maps of the noise.


def partly_known(*channels):
    """An image, a mask with a hole of several bands, and a map of sigma with levels of all kinds."""
    rng, height, width = np.random.default_rng(1), 171, 75
    mask = rng.random((height, width)) < 0.05
    mask[40:150, 20:70] = True
    sigma = np.full((*channels, height, width), np.linspace(10, 40, width))
    if channels:
        sigma *= 1.3 ** np.arange(len(sigma))[:, None, None]
    sigma[..., rng.random((height, width)) < 0.02] = 500  # unreliable
    sigma[..., rng.random((height, width)) < 0.02] = 1e30  # unknown
    sigma[..., 7] = 0
    return noisy(height, width, *channels), mask, sigma


def with_holes(image, mask):
    """NaN in place of some pixels; a few are missing in the first channel alone."""
    holes = np.where(mask, np.nan, image)
    holes[0, 3] = np.nan
    return holes


CASES = {
    "NaN": lambda image, mask, sigma: (with_holes(image, mask), {"sigma": 20}),
    "NaN, blind": lambda image, mask, sigma: (with_holes(image, mask), {}),
    "NaN, photons": lambda image, mask, sigma: (
        with_holes(image, mask),
        {"noise": nlridge.PoissonGaussianNoise(3.0, 4.0)},
    ),
    "mask": lambda image, mask, sigma: (image, {"sigma": 20, "mask": mask}),
    "mask, 8 bits": lambda image, mask, sigma: (
        image.clip(0, 255).astype(np.uint8),
        {"sigma": 20, "mask": np.broadcast_to(mask, image.shape)},
    ),
    "masked array": lambda image, mask, sigma: (
        np.ma.array(image, mask=np.broadcast_to(mask, image.shape)),
        {"sigma": 20, "mask": image > 200},
    ),
    "map": lambda image, mask, sigma: (image, {"sigma": sigma}),
    "map, model": lambda image, mask, sigma: (image, {"noise": nlridge.GaussianNoise(sigma)}),
    "NaN, map": lambda image, mask, sigma: (
        with_holes(image, mask),
        {"sigma": np.where(mask, np.nan, sigma), "data_range": 255},
    ),
    "NaN, map, mask": lambda image, mask, sigma: (
        with_holes(image, mask),
        {"sigma": sigma.reshape(-1, *mask.shape)[0], "mask": mask[::-1]},
    ),
}


def assert_as_in_memory(image, folder, tiles, **options):
    """The result is the same to the bit in tiles of any height, and as a Dask array."""
    da = pytest.importorskip("dask.array")
    whole = nlridge.denoise(image, **options)
    for tile in tiles:
        tiled = nlridge.denoise(image, out=folder / f"{tile}.zarr", tile=tile, **options)
        assert tiled.dtype == whole.dtype
        assert np.array_equal(tiled[:], whole, equal_nan=True)
    later = nlridge.denoise(
        da.from_array(image, chunks=(-1,) * (image.ndim - 2) + (80, 50)), tile=64, **options
    )
    assert np.array_equal(later.compute(), whole, equal_nan=True)


@pytest.mark.parametrize("channels", [(), (3,)], ids=["gray", "colour"])
@pytest.mark.parametrize("name", CASES)
def test_missing_pixels_and_maps_are_as_in_memory(name, channels, tmp_path):
    image, options = CASES[name](*partly_known(*channels))
    options["channel_axis"] = 0 if channels else None
    assert_as_in_memory(image, tmp_path, [64, 100], method="fast", **options)


@pytest.mark.parametrize("method", nlridge.method_names())
def test_missing_pixels_and_maps_with_every_method(method, tmp_path):
    """Some methods have rounds, and a coarse scale, for which the map is made coarser as well."""
    image, options = CASES["NaN, map"](*partly_known())
    assert_as_in_memory(image, tmp_path, [64], method=method, **options)


def test_missing_pixels_and_maps_in_colour_at_two_scales(tmp_path):
    image, options = CASES["NaN, map"](*partly_known(3))
    recipe = nlridge.recipe("standard", 40)
    assert recipe.coarse is not None
    assert_as_in_memory(image, tmp_path, [128], method=recipe, channel_axis=0, **options)


def test_masks_and_maps_that_are_not_in_memory(tmp_path):
    da = pytest.importorskip("dask.array")
    image, mask, sigma = partly_known()
    whole = nlridge.denoise(image, sigma, mask=mask, method="fast")
    np.save(tmp_path / "mask.npy", mask)
    np.save(tmp_path / "sigma.npy", sigma)
    lazy = {
        "zarr": lambda name, array: zarr.create_array(tmp_path / f"{name}.zarr", data=array),
        "memory map": lambda name, array: np.load(tmp_path / f"{name}.npy", mmap_mode="r"),
        "dask": lambda name, array: da.from_array(array, chunks=(70, 40)),
    }
    for k, make in enumerate(lazy.values()):
        given = {"sigma": make("sigma", sigma), "mask": make("mask", mask), "method": "fast"}
        tiled = nlridge.denoise(image, **given, out=tmp_path / f"{k}.npy", tile=64)
        assert np.array_equal(tiled, whole)
        later = nlridge.denoise(da.from_array(image), **given, tile=64)
        assert np.array_equal(later.compute(), whole)


def test_masked_dask_arrays():
    da = pytest.importorskip("dask.array")
    image, mask, sigma = partly_known()
    whole = nlridge.denoise(
        np.ma.array(image, mask=mask), np.ma.array(sigma, mask=mask), method="fast"
    )
    later = nlridge.denoise(
        da.ma.masked_array(da.from_array(image), mask),
        da.ma.masked_array(da.from_array(sigma), mask),
        method="fast",
        tile=64,
    )
    assert np.array_equal(later.compute(), whole)


@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (5, 5), (130, 1), (1, 1)])
def test_missing_pixels_and_maps_of_any_shape(shape, tmp_path):
    image = noisy(*shape)
    image[1:3, ::2] = np.nan
    image[70:] = np.nan
    sigma = np.random.default_rng(0).uniform(5, 40, shape)
    assert_as_in_memory(image, tmp_path, [64], sigma=sigma, method="fast")
    image, sigma = np.stack([image, image]), np.stack([sigma, 2 * sigma])
    assert_as_in_memory(image, tmp_path, [65], sigma=sigma, channel_axis=0, method="fast")


@pytest.mark.parametrize("shared", [True, False])
def test_masks_and_maps_of_stacks(shared, tmp_path):
    """An image of a stack may have no valid pixels at all."""
    image, mask, sigma = partly_known(3)
    stack = np.stack([image, with_holes(image, mask), np.full_like(image, np.nan)], axis=1)
    masks, maps = (
        (mask, sigma[0])
        if shared
        else (np.stack([mask, mask[::-1], mask]), sigma[:, None].repeat(3, axis=1))
    )
    options = {"stack_axis": 1, "channel_axis": 0, "method": "fast"}
    assert_as_in_memory(stack, tmp_path, [100], sigma=maps, mask=masks, **options)


@pytest.mark.parametrize("suffix", ["npy", "tif"])
def test_missing_pixels_on_the_command_line(suffix, tmp_path, capsys):
    import tifffile

    image, _ = CASES["NaN"](*partly_known())
    source, target = (str(tmp_path / f"{name}.{suffix}") for name in ("in", "out"))
    read = np.load if suffix == "npy" else tifffile.imread
    if suffix == "npy":
        np.save(source, image)
    else:
        tifffile.imwrite(source, image)
    for sigma in (["--sigma", "20"], []):
        words = ["denoise", source, "-o", target, "--method", "fast", "--overwrite", *sigma]
        assert main([*words, "--tile", "64"]) == 0
        tiled = read(target)
        assert main(words) == 0
        assert np.array_equal(tiled, read(target), equal_nan=True)
    zarr.create_array(tmp_path / "in.zarr", data=image)
    assert main(["noise", str(tmp_path / "in.zarr"), "--json"]) == 0
    capsys.readouterr()


def test_frames_without_valid_pixels_on_the_command_line(tmp_path, capsys):
    image = noisy(70, 60)
    stack = np.stack([np.full_like(image, np.nan), image, np.where(image > 150, np.nan, image)])
    zarr.create_array(tmp_path / "in.zarr", data=stack)
    words = ["denoise", str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), "--tile", "64"]
    assert main([*words, "--stack-axis", "0", "--method", "fast", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["notes"] == ["frames without valid pixels were left unchanged (1 of 3)"]
    assert line["noise"]["sigma"] > 10
    whole = nlridge.denoise(stack, stack_axis=0, method="fast")
    result = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert np.array_equal(result[:], whole, equal_nan=True)


@pytest.mark.parametrize("changed", [None, "image", "mask", "sigma"])
@pytest.mark.parametrize("stop", [2, 5])
def test_a_run_starts_again_if_the_mask_or_the_map_has_changed(stop, changed, tmp_path):
    """In the first step, or in the second, where missing pixels have their values from the pilot."""
    image, mask, sigma = partly_known()
    given = {"image": with_holes(image, mask), "mask": mask[::-1].copy(), "sigma": sigma}
    options = {"data_range": 255, "method": "nl-ridge"}
    files = {"out": tmp_path / "out.npy", "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise(**given, **options, **files, progress=stops_at(stop))
    if changed:
        given[changed] = given[changed].copy()
        given[changed][-1, -1] = True if changed == "mask" else 15
    counts = []
    result = nlridge.denoise(
        **given, **options, **files, progress=lambda done, total: counts.append(done)
    )
    assert (counts[0] == 1) == (changed is not None)
    assert np.array_equal(result, nlridge.denoise(**given, **options), equal_nan=True)


def test_masks_and_maps_on_a_cluster(client, tmp_path):
    image, mask, sigma = partly_known()
    arrays = {"image": image, "mask": mask, "sigma": sigma}
    stored = {
        name: zarr.create_array(str(tmp_path / f"{name}.zarr"), data=array)
        for name, array in arrays.items()
    }
    options = {"method": "fast", "data_range": 255}
    files = {"out": tmp_path / "out.zarr", "tile": 64, "client": client}
    for name in ("mask", "sigma"):
        with pytest.raises(TypeError, match=f"{name} is in the memory of this process"):
            nlridge.denoise(**{**stored, name: arrays[name]}, **options, **files)
    tiled = nlridge.denoise(**stored, **options, **files)
    assert np.array_equal(tiled[:], nlridge.denoise(**arrays, **options))


class InBands(ImagesInParts):
    """Images in memory, computed in bands."""

    def __init__(self, band_height):
        self.band_height = band_height

    def image_of(self, shape, function, inputs):
        bands = []
        for rows in bands_of(shape[1], self.band_height):
            window = Window(rows, range(shape[2]))
            needed = [(image, part(window)) for image, part in inputs]
            parts = [
                Part(part, image[part.inside(whole_window(image.shape[1:]))])
                for image, part in needed
            ]
            bands.append(function(window, *parts))
        result = np.concatenate(bands, axis=1)
        assert result.shape == shape
        return result


@pytest.mark.parametrize("band_height", [5, 64])
def test_scales_and_holes_in_bands(band_height, monkeypatch):
    monkeypatch.setattr(scales, "_SMALL", 4)
    monkeypatch.setattr(scales, "_WIDE", 50)
    bands, rng = InBands(band_height), np.random.default_rng(0)
    for shape in ((2, 73, 97), (1, 1, 40), (1, 65, 3), (1, 300, 260)):
        image = rng.normal(100, 20, shape).astype(np.float32)
        coarse, noise = pyramid.coarser(image), PlaneNoise(image)
        assert np.array_equal(bands.coarser(image), coarse)
        coarse_noise = pyramid.coarser_noise(noise)
        assert np.array_equal(bands.coarser_noise(noise).variance, coarse_noise.variance)
        for level, most in ((1, 3.0), (2, coarse_noise.level), (3, 3.0)):
            expected = pyramid.with_coarse(image, coarse[:, ::-1], level, most)
            result = bands.with_coarse(image, coarse[:, ::-1], level, most)
            assert np.array_equal(result, expected)
        for share in (0.1, 0.9, 0.999, 1.0):
            holes = np.where(rng.random(shape) < share, np.float32(np.nan), image)
            holes[:, 20:70, 10:90] = np.nan
            assert np.array_equal(bands.filled(holes), np.stack([fill(plane) for plane in holes]))


def test_the_levels_of_the_parts_of_a_map_add_up():
    rng = np.random.default_rng(0)
    levels = np.concatenate(
        [np.full(500, 7.3), 10.0 ** rng.uniform(-300, 300, 3000), rng.uniform(1, 9, 3000)]
    )
    rng.shuffle(levels)
    whole, added = counted(levels), None
    for part in np.split(levels, [0, 1, 50, 3000, 3000]):
        added = counted(part, added)
    assert all(np.array_equal(a, b) for a, b in zip(added, whole, strict=True))
    assert whole.counts.sum() == len(levels)
    for share in (0.01, 0.25, 0.5, 0.9):
        assert whole.quantile(share) == pytest.approx(
            np.quantile(levels, share, method="averaged_inverted_cdf"), rel=1e-3
        )
    small = levels[levels < 4.0]
    few = whole.quantile(0.5, np.nextafter(4.0, 0))
    assert few == pytest.approx(np.quantile(small, 0.5, method="averaged_inverted_cdf"), rel=1e-3)
    assert counted(np.full(9, 12.34)).quantile(0.5) == 12.34


# Dask.


@pytest.mark.parametrize("method", ["fast", "standard"])
def test_dask_arrays(method):
    da = pytest.importorskip("dask.array")
    image = noisy(157, 140)
    computed = []
    chunks = da.from_array(image, chunks=(50, 60)).map_blocks(
        lambda x: computed.append(1) or x, dtype=image.dtype, meta=image[:0]
    )
    later = nlridge.denoise(chunks.astype(np.uint16), method=method, tile=64, **GIVEN)
    assert not computed
    assert (later.dtype, later.chunks) == (np.float32, chunks.chunks)
    whole = nlridge.denoise(image.astype(np.uint16), method=method, **GIVEN)
    assert np.array_equal(later.compute(), whole)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_dask_arrays_of_floats_are_computed_later(value):
    da = pytest.importorskip("dask.array")
    image = noisy(150, 80)
    image[140, 3] = value
    computed = []
    chunks = da.from_array(image, chunks=(100, 80)).map_blocks(
        lambda x: computed.append(1) or x, dtype=image.dtype, meta=image[:0]
    )
    later = nlridge.denoise(chunks, method="fast", tile=64, **GIVEN)
    assert not computed
    if np.isnan(value):
        whole = nlridge.denoise(image, method="fast", **GIVEN)
        assert np.array_equal(later.compute(), whole, equal_nan=True)
    else:
        with pytest.raises(ValueError, match="image has 1 infinite pixels in rows 128 to 149"):
            later.compute(scheduler="synchronous")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda x: x, {"client": "tcp://1"}, "client is 'tcp://1'; expected None for a Dask array"),
        (lambda x: x, {"tile": 3}, "tile is 3; expected at least 64"),
        (lambda x: x[x[:, 0] > 0], {}, "expected known chunk sizes"),
    ],
)
def test_dask_arrays_that_are_refused(change, options, message):
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=message):
        nlridge.denoise(change(da.from_array(noisy(70, 80))), **GIVEN, **options)


@pytest.mark.parametrize("shape", [(150, 90), (2, 150, 90)])
def test_dask_arrays_of_few_photons(shape):
    da = pytest.importorskip("dask.array")
    image = counts(*shape).astype(np.uint8)
    options = {"noise": nlridge.PoissonGaussianNoise(1.0), "method": "fast"}
    if len(shape) == 3:
        options["channel_axis"] = 0
    later = nlridge.denoise(da.from_array(image, chunks=60), tile=64, **options)
    assert np.array_equal(later.compute(), nlridge.denoise(image, **options))


def test_dask_arrays_of_channels_and_stacks():
    da = pytest.importorskip("dask.array")
    image = noisy(90, 80, 2, 3)
    options = {"stack_axis": 0, "channel_axis": 1, "method": "fast"}
    later = nlridge.denoise(da.from_array(image), tile=64, **options)
    assert np.array_equal(later.compute(scheduler="synchronous"), nlridge.denoise(image, **options))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            processes=True,
            dashboard_address=":0",
            memory_limit=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@kills
def test_a_cluster_that_loses_a_worker(client, tmp_path):
    image = noisy(230, 140)
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64))
    workers = client.run(os.getpid)
    threads = []

    def kill(done, total):
        if done in (4, 8, 12):
            threads.extend(client.run(_names_of_threads).values())
        if done == 14:
            os.kill(next(iter(workers.values())), signal.SIGKILL)

    out = nlridge.denoise(
        source, **GIVEN, out=tmp_path / "out.zarr", tile=64, client=client, progress=kill
    )
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN))
    assert client.run(os.getpid) != workers
    # A worker of two threads does two bands at a time, each with one: the engine started none of its own (and
    # "nlridge-disk" only waits).
    assert threads
    for names in threads:
        assert sum(name.startswith("Dask-Worker-Threads") for name in names) <= 2
        assert not any(name.startswith("nlridge_") for name in names)


def _names_of_threads():
    return [thread.name for thread in threading.enumerate()]


CLIENT = """
import os, signal, sys
import nlridge, zarr
from distributed import Client

def die(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

address, folder = sys.argv[1:3]
nlridge.denoise(
    zarr.open_array(folder + "/in.zarr", mode="r"), 20, data_range=255, out=folder + "/out.zarr", tile=64,
    client=Client(address), progress=die,
)
"""


@kills
@pytest.mark.parametrize("when", [9, -2])
def test_a_cluster_that_loses_its_client(when, client, tmp_path):
    """In the middle, or while the result is written; another client resumes the run."""
    image = noisy(230, 140)
    source = zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64))
    ticks = []
    whole = {**GIVEN, "tile": 64, "client": client, "progress": lambda *tick: ticks.append(tick)}
    nlridge.denoise(source, **whole, out=tmp_path / "before.zarr")
    last = ticks[-1][1] + 1
    killed = subprocess.run(
        [sys.executable, "-c", CLIENT, client.scheduler.address, str(tmp_path), str(when % last)],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "out.zarr").exists()
    assert kept(tmp_path)
    out = nlridge.denoise(source, **whole, out=tmp_path / "out.zarr")
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "before.zarr",
        "in.zarr",
        "out.zarr",
    ]


def test_workers_that_cannot_find_the_image(client, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    client.run(os.chdir, str(elsewhere))
    monkeypatch.chdir(tmp_path)
    image = noisy(70, 80)
    zarr.create_array("in.zarr", data=image, chunks=(64, 64))
    given = {**GIVEN, "method": "fast", "out": "out.zarr", "tile": 64, "client": client}
    with pytest.raises(ValueError, match=r"worker .* cannot read the image"):
        nlridge.denoise(zarr.open_array("in.zarr", mode="r"), **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "in.zarr"]
    out = nlridge.denoise(zarr.open_array(tmp_path / "in.zarr", mode="r"), **given)
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN, method="fast"))
    with pytest.raises(TypeError, match=r"client is 5; expected a distributed\.Client"):
        nlridge.denoise(out, **{**given, "client": 5, "out": "other.zarr"})


def test_the_command_line_on_a_cluster(client, tmp_path, capsys):
    image = noisy(150, 140)
    zarr.create_array(str(tmp_path / "in.zarr"), data=image, chunks=(64, 64))
    address = client.scheduler_info()["address"]
    options = ["--scheduler", address, "--method", "fast", "--sigma", "20", "--tile", "64"]
    assert (
        main(["denoise", str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), *options])
        == 0
    )
    out = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert np.array_equal(out[:], nlridge.denoise(image, 20, method="fast"))


def test_errors_on_a_cluster_are_raised_here(client):
    with pytest.raises(ZeroDivisionError):
        Cluster(client).run_bands(_fail, [0, 1], lambda: None)


def _fail(numbers, workers):
    yield numbers[0] // 0


def test_a_run_with_a_noise_model_from_outside_is_never_resumed(tmp_path):
    class Own(nlridge.GaussianNoise):
        pass

    image, out = noisy(157, 140), tmp_path / "out.npy"
    given = {"noise": Own(20), "method": "fast", "data_range": 255, "out": out, "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise(image, **given, progress=stops_at(6))
    counts = []
    nlridge.denoise(image, **given, progress=lambda done, total: counts.append(done))
    assert counts == list(range(1, counts[-1] + 1))


def test_a_run_is_not_resumed_if_the_metadata_of_the_input_have_changed(tmp_path):
    zarr = pytest.importorskip("zarr")
    pixels, out = noisy(157, 140), tmp_path / "out.zarr"
    given = {**GIVEN, "method": "fast", "out": out, "tile": 64}
    before = zarr.create_array(tmp_path / "a.zarr", data=pixels, attributes={"by": "one"})
    with pytest.raises(Stopped):
        nlridge.denoise(before, **given, progress=stops_at(6))
    after = zarr.create_array(tmp_path / "b.zarr", data=pixels, attributes={"by": "another"})
    result = nlridge.denoise(after, **given)
    assert dict(result.attrs) == {"by": "another"}
    assert np.array_equal(result[:], nlridge.denoise(pixels, **GIVEN, method="fast"))

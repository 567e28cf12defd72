"""Missing pixels and maps of the noise in images larger than memory: as in memory."""

import json

import numpy as np
import pytest
from large_images import Stopped, noisy, partly_known, stops_at

import nlridge
from nlridge.apps.cli import main
from nlridge.core.algorithm import pyramid
from nlridge.core.algorithm.filling import fill
from nlridge.core.algorithm.inputs import PlaneNoise
from nlridge.core.engines.grid import Window, whole_window
from nlridge.images import parts
from nlridge.images.bands import bands_of
from nlridge.images.parts import ImagesInParts, Part
from nlridge.planning.levels import counted

zarr = pytest.importorskip("zarr")


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
        tiled = nlridge.denoise_to_disk(image, folder / f"{tile}.zarr", tile=tile, **options)
        assert tiled.dtype == whole.dtype
        assert np.array_equal(tiled[:], whole, equal_nan=True)
    later = nlridge.prepare(
        da.from_array(image, chunks=(-1,) * (image.ndim - 2) + (80, 50)), tile=64, **options
    ).denoise()
    assert np.array_equal(later.compute(), whole, equal_nan=True)


@pytest.mark.parametrize("channels", [(), (3,)], ids=["gray", "color"])
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


@pytest.mark.slow
def test_missing_pixels_and_maps_in_color_at_two_scales(tmp_path):
    image, options = CASES["NaN, map"](*partly_known(3))
    recipe = nlridge.recipe("standard", 40)
    assert recipe.coarse is not None
    assert_as_in_memory(image, tmp_path, [128], method=recipe, channel_axis=0, **options)


@pytest.mark.slow
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
        tiled = nlridge.denoise_to_disk(image, tmp_path / f"{k}.npy", **given, tile=64)
        assert np.array_equal(tiled, whole)
        later = nlridge.prepare(da.from_array(image), **given, tile=64).denoise()
        assert np.array_equal(later.compute(), whole)


def test_masked_dask_arrays():
    da = pytest.importorskip("dask.array")
    image, mask, sigma = partly_known()
    whole = nlridge.denoise(
        np.ma.array(image, mask=mask), np.ma.array(sigma, mask=mask), method="fast"
    )
    later = nlridge.prepare(
        da.ma.masked_array(da.from_array(image), mask),
        da.ma.masked_array(da.from_array(sigma), mask),
        method="fast",
        tile=64,
    ).denoise()
    assert np.array_equal(later.compute(), whole)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (5, 5), (130, 1), (1, 1)])
def test_missing_pixels_and_maps_of_any_shape(shape, tmp_path):
    image = noisy(*shape)
    image[1:3, ::2] = np.nan
    image[70:] = np.nan
    sigma = np.random.default_rng(0).uniform(5, 40, shape)
    assert_as_in_memory(image, tmp_path, [64], sigma=sigma, method="fast")
    image, sigma = np.stack([image, image]), np.stack([sigma, 2 * sigma])
    assert_as_in_memory(image, tmp_path, [65], sigma=sigma, channel_axis=0, method="fast")


@pytest.mark.slow
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
        nlridge.denoise_to_disk(**given, **options, **files, progress=stops_at(stop))
    if changed:
        given[changed] = given[changed].copy()
        given[changed][-1, -1] = True if changed == "mask" else 15
    counts = []
    result = nlridge.denoise_to_disk(
        **given, **options, **files, progress=lambda done, total: counts.append(done)
    )
    assert (counts[0] == 1) == (changed is not None)
    assert np.array_equal(result, nlridge.denoise(**given, **options), equal_nan=True)


class InBands(ImagesInParts):
    """Images in memory, computed in bands."""

    def __init__(self, band_height):
        self.band_height = band_height

    def run_pass(self, inputs, step, groups=None):
        raise AssertionError("no pass is run")

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


@pytest.mark.slow
@pytest.mark.parametrize("band_height", [5, 64])
def test_scales_and_holes_in_bands(band_height, monkeypatch):
    monkeypatch.setattr(parts, "_SMALL_IMAGE", 4)
    monkeypatch.setattr(parts, "_COLUMNS", 50)
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

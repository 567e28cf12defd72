"""Images larger than memory: the same result to the bit, however the work is divided."""

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from large_images import GIVEN, counts, noisy

import nlridge
from nlridge.core.algorithm.inputs import PlaneNoise, StepInputs
from nlridge.core.algorithm.passes import Pass
from nlridge.core.engines import cpu
from nlridge.core.engines.grid import Window, whole_window
from nlridge.images.lazy import LazyImage
from nlridge.large.frames import Frame, Source, plan_frame, sample_of
from nlridge.planning.layout import layout_of
from nlridge.planning.options import Options

zarr = pytest.importorskip("zarr")


@pytest.mark.parametrize("method", nlridge.method_names())
def test_tiles_are_the_same_as_the_whole_image(method, tmp_path):
    image = noisy(157, 203)
    whole = nlridge.denoise(image, method=method, **GIVEN)
    tiled = nlridge.denoise_to_disk(image, tmp_path / "out.npy", method=method, tile=64, **GIVEN)
    assert np.array_equal(tiled, whole)
    assert isinstance(tiled, np.memmap)
    assert not tiled.flags.writeable
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (5, 5), (130, 1), (129, 64)])
def test_images_of_any_shape_in_tiles(shape, tmp_path):
    image = noisy(*shape)
    tiled = nlridge.denoise_to_disk(image, tmp_path / "out.npy", tile=64, **GIVEN)
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
    tiled = nlridge.denoise_to_disk(image, tmp_path / "out.zarr", tile=64, **options)
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


@pytest.mark.slow
def test_the_noise_of_a_sample_is_near_that_of_the_whole():
    image = np.random.default_rng(0).normal(100, 20, (2100, 2100)).astype(np.float32)
    pixels, missing = sample_of(Source(Frame(image, "YX")))
    assert pixels.shape == (1, 2072, 2072)
    assert np.count_nonzero(~missing) == 16 * 512**2
    sigma = nlridge.estimate_sigma(pixels[0], mask=missing[0])
    assert sigma == pytest.approx(20, rel=0.02)


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
        ({"out": 5}, TypeError, "out is 5; expected a path"),
    ],
)  # fmt: skip
def test_bad_options(options, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        nlridge.denoise_to_disk(noisy(40, 50), **{"sigma": 20, **options})
    assert not list(tmp_path.iterdir())


def test_tensors_are_not_written_to_disk(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"^image is a tensor; expected an array, such as [^\n]+$"):
        nlridge.denoise_to_disk(torch.ones(9, 9), tmp_path / "x.npy", 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sigma", [20, None])
def test_infinite_pixels_are_refused(sigma, tmp_path):
    image = noisy(640, 50)
    image[600, 4] = np.inf
    with pytest.raises(
        ValueError,
        match=r"image has 1 infinite pixels in rows .* to 639; expected finite values, or NaN",
    ):
        nlridge.denoise_to_disk(image, tmp_path / "a.npy", sigma)
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
    layout, options = layout_of(Made.shape, Made.dtype), Options(nlridge.GaussianNoise(1.0))
    planned = plan_frame(Source(Frame(Made(), "YX")), layout, options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert planned.digest
    assert not planned.parts.may_have_gaps
    assert peak < 4 * 8192 * 1024 / 2


@pytest.mark.slow
def test_modules_for_large_images_are_imported_only_if_needed():
    program = (
        "import sys, numpy, nlridge\n"
        "nlridge.denoise(numpy.eye(9), 1)\n"
        "assert not {'dask', 'zarr', 'distributed', 'nlridge.large'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

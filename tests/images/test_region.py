"""A region of the result: the same to the bit as in the whole, from no more than it depends on."""

import time
from dataclasses import replace

import numpy as np
import pytest
from groups import Custom
from images import texture

import nlridge
from nlridge.api.in_memory import denoise_frame
from nlridge.api.measured import MeasuredImages
from nlridge.core.algorithm.filling import fill
from nlridge.core.algorithm.passes import all_passes
from nlridge.core.engines import cpu, pool
from nlridge.core.engines.grid import Window, lines, reach
from nlridge.images import parts
from nlridge.planning.facts import facts_of
from nlridge.planning.options import checked_options
from nlridge.planning.outliers import REACH
from nlridge.planning.pixels import NoisyPixels
from nlridge.planning.plan import plan_for

SHAPE = 90, 130
LARGE = 190, 250  # larger than what a pixel depends on if windows are narrow
BLUR = np.outer([1, 3, 1], [1, 3, 1]) / 10
GIVEN = {"sigma": 20, "data_range": 255}


def noisy(*shape, seed=0):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[-2], : shape[-1]]
    clean = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    return (clean + rng.normal(0, 20, shape)).astype(np.float32)


def narrow(method):
    """A recipe with narrow windows, whose results depend on few pixels around each."""

    def step(settings):
        return replace(
            settings, window=7, group_size=min(settings.group_size, 20), chroma_group_size=None
        )

    def recipe(one):
        coarse = one.coarse and replace(
            one.coarse, recipe=recipe(one.coarse.recipe), pilot_level=1, result_level=1
        )
        return replace(one.with_second(step), first=step(one.first), coarse=coarse)

    return recipe(nlridge.recipe(method, 20))


def regions_of(height, width, seed=0):
    """Two corners, a pixel, and one anywhere."""
    rng = np.random.default_rng(seed)
    yield np.s_[:11, :7]
    yield np.s_[-3:, -40:]
    yield np.s_[height // 2 : height // 2 + 1, width // 3 : width // 3 + 1]
    (top, bottom), (left, right) = (
        sorted(rng.choice(length + 1, 2, replace=False).tolist()) for length in (height, width)
    )
    yield np.s_[top:bottom, left:right]


def expect_the_same(image, regions=None, height_axis=-2, **options):
    """Compare regions with the whole result; images have height and width as consecutive axes."""
    whole = nlridge.denoise(image, **options)
    height, width = np.moveaxis(whole, (height_axis, height_axis + 1), (0, 1)).shape[:2]
    for region in regions or regions_of(height, width):
        index = [slice(None)] * whole.ndim
        index[height_axis % whole.ndim], index[height_axis % whole.ndim + 1] = region
        part = nlridge.prepare(image, **options).denoise(region)
        assert part.dtype == whole.dtype
        assert np.array_equal(part, whole[tuple(index)], equal_nan=True), region


@pytest.mark.parametrize("method", nlridge.method_names())
def test_every_method(method):
    expect_the_same(noisy(*SHAPE), [np.s_[40:70, 50:60], np.s_[:, :]], method=method, **GIVEN)


@pytest.mark.parametrize("method", nlridge.method_names())
def test_regions_anywhere(method):
    expect_the_same(noisy(*LARGE), method=narrow(method), **GIVEN)


@pytest.mark.parametrize("method", nlridge.method_names())
def test_regions_anywhere_in_color(method):
    expect_the_same(noisy(3, *SHAPE), method=narrow(method), channel_axis=0, **GIVEN)


def test_many_channels():
    options = {"channel_axis": 0, "method": narrow("standard"), **GIVEN}
    expect_the_same(noisy(5, *SHAPE), [np.s_[20:40, 100:]], **options)


@pytest.mark.slow
def test_channels_at_the_end_and_stacks():
    image = np.moveaxis(noisy(2, 3, *SHAPE), 1, -1)
    options = {"channel_axis": -1, "stack_axis": 0, "method": narrow("standard"), **GIVEN}
    expect_the_same(image, height_axis=-3, **options)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float64, ">f4"])
def test_types(dtype):
    image = np.clip(noisy(*SHAPE), 0, 255).astype(dtype)
    expect_the_same(image, [np.s_[20:30, 100:]], method="fast")


def with_holes(image, share=0.05):
    holes = image.copy()
    holes[..., np.random.default_rng(1).random(image.shape[-2:]) < share] = np.nan
    holes[..., 40:75, 60:110] = np.nan
    return holes


def uneven(shape):
    levels = np.where(np.arange(shape[1]) < 80, 10.0, 30.0) + np.zeros(shape)
    levels[50:53, 20:23] = 1e3  # unreliable
    levels[10, 11] = 1e9  # unknown
    return levels


CASES = {
    "missing": (with_holes(noisy(*LARGE)), GIVEN),
    "mostly missing": (with_holes(noisy(*LARGE), 0.995), GIVEN),
    "missing in color": (with_holes(noisy(3, *LARGE)), {"channel_axis": 0, **GIVEN}),
    "mask": (noisy(*LARGE), {"mask": np.arange(250) % 9 + np.zeros(LARGE) == 4, **GIVEN}),
    "masked array": (np.ma.masked_less(noisy(*LARGE), 70), GIVEN),
    "map": (noisy(*LARGE), {"sigma": uneven(LARGE)}),
    "map and missing": (with_holes(noisy(*LARGE)), {"sigma": uneven(LARGE)}),
    "maps in color": (
        noisy(3, *LARGE),
        {
            "sigma": np.stack([uneven(LARGE), 20 + np.zeros(LARGE), uneven(LARGE)]),
            "channel_axis": 0,
        },
    ),
    "levels of channels": (noisy(3, *LARGE), {"sigma": [10, 20, 30], "channel_axis": 0}),
    "a channel without noise": (noisy(3, *LARGE), {"sigma": [20, 0, 20], "channel_axis": 0}),
    "no noise": (np.full(LARGE, 7.0), {}),
    "blind": (noisy(*LARGE), {}),
    "strength": (noisy(*LARGE), {"strength": 1.7, **GIVEN}),
    "poisson": (noisy(*LARGE), {"noise": nlridge.PoissonGaussianNoise(3, 5)}),
    "blur": (noisy(*LARGE), {"noise": nlridge.CorrelatedNoise.from_kernel(20, BLUR)}),
    "blur, missing": (
        with_holes(noisy(*LARGE)),
        {"noise": nlridge.CorrelatedNoise.from_kernel(20, BLUR)},
    ),
    "blur, map": (
        noisy(*LARGE),
        {"noise": nlridge.CorrelatedNoise.from_kernel(uneven(LARGE), BLUR)},
    ),
    "lines": (noisy(*LARGE), {"noise": nlridge.CorrelatedNoise.lines(20)}),
    "lines in color": (
        noisy(3, *SHAPE),
        {"noise": nlridge.CorrelatedNoise.lines(20), "channel_axis": 0},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_image_and_noise(name):
    image, options = CASES[name]
    method = narrow("fast" if "lines" in name else "standard")  # whitening each group takes time
    expect_the_same(image, method=method, **options)


@pytest.mark.slow
@pytest.mark.parametrize("axes", [{}, {"channel_axis": 0}])
@pytest.mark.parametrize("holes", [False, True])
def test_few_photons(holes, axes):
    y, x = np.mgrid[: LARGE[0], : LARGE[1]]
    shape = (2, *LARGE) if axes else LARGE
    rng = np.random.default_rng(0)
    image = rng.poisson(0.5 + 0.4 * np.sin(x / 9) * np.cos(y / 7), shape).astype(np.float32)
    image = with_holes(image) if holes else image
    options = {"noise": nlridge.PoissonGaussianNoise(1.0), "method": narrow("standard"), **axes}
    expect_the_same(image, list(regions_of(*LARGE))[::2], **options)


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 2), (7, 7), (40, 300)])
def test_images_of_any_shape(shape):
    height, width = shape
    some = np.s_[height // 2 : height // 2 + 1, width // 2 :]
    for method in ("fast", "standard"):
        expect_the_same(noisy(*shape), [some, np.s_[:, :]], method=method, **GIVEN)


def test_a_family_that_is_a_formula():
    """A formula sees all groups of a block at once: sums over all of them may depend on which there are."""

    def formula(Y, X, noise):
        mean = Y.mean(axis=-1, keepdims=True)
        common = 1e-3 * Y.mean()
        return 0.8 * mean + 0.2 * Y + common, np.ones((len(Y), Y.shape[-1]))

    step = nlridge.Step(patch_size=5, group_size=16, window=9)
    method = nlridge.Recipe(Custom(*[nlridge.Estimator(formula)] * 2), step, step)
    expect_the_same(noisy(*SHAPE), [np.s_[60:70, 20:30], np.s_[:, :]], method=method, **GIVEN)


@pytest.mark.slow
def test_facts_are_measured_once_for_many_regions_and_options():
    """As a graphical front end does."""
    image = noisy(3, *LARGE)

    def options(method, strength=1.0):
        tuning = nlridge.core.algorithm.tuning.Tuning(strength)
        return checked_options(None, noise=None, method=method, data_range=None, tuning=tuning)

    axes = {"stack_axis": None, "channel_axis": 0}
    measured = MeasuredImages(image, options("fast"), 1, mask=None, **axes)
    frame = measured.frame(0, options("fast"), 1)
    facts, levels = facts_of(frame.pixels, frame.missing, None, options("fast"), 1)
    for method, strength in (("fast", 1.0), (narrow("standard"), 0.6)):
        plan = plan_for(image.shape, facts, options(method, strength))
        whole = nlridge.denoise(image, method=method, strength=strength, channel_axis=0)
        for window in (Window(range(9, 60), range(130, 250)), Window(range(190), range(7, 8))):
            part = denoise_frame(
                NoisyPixels(plan, frame.pixels, frame.missing, levels), 2, False, window
            )
            assert np.array_equal(
                part, whole[:, 9:60, 130:] if len(window.rows) == 51 else whole[:, :, 7:8]
            )


@pytest.mark.parametrize("method", ["fast", "standard"])
def test_only_blocks_that_reach_the_region_are_computed(method, monkeypatch):
    computed = []

    def counted(denoisers, step, groups, shape, read, part):
        computed.append((shape, part.some))
        return denoise_block(denoisers, step, groups, shape, read, part)

    denoise_block = cpu.denoise_block
    monkeypatch.setattr(cpu, "denoise_block", counted)
    image, recipe, seen = noisy(*LARGE), narrow(method), []
    progress = {"progress": lambda done, total: seen.append((done, total))}
    nlridge.denoise(image, method=recipe, **GIVEN)
    references = sum(len(block.ys) * len(block.xs) for _, block in computed)
    computed.clear()
    region = np.s_[90:100, 120:130]
    nlridge.prepare(image, method=recipe, **GIVEN).denoise(region, **progress)
    few = sum(len(block.ys) * len(block.xs) for _, block in computed)
    assert 0 < few < references / (20 if method == "fast" else 3)
    assert seen == [(k + 1, len(computed)) for k in range(len(computed))]
    # No block is computed for nothing: the last pass has those that reach the region, and the one before those that
    # reach what the last one reads.
    window = Window(range(90, 100), range(120, 130))
    if method == "fast":
        for _, step in reversed(list(all_passes(recipe, LARGE))):
            grid = lines(LARGE, step, window, trimmed=True)
            expected = [part.some for line in grid for part in line]
            last = [block for _, block in computed[-len(expected) :]]
            last.sort(key=lambda block: (block.ys[0], block.xs[0]))  # threads begin in any order
            for block, other in zip(last, expected, strict=True):
                assert np.array_equal(block.ys, other.ys)
                assert np.array_equal(block.xs, other.xs)
            del computed[-len(expected) :]
            window = reach(grid, LARGE, step.settings)
        assert not computed


def test_wide_gaps_alone_are_filled_from_afar(monkeypatch):
    """Pixels are read from as far away as a gap is wide."""
    monkeypatch.setattr(parts, "_SMALL_IMAGE", 16)
    image = noisy(1, 500, 500)
    image[:, 100:104, 100:104] = np.nan
    image[:, 200:300, 200:300] = np.nan
    whole = np.stack([fill(plane) for plane in image])
    read = []

    def part(window):
        read.append(window)
        return image[
            :, window.rows.start : window.rows.stop, window.columns.start : window.columns.stop
        ]

    for (start, stop), farthest in {(0, 30): 10, (95, 110): 20, (245, 255): 300}.items():
        window = Window(range(start, stop), range(start, stop))
        read.clear()
        filled = parts.filled_window(part, image.shape, window)
        assert np.array_equal(filled, whole[:, start:stop, start:stop])
        assert all(start - span.start <= farthest for some in read for span in some)
        assert all(span.stop - stop <= farthest for some in read for span in some)


class Recorded:
    """An array that is not in memory, and the parts of it that were read."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.read = array, array.shape, array.dtype, []

    def __getitem__(self, index):
        self.read.append(self.array[index].shape)
        return self.array[index]


def test_arrays_that_are_not_in_memory(tmp_path):
    image = noisy(3, *LARGE)
    whole = nlridge.denoise(image, channel_axis=0, method=narrow("fast"), **GIVEN)
    mapped = np.lib.format.open_memmap(tmp_path / "image.npy", "w+", np.float32, image.shape)
    mapped[:] = image
    recorded = Recorded(image)
    for array in (mapped, recorded):
        options = {"channel_axis": 0, "method": narrow("fast"), **GIVEN}
        part = nlridge.prepare(array, **options).denoise(np.s_[100:110, 120:140])
        assert type(part) is np.ndarray
        assert np.array_equal(part, whole[:, 100:110, 120:140])
    facts, *rest = recorded.read
    assert facts == image.shape
    assert rest
    around = 2 * REACH  # where outliers are looked for
    assert all(rows < 90 + around and columns < 110 + around for _, rows, columns in rest)


@pytest.mark.slow
def test_zarr_arrays_with_masks_and_maps(tmp_path):
    zarr = pytest.importorskip("zarr")
    arrays = {
        "image": with_holes(noisy(2, *LARGE)),
        "mask": np.arange(250) % 9 + np.zeros(LARGE) == 4,
        "sigma": uneven(LARGE),
    }
    options = {"stack_axis": 0, "method": narrow("standard")}
    stored = {
        name: zarr.create_array(str(tmp_path / name), data=array, chunks=(64,) * array.ndim)
        for name, array in arrays.items()
    }
    whole = nlridge.denoise(**arrays, **options)
    seen = []
    part = nlridge.prepare(**stored, **options).denoise(
        np.s_[30:50, :], progress=lambda *ends: seen.append(ends)
    )
    assert np.array_equal(part, whole[:, 30:50], equal_nan=True)
    assert seen == [(1, 2), (2, 2)]


def test_frames_without_valid_pixels():
    image = noisy(2, *SHAPE)
    image[1] = np.nan
    expect_the_same(image, [np.s_[3:5, 7:9]], stack_axis=0, method="fast", **GIVEN)


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_in_progress_cancels_at_once(workers, monkeypatch):
    started = []

    def counted(*arguments):
        started.append(arguments)
        return denoise_block(*arguments)

    denoise_block = cpu.denoise_block
    monkeypatch.setattr(cpu, "denoise_block", counted)

    class Newer(Exception):
        """Another request has come in."""

    def progress(done, total):
        if done == 3:
            assert total > 30
            raise Newer

    for region in (None, np.s_[:250, :]):
        started.clear()
        pool._idle.clear()
        prepared = nlridge.prepare(noisy(300, 900), method="fast", workers=workers, **GIVEN)
        try:
            prepared.denoise(region, progress=progress)
        except Newer:
            # While the exception, and with it what the frames refer to, is still there.
            count = len(started)
            assert count <= 3 + 3 * workers
            assert len(pool._idle) == (workers > 1)  # the threads have been given back
            time.sleep(0.1)
            assert len(started) == count
        else:
            pytest.fail("the exception was lost")


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (np.s_[3:5], "region is slice"),
        (5, "region is 5; expected two slices"),
        ((0, 10, 0, 10), "region is"),
        ([slice(3), slice(4)], "region is"),
        (np.s_[3:5, 2], "region is"),
        (np.s_[3:5, 2:4, 1:2], "region is"),
        (np.s_[0.5:5, :], "region is .* expected whole numbers"),
        (np.s_["a":, :], "region is .* expected whole numbers"),
        (np.s_[5:5, :], "region has the rows 5:5; expected one or several successive rows"),
        (np.s_[9:5, :], "region has the rows 9:5"),
        (np.s_[:, 100:131], "region has the columns 100:131; .* of the image, which has 130$"),
        (np.s_[-91:, :], "region has the rows -91:90; .* which has 90$"),
        (np.s_[::2, :], "region has the rows 0:90:2"),
        (np.s_[::-1, :], "region has the rows 0:90:-1"),
    ],
)
def test_regions_that_are_refused(region, message):
    with pytest.raises((TypeError, ValueError), match=message):
        nlridge.prepare(noisy(*SHAPE), **GIVEN).denoise(region)


@pytest.mark.parametrize("axes", [{"time_axis": 0}, {"depth_axis": 0}])
def test_regions_of_frames_that_belong_together(axes):
    stack = np.stack([noisy(40, 50), noisy(40, 50)])
    prepared = nlridge.prepare(stack, 20, method="fast", **axes)
    whole = nlridge.denoise(stack, 20, method="fast", **axes)
    assert np.array_equal(prepared.denoise(np.s_[3:5, 7:30]), whole[:, 3:5, 7:30])
    assert np.array_equal(prepared.denoise(np.s_[3:5, :], frame=1), whole[1, 3:5])


def test_regions_of_dask_arrays_and_tensors():
    da = pytest.importorskip("dask.array")
    torch = pytest.importorskip("torch")
    image, region = texture(64, 64).astype(np.float32), np.s_[3:5, 7:9]
    expected = nlridge.denoise(image, 10)[region]
    lazy = nlridge.prepare(da.from_array(image), 10).denoise(region)
    assert lazy.shape == (2, 2)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)
    tensor = nlridge.prepare(torch.tensor(image), 10).denoise(region)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), expected)

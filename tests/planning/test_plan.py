"""What is decided about an image: options and facts become a plan, without the pixels."""

import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

import nlridge
from nlridge.api.measured import MeasuredImages
from nlridge.core.algorithm.recipes import table_level
from nlridge.core.algorithm.tuning import Tuning
from nlridge.noise.gaussian import GaussianNoise
from nlridge.planning.channels import OPPONENT
from nlridge.planning.options import Options, checked_options
from nlridge.planning.plan import Facts, plan_for

SHAPE = 1, 40, 50
ROWS = {
    "fast": (15, 35),
    "standard": (7, 15, 30, 40),
    "best": (7, 20, 30, 40),
    "nl-ridge": (15, 35),
}


def facts(levels, data_range=255.0, **others):
    """Of an image whose channels have nothing but their noise."""
    levels = np.array(levels, float)
    covariance = np.eye(len(levels))
    return Facts(GaussianNoise(levels.max()), levels, [(0.0, data_range)], covariance, **others)


def test_options_are_checked_and_cannot_be_changed():
    options = checked_options(10, None, "fast", None, Tuning())
    assert options == Options(GaussianNoise(10.0), method="fast")
    with pytest.raises(FrozenInstanceError):
        options.tuning = Tuning(2.0)
    assert checked_options(None, None, "fast", 255, Tuning(1)) == Options(
        method="fast", data_range=255.0
    )


@pytest.mark.parametrize("data_range", [1e-6, 1.0, 255.0, 1e9])
def test_noise_of_a_millionth_of_the_range_is_left_in(data_range):
    for share, is_removed in ((0.99e-6, False), (1.01e-6, True), (0.1, True)):
        plan = plan_for(SHAPE, facts([share * data_range], data_range), Options())
        assert bool(plan.planes) is is_removed
        assert bool(plan.levels[0]) is is_removed
        assert bool(plan.scales[0]) is is_removed


@pytest.mark.parametrize("method", ROWS)
def test_a_level_at_the_end_of_a_row_belongs_to_that_row(method):
    """Whatever the units: errors of arithmetic, also in float32, do not choose another row."""
    for level in ROWS[method]:
        expected = nlridge.recipe(method, level).within(SHAPE[1:])
        assert nlridge.recipe(method, 1.001 * level).within(SHAPE[1:]) != expected
        for scale in (1 / 255, 1.0, 0.1, 257.0):
            for sigma in (level * scale, float(np.float32(level) * np.float32(scale))):
                plan = plan_for(SHAPE, facts([sigma], 255 * scale), Options(method=method))
                assert plan.recipe == expected


def test_levels_are_compared_on_a_scale_of_255():
    assert table_level(0.1, 1.0) == 25.5
    assert table_level(15 * (1 + 1e-8), 255) == 15
    assert table_level(1.0, 0.0) == np.inf


def test_channels_without_noise_are_left_out():
    plan = plan_for((4, 40, 50), facts([10, 0, 20, 1e-5]), Options())
    np.testing.assert_array_equal(plan.levels, [10, 0, 20, 0])
    np.testing.assert_array_equal(plan.scales > 0, [True, False, True, False])
    assert [planes.channels for planes in plan.planes] == [[0], [2]]
    typical = np.sqrt((10**2 + 20**2) / 2)
    assert plan.recipe == nlridge.recipe("standard", typical).within((40, 50))


def test_channels_without_pixels_are_left_out():
    plan = plan_for((2, 40, 50), facts([10, 20], empty=np.array([True, False])), Options())
    np.testing.assert_array_equal(plan.levels, [0, 20])
    assert [planes.channels for planes in plan.planes] == [[1]]


def test_an_image_without_noise_has_a_plan_that_does_nothing():
    plan = plan_for((3, 40, 50), facts([0, 0, 0]), Options())
    assert plan.planes == ()
    assert not plan.levels.any()


def test_channels_that_show_the_same_are_planned_together():
    same = 100 * np.ones((3, 3)) + np.eye(3)
    given = Facts(GaussianNoise(10.0), np.full(3, 10.0), [(0.0, 255.0)], same)
    (planes,) = plan_for((3, 40, 50), given, Options()).planes
    assert planes.channels == [0, 1, 2]
    np.testing.assert_array_equal(planes.matrix, OPPONENT)


def test_scales_bring_the_noise_near_one_without_rounding():
    for level in (1e-200, 0.3, 1.0, 25.0, 1e200):
        (scale,) = plan_for(SHAPE, facts([level], 10 * level), Options()).scales
        assert 0.7 < level * scale < 1.42
        assert np.frexp(scale)[0] == 0.5  # a power of two


def test_a_recipe_given_by_hand_is_only_fitted_to_the_image():
    mine = nlridge.Recipe(nlridge.core.families.Ridge(), nlridge.Step(9, 20), nlridge.Step(7, 20))
    small, large = (
        plan_for(shape, facts([25.0]), Options(method=mine)).recipe for shape in ((1, 6, 90), SHAPE)
    )
    assert large == mine
    assert (small.first.patch_size, small.second.patch_size) == (3, 3)


def plan_in_memory(image, sigma, method="standard", **axes):
    options = checked_options(sigma, None, method, 255, Tuning())
    axes = {"stack_axis": None, "channel_axis": None, **axes}
    return MeasuredImages(image, options, 1, mask=None, **axes).plan(options)


@pytest.mark.parametrize("method", nlridge.method_names())
def test_a_plan_can_be_pickled_and_holds_no_pixels(method):
    rng = np.random.default_rng(0)
    sizes = []
    for side in (40, 400):
        image = rng.normal(100, 20, (3, side, side))
        plan = plan_in_memory(image, [20, 21, 22], method, channel_axis=0)
        copy = pickle.loads(pickle.dumps(plan))
        for field in fields(plan):
            one, other = getattr(plan, field.name), getattr(copy, field.name)
            assert repr(one) == repr(other)
        sizes.append(len(pickle.dumps(plan)))
    assert sizes[1] < sizes[0] + 100


@pytest.mark.parametrize("sigma", [10.0, 15.0, 20.0, 35.0])
def test_memory_disk_dask_and_tensors_arrive_at_the_same_recipe(sigma, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    dask = pytest.importorskip("dask.array")
    pytest.importorskip("zarr")
    made = []

    def recorded(*arguments, **options):
        made.append(plan_for(*arguments, **options))
        return made[-1]

    for module in ("api.measured", "large.frames"):
        monkeypatch.setattr(f"nlridge.{module}.plan_for", recorded)
    image = np.random.default_rng(0).normal(0.5, sigma / 255, (40, 50)).astype(np.float32)
    given = {"sigma": sigma / 255, "data_range": 1.0}
    nlridge.denoise(image, **given)
    nlridge.denoise_to_disk(image, tmp_path / "out.npy", **given, tile=64)
    nlridge.prepare(dask.from_array(image), **given, tile=64).denoise().compute(
        scheduler="synchronous"
    )
    nlridge.denoise(torch.tensor(image, requires_grad=True), **given)
    assert len(made) == 4
    for plan in made:
        assert plan.recipe == nlridge.recipe("standard", sigma).within((40, 50))
        assert [planes.channels for planes in plan.planes] == [[0]]
        assert plan.levels[0] == pytest.approx(sigma / 255, rel=1e-6)
        assert plan.shape == (1, 40, 50)

"""`prepare`: the same bits as `denoise`, without measuring again."""

import inspect

import numpy as np
import pytest
from images import texture

import nlridge
from nlridge.api import measured
from nlridge.core.engines import cpu, reuse
from nlridge.large import frames
from nlridge.planning import facts

RNG = np.random.default_rng(0)
Y, X = np.mgrid[:60, :72]
CLEAN = 128 + 60 * np.sin(X / 9) * np.cos(Y / 7)
GRAY = (CLEAN + RNG.normal(0, 20, CLEAN.shape)).astype(np.float32)
PHOTO = np.stack([GRAY, GRAY[::-1], GRAY[:, ::-1]], axis=-1) + RNG.normal(0, 10, (60, 72, 3))
STACK = np.stack([GRAY, GRAY[::-1] + RNG.normal(0, 10, GRAY.shape).astype(np.float32), GRAY])
HOLES = np.where(X % 11 == 5, np.nan, GRAY)
LEVELS = np.where(X < 40, 15.0, 25.0)
BLUR = np.outer([1, 3, 1], [1, 3, 1]) / 10
REGION = np.s_[20:31, 40:45]

KINDS = {
    "gray": (GRAY, {}),
    "color": (PHOTO, {"channel_axis": -1}),
    "stack": (STACK, {"stack_axis": 0}),
    "video": (STACK, {"time_axis": 0}),
    "volume": (np.moveaxis(STACK, 0, 1), {"depth_axis": 1}),
    "videos": (np.stack([STACK, STACK[::-1]]), {"stack_axis": 0, "time_axis": 1}),
    "integers": (np.clip(GRAY, 0, 255).astype(np.uint8), {}),
    "missing": (HOLES, {"sigma": 20}),
    "masked stack": (STACK, {"sigma": 20, "stack_axis": 0, "mask": X % 9 == 4}),
    "map": (GRAY, {"sigma": LEVELS}),
    "maps of a stack": (STACK, {"sigma": LEVELS, "stack_axis": 0}),
    "poisson": (GRAY.clip(1), {"noise": nlridge.PoissonGaussianNoise(3, 5)}),
    "correlated": (GRAY, {"noise": nlridge.CorrelatedNoise.from_kernel(20, BLUR)}),
    "outliers kept": (GRAY, {"mask": False}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_as_denoise_with_any_settings(kind):
    image, options = KINDS[kind]
    prepared = nlridge.prepare(image, method="fast", **options)
    for settings in ({"method": "fast"}, {"method": "nl-ridge", "strength": 0.7}, {"method": "fast", "strength": 1.6}):  # fmt: skip
        expected = nlridge.denoise(image, **settings, **options)
        np.testing.assert_array_equal(prepared.denoise(**settings), expected)
        if not {"time_axis", "depth_axis"} & options.keys():
            rows, columns = (prepared.axes.index(axis) for axis in "YX")
            index = [slice(None)] * image.ndim
            index[rows], index[columns] = REGION
            part = prepared.denoise(REGION, **settings)
            np.testing.assert_array_equal(part, expected[tuple(index)])
    again = nlridge.denoise(image, method="fast", workers=1, **options)
    np.testing.assert_array_equal(prepared.denoise(workers=2), again)


@pytest.mark.parametrize("kind", KINDS)
def test_details_are_those_of_denoise_with_details(kind):
    image, options = KINDS[kind]
    expected = nlridge.denoise_with_details(image, method="fast", strength=1.3, **options)
    details = nlridge.prepare(image, **options).details(method="fast", strength=1.3)
    assert str(details) == str(expected)
    assert details.axes == expected.axes
    for name in ("image", "pilot", "residual"):
        array = getattr(details, name)
        assert array.shape == image.shape
        np.testing.assert_array_equal(array, getattr(expected, name))
    whole = nlridge.denoise(image, method="fast", strength=1.3, **options)
    np.testing.assert_array_equal(details.image, whole)


# Measured once.


def counted(monkeypatch, module=measured):
    """A list that grows by one whenever an image is measured."""
    calls = []

    def count(*arguments):
        calls.append(arguments)
        return facts.facts_of(*arguments)

    monkeypatch.setattr(module, "facts_of", count)
    return calls


@pytest.mark.parametrize("options", [{}, {"noise": "gaussian"}, {"sigma": 20}])
def test_an_image_is_measured_once(options, monkeypatch):
    calls = counted(monkeypatch)
    prepared = nlridge.prepare(GRAY, method="fast", **options)
    assert len(calls) == 1
    for method, strength in (("fast", 1.0), ("bm3d", 0.5), ("fast", 0.5)):
        prepared.denoise(REGION, method=method, strength=strength)
        prepared.denoise(method=method, strength=strength)
    prepared.details(method="fast")
    assert prepared.noise_given == ("sigma" in options)
    assert prepared.recipe == prepared.details().recipe
    assert len(calls) == 1


def test_images_of_a_stack_are_measured_when_they_are_needed(monkeypatch):
    calls = counted(monkeypatch)
    prepared = nlridge.prepare(STACK, stack_axis=0, method="fast")
    assert not calls
    assert "Gaussian" in str(prepared.noise)
    assert len(calls) == 1
    prepared.denoise()
    prepared.denoise(REGION, method="bm3d")
    assert len(calls) == 3


def test_an_array_on_disk_is_measured_once_for_many_regions(monkeypatch, tmp_path):
    from nlridge.api import unread

    calls = []

    def planned(*arguments):
        calls.append(arguments)
        return frames.plan_frame(*arguments)

    monkeypatch.setattr(unread, "plan_frame", planned)
    np.save(tmp_path / "stack.npy", STACK)
    mapped = np.load(tmp_path / "stack.npy", mmap_mode="r")
    prepared = nlridge.prepare(mapped, 20, stack_axis=0, method="fast")
    for _ in range(2):
        part = prepared.denoise(REGION)
    assert len(calls) == len(STACK)
    whole = nlridge.denoise(STACK, 20, stack_axis=0, method="fast")
    np.testing.assert_array_equal(part, whole[:, *REGION])
    prepared.denoise(REGION, strength=0.5)
    assert len(calls) == 2 * len(STACK)


def test_a_video_is_planned_once_for_each_method(monkeypatch):
    from nlridge.planning import sequences

    calls = counted(monkeypatch, sequences)
    prepared = nlridge.prepare(STACK, sigma=20, time_axis=0, method="fast")
    before = len(calls)
    assert before
    prepared.denoise()
    prepared.details(frame=1)
    assert str(prepared.noise) == "Gaussian noise with a standard deviation of 20"
    assert len(calls) == before


def test_first_steps_are_kept_for_other_strengths(monkeypatch):
    first_steps = []

    def run_pass(inputs, step, *others, **how):
        first_steps.extend([step] * (not step.is_second))
        return cpu.run_pass(inputs, step, *others, **how)

    monkeypatch.setattr(reuse, "run_pass", run_pass)
    prepared = nlridge.prepare(GRAY, 20)
    assert prepared.nbytes == 0
    prepared.denoise()
    assert prepared.nbytes >= GRAY.nbytes
    before = len(first_steps)
    assert before
    prepared.denoise(strength=2)
    assert len(first_steps) == before


# Frames.


@pytest.mark.parametrize("frame", [0, 1, -1, np.int64(2)])
def test_one_frame_of_a_video(frame):
    prepared = nlridge.prepare(STACK, 20, time_axis=0, method="fast")
    whole = prepared.details()
    np.testing.assert_array_equal(prepared.denoise(frame=frame), whole.image[frame])
    details = prepared.details(frame=frame)
    assert details.axes == "YX"
    for name in ("image", "pilot", "residual"):
        np.testing.assert_array_equal(getattr(details, name), getattr(whole, name)[frame])


def test_one_frame_of_each_video_of_a_stack():
    videos = np.stack([STACK, STACK[::-1]], axis=1)  # (time, stack, height, width)
    prepared = nlridge.prepare(videos, 20, time_axis=0, stack_axis=1, method="fast")
    whole = prepared.denoise()
    np.testing.assert_array_equal(prepared.denoise(frame=2), whole[2])
    details = prepared.details(frame=2)
    assert details.axes == "TYX"
    np.testing.assert_array_equal(details.image, whole[2])


def test_one_frame_of_a_burst_of_raw_images():
    prepared = nlridge.prepare_mosaic(STACK, "RGGB", 20, time_axis=0, method="fast")
    details = prepared.details(frame=1)
    np.testing.assert_array_equal(details.image, prepared.denoise()[1])
    np.testing.assert_array_equal(prepared.denoise(frame=1), details.image)
    assert details.axes == "YX"
    assert prepared.axes == "TYX"


# Details and the quality of stacks.


def test_details_of_a_stack_are_those_of_its_images():
    details = nlridge.denoise_with_details(STACK, stack_axis=0, method="fast")
    alone = [nlridge.denoise_with_details(image, method="fast") for image in STACK]
    np.testing.assert_array_equal(details.image, [one.image for one in alone])
    np.testing.assert_array_equal(details.pilot, [one.pilot for one in alone])
    np.testing.assert_array_equal(details.residual, [one.residual for one in alone])
    assert details.axes == "TYX"
    for name in ("level", "removed"):
        expected = np.sqrt(np.mean([getattr(one, name) ** 2 for one in alone]))
        assert getattr(details, name) == pytest.approx(expected)
    assert details.defects == sum(one.defects for one in alone)
    assert details.noise == alone[0].noise


def test_details_of_a_stack_with_an_image_that_is_missing():
    stack = STACK.copy()
    stack[0] = np.nan
    details = nlridge.denoise_with_details(stack, 20, stack_axis=0, method="fast")
    assert np.isnan(details.image[0]).all()
    assert not details.residual[0].any()
    assert details.level == pytest.approx(20)
    assert details.removed > 15
    assert not details.unchanged
    nothing = nlridge.denoise_with_details(np.full((2, 9, 9), np.nan), stack_axis=0)
    assert (nothing.level, nothing.removed) == (0, 0)


def test_a_stack_of_which_only_some_images_are_noisy_was_changed():
    stack = np.stack([np.full(GRAY.shape, 7.0), GRAY])
    details = nlridge.denoise_with_details(stack, stack_axis=0, method="fast")
    assert details.removed > 10
    assert not details.unchanged


def test_the_quality_of_a_stack_is_that_of_all_images():
    prepared = nlridge.prepare(STACK, 20, stack_axis=0, method="fast")
    quality = prepared.quality(peak=255)
    alone = [nlridge.estimate_quality(image, 20, method="fast", peak=255) for image in STACK]
    mean = np.mean([10 ** (-one.psnr / 10) for one in alone])
    assert quality.psnr == pytest.approx(-10 * np.log10(mean))
    assert 0 < quality.standard_error < max(one.standard_error for one in alone)
    assert quality.denoised.image.shape == STACK.shape
    assert not quality.doubt
    assert quality.psnr == nlridge.estimate_quality(STACK, 20, stack_axis=0, method="fast", peak=255).psnr  # fmt: skip


def test_the_quality_of_identical_images_is_that_of_one():
    image = texture(60, 72) + RNG.normal(0, 20, (60, 72))
    for options in ({}, {"sigma": LEVELS}):
        twice = nlridge.estimate_quality(np.stack([image] * 2), stack_axis=0, method="fast", **options)  # fmt: skip
        once = nlridge.estimate_quality(image, method="fast", **options)
        assert twice.psnr == pytest.approx(once.psnr)
        assert twice.noisy_psnr == pytest.approx(once.noisy_psnr)
        assert twice.standard_error == pytest.approx(once.standard_error / np.sqrt(2))


def test_the_quality_with_another_method_and_strength():
    prepared, seen = nlridge.prepare(GRAY), []
    quality = prepared.quality(probes=2, method="fast", strength=0.8, progress=lambda *ends: seen.append(ends))  # fmt: skip
    expected = nlridge.estimate_quality(GRAY, method="fast", strength=0.8, probes=2)
    assert quality.psnr == expected.psnr
    assert seen[-1] == (300, 300)  # one run and two probes, in per cent
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


# Other kinds of arrays.


def test_tensors_are_treated_as_arrays():
    torch = pytest.importorskip("torch")
    prepared = nlridge.prepare(torch.tensor(GRAY), method="fast")
    expected = nlridge.denoise_with_details(GRAY, method="fast")
    for result in (prepared.denoise(), prepared.details().image, prepared.quality().denoised.image):
        assert isinstance(result, torch.Tensor)
        np.testing.assert_array_equal(result.numpy(), expected.image)
    assert prepared.denoise(dtype=torch.uint8).dtype == torch.uint8
    assert prepared.noise == expected.noise


def test_tensors_that_need_a_gradient():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(GRAY, requires_grad=True)
    prepared = nlridge.prepare(tensor, 20, method="fast")
    assert torch.equal(prepared.denoise(), nlridge.denoise(tensor, 20, method="fast"))
    assert prepared.axes == "YX"
    part = prepared.denoise(np.s_[5:20, 10:30])
    assert part.requires_grad
    assert torch.equal(part, prepared.denoise()[5:20, 10:30])
    assert prepared.noise == nlridge.GaussianNoise(20)
    details = prepared.details()
    torch.testing.assert_close(details.image, prepared.denoise().detach(), atol=0.05, rtol=0)
    assert prepared.quality().gain > 5
    with pytest.raises(ValueError, match="workers is 2; expected None for a tensor that needs"):
        nlridge.prepare(tensor, 20, workers=2)


def test_dask_arrays_stay_lazy():
    da = pytest.importorskip("dask.array")
    prepared = nlridge.prepare(da.from_array(GRAY), 20, data_range=255, tile=64)
    assert prepared.noise_given
    assert prepared.axes == "YX"
    for settings in ({"method": "fast"}, {"method": "fast", "strength": 2}):
        lazy = prepared.denoise(**settings)
        expected = nlridge.denoise(GRAY, 20, data_range=255, **settings)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)
    for use in (lambda: prepared.noise, prepared.details, prepared.quality):
        with pytest.raises(TypeError, match=r"^image is a Dask array; expected an array in mem[^\n]+$"):  # fmt: skip
            use()
    with pytest.raises(ValueError, match="progress is True; expected False for a Dask array"):
        prepared.denoise(progress=True)


def test_frames_of_dask_arrays():
    da = pytest.importorskip("dask.array")
    prepared = nlridge.prepare(da.from_array(STACK), 20, time_axis=0, method="fast")
    expected = nlridge.denoise(STACK, 20, time_axis=0, method="fast")
    frame = prepared.denoise(frame=1).compute(scheduler="synchronous")
    np.testing.assert_array_equal(frame, expected[1])
    region = prepared.denoise(REGION).compute(scheduler="synchronous")
    np.testing.assert_array_equal(region, expected[:, *REGION])


def test_memory_maps(tmp_path):
    np.save(tmp_path / "image.npy", GRAY)
    image = np.load(tmp_path / "image.npy", mmap_mode="r")
    prepared = nlridge.prepare(image, 20, method="fast")
    whole = nlridge.denoise(GRAY, 20, method="fast")
    np.testing.assert_array_equal(prepared.denoise(), whole)
    np.testing.assert_array_equal(prepared.denoise(REGION), whole[REGION])
    np.testing.assert_array_equal(nlridge.denoise(image, 20, method="fast"), whole)
    with pytest.raises(TypeError, match=r"^image is not in memory; expected an array in memory to"):
        prepared.details()
    assert nlridge.denoise_with_details(image, 20, method="fast").image.shape == image.shape


# Raw images.


def test_raw_images_with_other_settings():
    prepared = nlridge.prepare_mosaic(GRAY, "RGGB", 20, method="fast")
    for settings in ({}, {"method": "standard"}, {"method": "fast", "strength": 0.5}, {"strength": 0}):  # fmt: skip
        expected = nlridge.denoise_mosaic(GRAY, "RGGB", 20, **{"method": "fast", **settings})
        np.testing.assert_array_equal(prepared.denoise(**settings), expected)
        np.testing.assert_array_equal(prepared.details(**settings).image, expected)
    assert prepared.noise_given
    assert str(prepared.noise) == "Gaussian noise with a standard deviation of 20"


def test_what_raw_images_do_not_have():
    prepared = nlridge.prepare_mosaic(GRAY, "RGGB", 20)
    with pytest.raises(ValueError, match=r"region is .*; expected None for a mosaic"):
        prepared.denoise(REGION)
    with pytest.raises(TypeError, match=r"^image is a mosaic; expected another image to [^\n]+$"):
        prepared.quality()


# What is refused.


@pytest.mark.parametrize(
    ("options", "call", "error", "message"),
    [
        ({}, {"method": "bm4d"}, ValueError, "method is 'bm4d'; expected one of"),
        ({}, {"strength": -1}, ValueError, "strength is -1; expected a positive number"),
        ({}, {"color": 1e25}, ValueError, r"color is 1e\+25; expected a number from 0.01 to 100"),
        ({}, {"workers": 0}, ValueError, "workers is 0; expected at least 1"),
        ({}, {"progress": 5}, TypeError, "progress is 5; expected True, False or a function"),
        ({}, {"dtype": "same"}, TypeError, "dtype is 'same'; expected a type of integers or floats"),
        ({}, {"frame": 1}, ValueError, "frame is 1; expected None without time_axis or depth_axis"),
        ({"time_axis": 0}, {"frame": 3}, ValueError, "frame is 3; expected a number from -3 to 2"),
        ({"time_axis": 0}, {"frame": "a"}, TypeError, "frame is 'a'; expected a whole number"),
        ({}, {"sigma": 3}, TypeError, r"^Prepared\.denoise\(\) got an unexpected keyword argument 'sigma'"),
    ],
)  # fmt: skip
def test_bad_calls(options, call, error, message):
    image = STACK if options else GRAY
    prepared = nlridge.prepare(image, 20, method="fast", **options)
    with pytest.raises(error, match=message) as caught:
        prepared.denoise(**call)
    assert "\n" not in str(caught.value)


def test_one_frame_of_an_image_is_refused():
    with pytest.raises(ValueError, match="frame is 0; expected None without time_axis"):
        nlridge.prepare(GRAY, 20, method="fast").details(frame=0)


def test_the_quality_of_a_video_is_refused():
    with pytest.raises(ValueError, match="time_axis is 0; expected None to estimate the quality"):
        nlridge.prepare(STACK, 20, time_axis=0).quality()


def test_the_image_is_not_modified():
    image = GRAY.copy()
    prepared = nlridge.prepare(image, 20, method="fast")
    prepared.denoise()[...] = 0
    prepared.details().image[...] = 0
    np.testing.assert_array_equal(image, GRAY)
    np.testing.assert_array_equal(prepared.denoise(), nlridge.denoise(GRAY, 20, method="fast"))


def test_denoise_has_the_arguments_of_prepare_and_of_its_method():
    names = {
        function: {*inspect.signature(function).parameters} - {"self"}
        for function in (nlridge.denoise, nlridge.prepare, nlridge.Prepared.denoise)
    }
    together = names[nlridge.prepare] | names[nlridge.Prepared.denoise]
    assert together - names[nlridge.denoise] == {"region", "frame", "spacing", "tile"}
    assert names[nlridge.denoise] <= together

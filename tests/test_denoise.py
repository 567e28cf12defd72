"""What `denoise` takes and returns: dtypes, ranges, and one sentence for each bad argument."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import data

import nlridge
from nlridge import Step, denoise
from nlridge.planning.ranges import typical_ends

NOISY = 100 + np.random.default_rng(0).normal(0, 10, (24, 30))


def test_float16_does_not_overflow():
    image = np.clip(65000 + 3000 * (NOISY - 100) / 10, 0, 65504).astype(np.float16)
    result = denoise(image, 3000)
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, denoise(image.astype(np.float64), 3000), rtol=1e-3)


def test_the_noise_need_not_fit_into_the_dtype():
    """Neither its level, nor the brightness in units of it."""
    bright = np.full((20, 20), 1000, np.float16)
    np.testing.assert_array_equal(denoise(bright, 1e-3, data_range=1), bright)
    faint = (NOISY * 2.0**-130).astype(np.float32)
    result = denoise(faint, 10 * 2.0**-130, data_range=255 * 2.0**-130)
    expected = denoise(NOISY, 10, data_range=255) * 2.0**-130
    np.testing.assert_allclose(result, expected, atol=2.0**-130)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_images_near_the_limit_of_their_type_are_denoised_as_any_other(dtype):
    """Brightness near the limit of the type, or of what is accepted, with noise beyond it."""
    top = min(float(np.finfo(dtype).max), 1e300)
    noise = np.random.default_rng(0).uniform(0.5, 1, (24, 24))
    image = (noise * top).astype(dtype)
    image[:, 12:] = -image[:, 12:]
    unit = 2.0 ** np.frexp(top)[1]
    for sigma in (top / 10, min(2 * top, 9e299), None):
        result = denoise(image, sigma)
        assert np.isfinite(result).all()
        expected = denoise((image / unit).astype(np.float64), sigma and sigma / unit)
        rounding = max(float(np.finfo(dtype).eps), 1e-6)
        np.testing.assert_allclose(result / unit, expected, atol=rounding)
    assert np.std(result[:, :12] / unit) < 0.2 * np.std(image[:, :12] / unit)


def reversed_and_strided(image):
    wide = np.zeros((*(2 * n for n in image.shape),), image.dtype)
    view = wide[tuple(slice(None, None, -2) for _ in image.shape)]
    view[...] = image
    return view


def read_only(image):
    image = image.copy()
    image.flags.writeable = False
    return image


def memory_mapped(image, folder):
    np.save(folder / "image.npy", image)
    return np.load(folder / "image.npy", mmap_mode="r")


LAYOUTS = {
    "plain": lambda image, folder: image,
    "Fortran": lambda image, folder: np.asfortranarray(image),
    "strided": lambda image, folder: reversed_and_strided(image),
    "read-only": lambda image, folder: read_only(image),
    "memory-mapped": memory_mapped,
    "list": lambda image, folder: image.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("channel_axis", [None, 0, 1, -1])
@pytest.mark.parametrize(
    "dtype", ["u1", "u2", ">u2", "u4", "i2", "i4", ">i4", "u8", "f2", "f4", ">f4", "f8", ">f8"]
)
def test_any_dtype_and_layout_with_and_without_channels(dtype, channel_axis, layout, tmp_path):
    clean = np.linspace(60, 180, 20 * 22).reshape(20, 22)
    if channel_axis is not None:
        clean = np.stack([clean, clean.T.reshape(20, 22), 255 - clean], axis=channel_axis)
    noisy = clean + np.random.default_rng(0).normal(0, 10, clean.shape)
    dtype = np.dtype(dtype)
    image = (noisy if dtype.kind == "f" else np.rint(noisy)).astype(dtype)
    before = image.copy()
    options = {"channel_axis": channel_axis, "data_range": 255, "method": "fast"}
    result = denoise(LAYOUTS[layout](image, tmp_path), 10, **options)
    expected = denoise(image.astype(np.float64), 10, **options)
    assert result.shape == image.shape
    if layout != "list":  # which has no dtype
        assert result.dtype == (dtype.newbyteorder("=") if dtype.kind == "f" else np.float32)
    np.testing.assert_array_equal(image, before)
    precision = np.finfo(result.dtype).eps
    np.testing.assert_allclose(result, expected, rtol=precision, atol=1e-4)


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros(5), ValueError, r"image has shape \(5,\); expected two dimensions"),
        (np.zeros((4, 5, 3)), ValueError, r"image has shape \(4, 5, 3\); expected two dimensions; pass channel_axis for a colour image, time_axis for a video, depth_axis for a volume, or stack_axis"),
        (np.zeros((0, 5)), ValueError, r"image has shape \(0, 5\); expected at least one pixel"),
        (np.zeros((5, 5), complex), TypeError, "image has dtype complex128; expected integers or floats"),
        (np.zeros((5, 5), object), TypeError, "image has dtype object; expected integers or floats"),
        (np.zeros((5, 5), bool), TypeError, "image has dtype bool; expected integers or floats"),
        ("photo.png", TypeError, "image has dtype <U9; expected integers or floats"),
        (np.full((5, 5), np.nan), ValueError, "image has no valid pixels; expected at least one"),
        (np.array([[1, np.inf]]), ValueError, "image has 1 infinite pixels; expected finite values, or NaN for missing pixels"),
        (np.full((5, 5), 1e301), ValueError, r"image has values up to 1e\+301; expected none larger than 1e\+300"),
        (np.full((5, 5), 1e14), ValueError, "sigma is 10; expected at least 1e-12 of the image's largest"),
    ],
)  # fmt: skip
def test_bad_images(image, error, message):
    with pytest.raises(error, match=message):
        denoise(image, 10)


@pytest.mark.parametrize(
    ("sigma", "error", "message"),
    [
        (0, ValueError, "sigma is 0; expected a positive number"),
        (-1.5, ValueError, "sigma is -1.5; expected a positive number"),
        (np.nan, ValueError, "sigma is nan; expected a positive number"),
        (np.inf, ValueError, "sigma is inf; expected a positive number"),
        ([10, 10], ValueError, "sigma has 2 numbers; expected one, or one for each channel, and channel_axis"),
        (NOISY[1:], ValueError, r"sigma has shape \(23, 30\); expected a number, one for each channel, or \(24, 30\)"),
        (NOISY - 100, ValueError, r"sigma is negative in \d+ pixels; expected 0 or more"),
        (np.where(NOISY > 120, np.nan, 1.0), ValueError, r"sigma is not finite in \d+ pixels that are not missing"),
        (np.zeros((24, 30)), ValueError, r"sigma has shape \(24, 30\) and no positive value; expected at least one"),
        ([], ValueError, r"sigma has shape \(0,\) and no positive value"),
        ([[1, 2], [3]], TypeError, r"sigma is \[\[1, 2\], \[3\]\]; expected a number or an array of numbers"),
        (["1", "2"], TypeError, "sigma has dtype <U1; expected numbers"),
        ("10", TypeError, "sigma is '10'; expected a positive number"),
        (NOISY * 1j, TypeError, "sigma has dtype complex128; expected numbers"),
        ("ten", TypeError, "sigma is 'ten'; expected a positive number"),
        (10**400, ValueError, r"sigma is 10{75} \.\.\.; expected a positive number between 1e-300 and 1e\+300$"),
        (1e-301, ValueError, r"sigma is 1e-301; expected a positive number between 1e-300 and 1e\+300"),
        (-np.ones(50), ValueError, r"sigma has shape \(50,\) and no positive value"),
        (np.linspace(-1, 1, 50), ValueError, r"^sigma is array\(\[-1\. , [^\n]* \.\.\.; expected non-negative numbers below 1e300$"),
    ],
)  # fmt: skip
def test_bad_sigma(sigma, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, sigma)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "bm4d"}, ValueError, "method is 'bm4d'; expected one of 'fast', 'standard', 'best', 'nl-ridge', 'nl-bayes', 'bm3d', or a Recipe"),
        ({"method": 3}, TypeError, "method is 3; expected the name of a method, or a Recipe"),
        ({"data_range": 0}, ValueError, "data_range is 0; expected a positive number"),
        ({"strength": -1}, ValueError, "strength is -1; expected a positive number"),
        ({"strength": 10**400}, ValueError, r"strength is 10{75} \.\.\.; expected a positive number between"),
        ({"strength": 10**5000}, ValueError, "strength is of type int; expected a positive number between"),
        ({"tile": 10**5000 * -1, "out": "a.zarr"}, ValueError, "tile is of type int; expected at least 64"),
        ({"strength": 1e25}, ValueError, r"strength is 1e\+25; expected a number from 0.01 to 100"),
        ({"mask": [[True], [True, False]]}, TypeError, "mask has dtype object; expected bool"),
        ({"noise": nlridge.GaussianNoise(3)}, ValueError, "sigma is given and noise is .*; expected at most one of them"),
        ({"mask": np.zeros((24, 30))}, TypeError, "mask has dtype float64; expected bool, True for missing pixels"),
        ({"mask": np.zeros((2, 3), bool)}, ValueError, r"mask has shape \(2, 3\); expected \(24, 30\)"),
        ({"stack_axis": 0}, ValueError, r"image has shape \(24, 30\); expected three dimensions for an image with stack_axis"),
        ({"workers": 0}, ValueError, "workers is 0; expected at least 1"),
        ({"workers": 1.5}, TypeError, "workers is 1.5; expected a whole number or None"),
        ({"progress": "yes"}, TypeError, "progress is 'yes'; expected True, False or a function"),
    ],
)  # fmt: skip
def test_bad_options(arguments, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, 10, **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"patch_size": 0}, ValueError, "patch_size is 0; expected a number from 1 to 64"),
        ({"patch_size": 65}, ValueError, "patch_size is 65; expected a number from 1 to 64"),
        ({"patch_size": 7.5}, TypeError, "patch_size is 7.5; expected a whole number"),
        (
            {"group_size": 0},
            ValueError,
            r"group_size is 0; expected a number from 1 to 2025 \(all patches",
        ),
        ({"group_size": 2026}, ValueError, "group_size is 2026; expected a number from 1 to 2025"),
        ({"stride": 8}, ValueError, r"stride is 8; expected a number from 1 to 7 \(patch_size\)"),
        ({"window": 44}, ValueError, "window is 44; expected an odd number"),
        ({"window": 257}, ValueError, "window is 257; expected a number from 1 to 255"),
    ],
)
def test_bad_settings(changes, error, message):
    with pytest.raises(error, match=message):
        Step(**{"patch_size": 7, "group_size": 18, **changes})


def test_recipes_have_the_settings_of_table_1():
    expected = {
        5: (7, 18, 7, 55), 15: (7, 18, 7, 55), 15.1: (9, 18, 9, 90),
        35: (9, 18, 9, 90), 36: (11, 20, 9, 120), 50: (11, 20, 9, 120), 90: (11, 20, 9, 120),
    }  # fmt: skip
    for sigma, sizes in expected.items():
        for data_range in (255, 1, 65535):
            row = nlridge.recipe("nl-ridge", sigma * data_range / 255, data_range)
            chosen = (
                row.first.patch_size,
                row.first.group_size,
                row.second.patch_size,
                row.second.group_size,
            )
            assert chosen == sizes
            assert {row.first.window, row.second.window} == {45}
            assert {row.first.stride, row.second.stride} == {4}


def test_the_typical_range_is_not_that_of_the_noise():
    clean = np.tile(np.linspace(0, 1000, 256), (256, 1))
    noisy = clean + np.random.default_rng(0).normal(0, 500, clean.shape)
    noisy[3, 4] = 1e6  # a hot pixel
    assert np.diff(typical_ends(clean)) == pytest.approx(1000, rel=0.05)
    assert np.diff(typical_ends(noisy)) == pytest.approx(1000, rel=0.3)
    assert np.diff(typical_ends(np.zeros((3, 3), np.uint8))) == 255
    assert np.diff(typical_ends(np.array([[1.0, 3.0, 8.0]]))) == pytest.approx(7, rel=0.01)


def test_the_row_is_chosen_by_the_range_of_the_data():
    unit = NOISY / 255
    np.testing.assert_allclose(
        255 * denoise(unit, 10 / 255, method="nl-ridge", data_range=1.0),
        denoise(NOISY, 10, method="nl-ridge", data_range=255),
        atol=1e-3,
    )
    wide = denoise(NOISY, 10, method="nl-ridge", data_range=60.0)  # as if sigma were 42.5 of 255
    chosen = nlridge.recipe("nl-ridge", 42.5)
    np.testing.assert_array_equal(wide, denoise(NOISY, 10, method=chosen))


@dataclass
class LevelOnly:
    level: object


@dataclass
class Unheard(LevelOnly):
    """A whole noise model, with a level that may be anything."""

    black_level = 0.0
    stabilise = restore = variance = staticmethod(lambda image, *_: image)


@pytest.mark.parametrize(
    ("noise", "error", "message"),
    [
        (10, TypeError, "noise is 10; expected a noise model such as nlridge.GaussianNoise"),
        (nlridge.GaussianNoise(0), ValueError, "expected a positive standard deviation"),
        (nlridge.GaussianNoise, TypeError, "noise is <class .*; expected a noise model such as"),
        (
            LevelOnly(10.0),
            TypeError,
            r"noise is LevelOnly\(level=10.0\); expected a noise model such as",
        ),
        (Unheard("loud"), TypeError, "noise has the level 'loud'; expected numbers"),
        (Unheard(np.inf), ValueError, "noise is Unheard.*; expected finite standard deviations"),
        (
            Unheard([1.0, np.nan]),
            ValueError,
            "noise is Unheard.*; expected finite standard deviations",
        ),
        (
            Unheard(-np.eye(4) + 1e-3),
            ValueError,
            "noise is Unheard.*; expected finite standard deviations",
        ),
    ],
)
def test_bad_noise(noise, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, noise=noise)


def test_what_numpy_refuses_is_refused_in_one_sentence():
    class Device:
        def __array__(self, *args, **kwargs):
            raise RuntimeError("it is on another device")

    with pytest.raises(TypeError, match=r"image is of type Device, .*: it is on another device"):
        denoise(Device(), 10)
    with pytest.raises(TypeError, match="image is of type list, which NumPy cannot convert"):
        denoise([[1, 2], [3]], 10)


def test_what_numpy_accepts_is_accepted():
    class Wrapped:
        def __array__(self, *args, **kwargs):
            return NOISY

    np.testing.assert_array_equal(denoise(Wrapped(), 10), denoise(NOISY, 10))


# The same image in other units.


def truth():
    return data.camera()[40:168, 40:168].astype(np.float64)


def psnr(result, clean):
    return 10 * np.log10(255**2 / np.mean((result - clean) ** 2))


@pytest.mark.parametrize("channel_axis", [None, -1])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("dtype", "scale", "offset"),
    [
        (np.float32, 1 / 255, 0), (np.float64, 1, 0), (np.float64, 4e-15, 0), (np.float32, 1e4, 1e6),
        (np.uint16, 16, 0), (np.uint16, 200, 5000), (np.int32, 1e5, -1e7), (np.float64, 1e12, 0),
    ],
)  # fmt: skip
def test_the_same_quality_in_any_range(dtype, scale, offset, known, channel_axis):
    clean = truth() if channel_axis is None else data.astronaut()[:128, 160:288].astype(float)
    noisy = np.maximum(clean + np.random.default_rng(0).normal(0, 15, clean.shape), 0)
    sigma = 15 if known else None
    expected = psnr(denoise(noisy, sigma, channel_axis=channel_axis), clean)
    image = noisy * scale + offset
    image = np.rint(image).astype(dtype) if np.dtype(dtype).kind in "ui" else image.astype(dtype)
    result = denoise(image, sigma and sigma * scale, channel_axis=channel_axis)
    measured = psnr((result.astype(np.float64) - offset) / scale, clean)
    # Step 1 of NL-Ridge, as published, depends a little on what black is.
    assert measured == pytest.approx(expected, abs=0.02 if offset == 0 else 0.05)


# Unknown noise, strength, details.


def test_an_estimate_of_the_noise_is_nearly_as_good_as_knowing_it():
    clean = truth()
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    assert psnr(denoise(noisy), clean) > psnr(denoise(noisy, 20), clean) - 0.15


def test_an_image_without_noise_is_left_almost_alone():
    clean = truth()
    assert psnr(denoise(clean), clean) > 55


@pytest.mark.filterwarnings("ignore:sigma is .*, which has no effect")
@pytest.mark.parametrize("method", nlridge.method_names())
@pytest.mark.parametrize("sigma", [1, 0.1, 0.03, 0.01, 1e-3, 1e-6])
def test_very_little_noise(method, sigma):
    """However little there is, the image changes by less than that, or not at all."""
    clean = data.camera()[100:200, 100:200].astype(np.float64)
    result = denoise(clean, sigma, method=method, data_range=255)
    assert np.sqrt(np.mean((result - clean) ** 2)) < sigma


@pytest.mark.parametrize("method", nlridge.method_names())
@pytest.mark.parametrize("brightness", [1e4, 1e6, 1e9])
def test_hot_pixels_affect_only_their_neighbourhood(method, brightness):
    clean = truth()
    noisy = clean + np.random.default_rng(0).normal(0, 10, clean.shape)
    noisy[64, 64] = brightness
    result = denoise(noisy, 10, method=method, data_range=255)
    assert np.isfinite(result).all()
    far = np.hypot(*(np.mgrid[:128, :128] - 64)) > 20
    assert psnr(result[far], clean[far]) > 37


def test_more_strength_removes_more():
    noisy = truth() + np.random.default_rng(0).normal(0, 20, (128, 128))
    removed = [
        np.std(noisy - denoise(noisy, 20, strength=s)) for s in (0.1, 0.5, 0.8, 1.0, 1.3, 2.0, 4.0)
    ]
    assert removed == sorted(removed)
    assert removed[0] < 0.03 * removed[3]
    np.testing.assert_array_equal(denoise(noisy, 20, strength=1), denoise(noisy, 20))


@pytest.mark.parametrize("noise", [nlridge.GaussianNoise(10), nlridge.PoissonGaussianNoise(1.0)])
def test_strength_0_leaves_the_image_as_it_is(noise):
    details = nlridge.denoise_with_details(NOISY, noise=noise, strength=0)
    np.testing.assert_array_equal(details.image, NOISY)
    np.testing.assert_array_equal(denoise(NOISY, noise=noise, strength=np.float32(0)), NOISY)
    assert str(details).endswith("removed nothing, since the strength is 0")
    with pytest.raises(TypeError, match="strength is False; expected a positive number"):
        denoise(NOISY, noise=noise, strength=False)


@pytest.mark.parametrize(
    "noise", [None, nlridge.GaussianNoise(10), nlridge.PoissonGaussianNoise(1.0)]
)
def test_details_agree_with_the_result(noise):
    image = NOISY.astype(np.float32)
    details = nlridge.denoise_with_details(image, noise=noise)
    np.testing.assert_array_equal(details.image, denoise(image, noise=noise))
    np.testing.assert_allclose(details.residual, image - details.image, atol=1e-4)
    assert details.pilot.shape == image.shape
    assert np.std(details.image - details.pilot) > 1
    assert details.image.dtype == details.pilot.dtype == details.residual.dtype == np.float32
    assert details.noise == (noise or nlridge.estimate_noise(image))
    np.testing.assert_array_equal(details.image, denoise(image, noise=noise, method=details.recipe))


# Missing pixels.


def test_missing_pixels_are_returned_unchanged_and_have_no_influence():
    noisy = truth() + np.random.default_rng(0).normal(0, 15, (128, 128))
    gone = np.random.default_rng(1).random(noisy.shape) < 0.05
    nan = np.where(gone, np.nan, noisy)
    result = denoise(nan, 15)
    np.testing.assert_array_equal(np.isnan(result), gone)
    for junk in (0.0, 1e6, -1e6):
        spoilt = np.where(gone, junk, noisy)
        masked = denoise(spoilt, 15, mask=gone)
        np.testing.assert_array_equal(masked[~gone], result[~gone])
        np.testing.assert_array_equal(masked[gone], junk)
    np.testing.assert_array_equal(denoise(np.ma.array(noisy, mask=gone), 15)[~gone], result[~gone])


@pytest.mark.parametrize("method", nlridge.method_names())
def test_missing_pixels_cost_little(method):
    clean = truth()
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    gone = np.random.default_rng(1).random(clean.shape) < 0.05
    whole = denoise(noisy, 20, method=method)
    part = denoise(np.where(gone, np.nan, noisy), 20, method=method)
    assert psnr(part[~gone], clean[~gone]) > psnr(whole[~gone], clean[~gone]) - 0.2


@settings(max_examples=25, deadline=None)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    share=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_missing_pixels_of_any_mask_stay_missing(height, width, share, seed):
    rng = np.random.default_rng(seed)
    image = rng.normal(100, 10, (height, width))
    image[rng.random(image.shape) < share] = np.nan
    if np.isnan(image).all():
        with pytest.raises(ValueError, match="image has no valid pixels"):
            denoise(image, 10)
        return
    for sigma in (10, None):
        result = denoise(image, sigma)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(image))


def test_masked_pixels_may_have_any_value():
    image, gone = NOISY.copy(), np.zeros(NOISY.shape, bool)
    gone[3:5, 4:9] = True
    expected = denoise(image, 10, mask=gone)[~gone]
    for junk in (np.inf, -np.inf, np.nan, 1e300, -1e300):
        image[gone] = junk
        details = nlridge.denoise_with_details(image, 10, mask=gone)
        np.testing.assert_array_equal(details.image[~gone], expected)
        np.testing.assert_array_equal(details.image[gone], image[gone])
        assert not details.residual[gone].any()


def test_holes_do_not_spread():
    clean = truth()
    noisy = clean + np.random.default_rng(0).normal(0, 15, clean.shape)
    noisy[40:80, 30:90] = np.nan
    there = np.isfinite(noisy)
    result = denoise(noisy)
    assert psnr(result[there], clean[there]) > 39


# Stacks.


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_stack_is_denoised_image_by_image(axis):
    rng = np.random.default_rng(0)
    frames = [(NOISY + rng.normal(0, s, NOISY.shape)).astype(np.float32) for s in (1, 10, 30)]
    frames[2][3, 4] = np.nan
    stack = np.stack(frames, axis=axis)
    for options in ({}, {"sigma": 10}):
        result = denoise(stack, stack_axis=axis, **options)
        assert result.shape == stack.shape
        assert result.dtype == np.float32
        for frame, clean in zip(frames, np.moveaxis(result, axis, 0), strict=True):
            np.testing.assert_array_equal(clean, denoise(frame, **options))


def test_a_stack_with_masks_and_an_empty_frame():
    stack = np.stack([NOISY, NOISY, np.full_like(NOISY, np.nan)])
    mask = np.zeros(NOISY.shape, bool)
    mask[5:8, 5:8] = True
    result = denoise(stack, 10, stack_axis=0, mask=mask)
    np.testing.assert_array_equal(result[0], denoise(NOISY, 10, mask=mask))
    assert np.isnan(result[2]).all()
    lying = np.ma.array(np.moveaxis(stack, 0, 2), mask=False)
    np.testing.assert_array_equal(denoise(lying, 10, stack_axis=2, mask=mask)[..., 0], result[0])
    one = np.zeros(stack.shape, bool)
    one[1] = mask
    np.testing.assert_array_equal(denoise(stack, 10, stack_axis=0, mask=one)[0], denoise(NOISY, 10))


def test_a_bad_frame_is_found_before_the_first_is_denoised():
    stack = np.stack([NOISY] * 3)
    stack[2, 3, 4] = np.inf
    seen = []
    with pytest.raises(ValueError, match="image has 1 infinite pixels"):
        denoise(stack, 10, stack_axis=0, progress=lambda *done: seen.append(done))
    sigma = np.full(stack.shape, 10.0)
    sigma[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="sigma is not finite in 1 pixels"):
        denoise(np.stack([NOISY] * 3), sigma, stack_axis=0, progress=lambda *d: seen.append(d))
    assert seen == []


def test_progress_of_a_stack_is_one_count():
    seen = []
    denoise(np.stack([NOISY] * 3), 10, stack_axis=0, progress=lambda *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("sigma", [10, None])
def test_frames_that_are_denoised_at_the_same_time_are_as_alone(workers, sigma):
    stack = np.stack([(1 + 0.1 * k) * NOISY for k in range(4)])
    seen = []
    result = denoise(
        stack, sigma, stack_axis=0, workers=workers, progress=lambda *done: seen.append(done)
    )
    for frame, denoised in zip(stack, result, strict=True):
        np.testing.assert_array_equal(denoised, denoise(frame, sigma))
    assert seen == [(k + 1, 4) for k in range(4)]


def test_a_stack_can_be_interrupted():
    def interrupt(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        denoise(np.stack([NOISY] * 9), 10, stack_axis=0, workers=2, progress=interrupt)


def test_a_stack_must_be_declared():
    with pytest.raises(
        ValueError,
        match="pass channel_axis for a colour image, time_axis for a video, depth_axis for a volume, "
        "or stack_axis for a stack of images",
    ):
        denoise(np.zeros((3, 20, 20)), 10)
    for axis, error in ((3, ValueError), (-4, ValueError), (0.5, TypeError)):
        with pytest.raises(error, match=f"stack_axis is {axis}; expected a"):
            denoise(np.zeros((3, 20, 20)), 10, stack_axis=axis)

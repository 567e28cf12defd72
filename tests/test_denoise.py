"""What goes into `denoise` and what comes out: dtypes, ranges, and one sentence for each bad input."""

import numpy as np
import pytest

import nlridge
from nlridge import Step, denoise
from nlridge.denoising import typical_range

NOISY = 100 + np.random.default_rng(0).normal(0, 10, (24, 30))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", ">f8"])
def test_floats_keep_their_width(dtype):
    image = NOISY.astype(dtype)
    result = denoise(image, 10, data_range=255)
    assert result.dtype == np.dtype(dtype).newbyteorder("=")
    expected = denoise(image.astype(np.float64), 10, data_range=255)
    np.testing.assert_allclose(result, expected, rtol=np.finfo(dtype).eps, atol=1e-5)


def test_extremes_of_a_width():
    """Neither the noise level nor the brightness in units of it needs to fit into the dtype."""
    bright = np.full((20, 20), 1000, np.float16)
    np.testing.assert_array_equal(denoise(bright, 1e-3, data_range=1), bright)
    faint = (NOISY * 2.0**-130).astype(np.float32)
    result = denoise(faint, 10 * 2.0**-130, data_range=255 * 2.0**-130)
    expected = denoise(NOISY, 10, data_range=255) * 2.0**-130
    np.testing.assert_allclose(result, expected, atol=2.0**-130)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int32, np.uint64, ">u2"])
def test_integers_become_float32(dtype):
    image = np.rint(NOISY).astype(dtype)
    result = denoise(image, 10, data_range=255)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, denoise(image.astype(float), 10, data_range=255), atol=1e-3)


@pytest.mark.parametrize(
    "view", [np.asfortranarray, lambda a: a[::-1, ::2], lambda a: a.T, lambda a: a.tolist()]
)
def test_any_layout(view):
    plain = np.array(view(NOISY))
    np.testing.assert_array_equal(
        denoise(view(NOISY), 10, data_range=255), denoise(plain, 10, data_range=255)
    )


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros(5), ValueError, r"image has shape \(5,\); expected two dimensions"),
        (np.zeros((4, 5, 3)), ValueError, r"image has shape \(4, 5, 3\); expected two dimensions"),
        (np.zeros((0, 5)), ValueError, r"image has shape \(0, 5\); expected at least one pixel"),
        (np.zeros((5, 5), complex), TypeError, "image has dtype complex128; expected integers or floats"),
        (np.zeros((5, 5), object), TypeError, "image has dtype object; expected integers or floats"),
        (np.zeros((5, 5), bool), TypeError, "image has dtype bool; expected integers or floats"),
        ("photo.png", TypeError, "image has dtype <U9; expected integers or floats"),
        (np.full((5, 5), np.nan), ValueError, "image has 25 pixels that are NaN or infinite; expected none"),
        (np.array([[1, np.inf]]), ValueError, "image has 1 pixels that are NaN or infinite"),
        (np.full((5, 5), 1e14), ValueError, "sigma is 10.0; expected at least 1e-12 of the image's largest"),
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
        ([10, 10], ValueError, r"sigma has shape \(2,\); expected a single positive number"),
        (NOISY, ValueError, r"sigma has shape \(24, 30\); expected a single positive number"),
        ("ten", TypeError, "sigma is 'ten'; expected a positive number"),
        (None, TypeError, "sigma is None; expected a positive number"),
    ],
)
def test_bad_sigma(sigma, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, sigma)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "bm4d"}, ValueError, "method is 'bm4d'; expected one of 'fast', 'standard', 'nl-ridge', 'nl-bayes', 'bm3d', or a Recipe"),
        ({"method": 3}, TypeError, "method is 3; expected the name of a recipe, or a Recipe"),
        ({"data_range": 0}, ValueError, "data_range is 0; expected a positive number"),
        ({"workers": 0}, ValueError, "workers is 0; expected at least 1"),
        ({"workers": 1.5}, TypeError, "workers is 1.5; expected a whole number or None"),
        ({"progress": "yes"}, TypeError, "progress is 'yes'; expected True, False or a function"),
    ],
)  # fmt: skip
def test_bad_options(arguments, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, 10, **arguments)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
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
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        Step(**{"patch_size": 7, "group_size": 18, **settings})


def test_table_1():
    expected = {
        5: (7, 18, 7, 55), 15: (7, 18, 7, 55), 15.1: (9, 18, 9, 90),
        35: (9, 18, 9, 90), 36: (11, 20, 9, 120), 50: (11, 20, 9, 120), 90: (11, 20, 9, 120),
    }  # fmt: skip
    for sigma, sizes in expected.items():
        for data_range in (255, 1, 65535):
            row = nlridge.recipe("nl-ridge", sigma * data_range / 255, data_range)
            found = (
                row.first.patch_size,
                row.first.group_size,
                row.second.patch_size,
                row.second.group_size,
            )
            assert found == sizes
            assert {row.first.window, row.second.window} == {45}
            assert {row.first.stride, row.second.stride} == {4}


def test_the_typical_range_is_not_that_of_the_noise():
    clean = np.tile(np.linspace(0, 1000, 256), (256, 1))
    noisy = clean + np.random.default_rng(0).normal(0, 500, clean.shape)
    noisy[3, 4] = 1e6  # a hot pixel
    assert typical_range(clean) == pytest.approx(1000, rel=0.05)
    assert typical_range(noisy) == pytest.approx(1000, rel=0.35)
    assert typical_range(np.zeros((3, 3), np.uint8)) == 255
    assert typical_range(np.array([[1.0, 3.0, 8.0]])) == pytest.approx(7, rel=0.01)


def test_the_row_is_chosen_by_the_range_of_the_data():
    unit = NOISY / 255
    np.testing.assert_allclose(
        255 * denoise(unit, 10 / 255, method="nl-ridge", data_range=1.0),
        denoise(NOISY, 10, method="nl-ridge", data_range=255),
        atol=0.02,
    )
    wide = denoise(NOISY, 10, method="nl-ridge", data_range=60.0)  # as if sigma were 42.5 of 255
    chosen = nlridge.recipe("nl-ridge", 42.5)
    np.testing.assert_array_equal(wide, denoise(NOISY, 10, method=chosen))

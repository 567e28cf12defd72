"""What `denoise` returns: the same quality in any dtype, layout and range, with noise known or unknown."""

import numpy as np
import pytest
from images import NOISY, psnr, truth
from skimage import data

import nlridge
from nlridge import denoise
from nlridge.planning.facts import Tally
from nlridge.planning.options import Options

# Dtypes and layouts.


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
        limit = np.finfo(dtype).max / unit
        np.testing.assert_allclose(result / unit, expected.clip(-limit, limit), atol=rounding)
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


def test_what_numpy_accepts_is_accepted():
    class Wrapped:
        def __array__(self, *args, **kwargs):
            return NOISY

    np.testing.assert_array_equal(denoise(Wrapped(), 10), denoise(NOISY, 10))


# The same image in other units.


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

    def typical_ends(image):
        tally = Tally((1, *image.shape), image.dtype, nlridge.GaussianNoise(1.0), Options())
        tally.add(0, image[None], None, None)
        return tally.facts(np.ones(1)).ends

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

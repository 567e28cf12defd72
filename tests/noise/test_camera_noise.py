"""Noise whose level is a curve of the signal, and estimates of correlated noise."""

import io
import pickle

import numpy as np
import pytest
from PIL import Image
from skimage import data

import nlridge
from nlridge.noise import Noise
from nlridge.noise.calm import Measured, in_most_areas, measured_in
from nlridge.noise.camera import correlated_noise_of
from nlridge.noise.curve import CurveNoise
from nlridge.planning.channels import OPPONENT

CURVE = CurveNoise([0, 40, 120, 255], [2, 5, 4, 1.5])

# Of images without noise, the level to try is far too small.
pytestmark = pytest.mark.filterwarnings("ignore:sigma is 1, which has no effect")


def test_curve_follows_the_protocol_and_is_a_value():
    assert isinstance(CURVE, Noise)
    assert CurveNoise((0.0, 40.0, 120.0, 255.0), np.array([2, 5, 4, 1.5])) == CURVE
    assert hash(CURVE) == hash(pickle.loads(pickle.dumps(CURVE)))
    assert pickle.loads(pickle.dumps(CURVE)) == CURVE != CurveNoise([0], [2])
    assert str(CURVE) == (
        "noise of a camera with a standard deviation of 1.5 to 5, depending on the brightness"
    )
    assert str(CurveNoise([7], [2.5])) == "noise of a camera with a standard deviation of 2.5"
    assert CurveNoise([7], [2.5], [1, 2]) == CurveNoise([7], [2.5], np.array([1.0, 2.0]))
    assert " of 2.5 to 5," in str(CurveNoise([7], [2.5], [1, 2]))


def test_curve_is_stabilised_by_the_integral_of_its_inverse():
    v = np.linspace(-100, 400, 100_001)
    stable = CURVE.stabilise(v)
    middle = (v[1:] + v[:-1]) / 2
    np.testing.assert_allclose(np.diff(stable) / np.diff(v), 1 / CURVE.sigma_at(middle), rtol=1e-4)
    np.testing.assert_allclose(CURVE._inverse(stable), v, atol=1e-9)
    np.testing.assert_allclose(CURVE.variance(v, np.ones(1)), CURVE.sigma_at(v) ** 2)


def test_curve_of_two_equal_sigmas_is_linear():
    flat = CurveNoise([0, 100], [4, 4])
    v = np.array([-50.0, 0, 30, 100, 200])
    np.testing.assert_allclose(np.diff(flat.stabilise(v)), np.diff(v) / 4, rtol=1e-12)


def test_curve_takes_extreme_numbers():
    with np.errstate(all="raise", under="ignore"):
        noise = CurveNoise([1e200, 2e200], [1e190, 3e190])
        v = np.array([-1.7e308, 0, 1e200, 1.5e200, 2e200, 1.7e308])
        stable = noise.stabilise(v)
        assert np.all(np.isfinite(stable))
        assert np.all(np.diff(stable) > 0)
        np.testing.assert_allclose(noise.restore(stable), v, rtol=1e-6)


def test_stabilised_noise_has_a_level_of_one():
    rng = np.random.default_rng(0)
    for value in (20, 40, 90, 200):
        noisy = value + CURVE.sigma_at(np.array(value)) * rng.normal(size=20_000)
        assert 0.95 < CURVE.stabilise(noisy).std() < 1.08


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [1]), r"values is \[\]; expected a sequence of numbers"),
        (([0, 1], "ab"), "sigmas is 'ab'; expected a sequence of numbers"),
        (([0, 1], [1]), "sigmas has 1 numbers; expected 2, as many as values"),
        (([1, 1], [1, 1]), r"values is \[1, 1\]; expected increasing, finite numbers"),
        (([0, np.inf], [1, 1]), r"values is \[0, inf\]; expected increasing, finite numbers"),
        (([0, 1], [1, 0]), r"sigmas is \[1, 0\]; expected positive numbers"),
        (([0, 1], [1, 1], "a"), "level is 'a'; expected a"),
        (
            ([0, 1], [1, 1], [1, -1]),
            r"level is \[1, -1\]; expected a non-negative number, or one for each",
        ),
    ],
)
def test_curve_refuses(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        CurveNoise(*arguments)


def scene(height=256, width=320):
    """Shaded areas with edges, and some texture."""
    y, x = np.mgrid[:height, :width]
    clean = 60 + 0.3 * x + 40 * (np.hypot(y - 120, x - 100) < 60) + 50 * (x + 2 * y > 560)
    return clean + 15 * np.sin(x / 2) * np.cos(y / 3) * ((y > 180) & (x < 160))


def correlated(shape, width, seed=0):
    """Noise of level 1, blurred by a Gaussian."""
    frequencies = [2 * np.pi * np.fft.fftfreq(n) for n in shape]
    response = np.exp(-(width**2) * np.add.outer(frequencies[0] ** 2, frequencies[1] ** 2) / 2)
    white = np.random.default_rng(seed).normal(size=shape)
    noise = np.fft.ifft2(np.fft.fft2(white) * response).real
    return noise / np.sqrt(np.mean(response**2))


def denoise(image, base, correlation):
    """Whiten the planes of a small image by a filter, denoise them as if their noise was white, and undo the filter."""
    matrix = OPPONENT if len(image) == 3 else np.eye(1)
    planes = np.einsum("pc,chw->phw", matrix, base.stabilise(image))
    covariances = np.einsum("pc,cdij,pd->pij", matrix, correlation, matrix)
    shift = np.arange(correlation.shape[-1]) - correlation.shape[-1] // 2
    for plane, covariance in zip(planes, covariances, strict=True):
        padded = np.zeros(plane.shape)
        padded[np.ix_(shift, shift)] = covariance
        power = np.fft.fft2(padded).real
        root = np.sqrt(np.maximum(power, 0.02 * covariance.max()))
        white = np.fft.ifft2(np.fft.fft2(plane) / root).real
        # A trial keeps outliers; after whitening, the edges of the scene look like them.
        result = nlridge.denoise(white, sigma=1.0, method="fast", mask=False)
        plane[:] = np.fft.ifft2(np.fft.fft2(result) * root).real
    return base.restore(np.einsum("pc,phw->chw", matrix, planes))


def estimate(image, excluded=None):
    none = np.zeros(image.shape, bool)
    return correlated_noise_of(image, none if excluded is None else excluded, none, denoise)


def at(correlation, y, x):
    middle = correlation.shape[-1] // 2
    return correlation[..., middle + y, middle + x]


@pytest.mark.parametrize("width", [0.6, 0.8, 1.2])
@pytest.mark.parametrize("sigma", [5, 15])
def test_level_and_correlation_are_estimated(width, sigma):
    noisy = (scene() + sigma * correlated((256, 320), width))[None]
    measured, *_ = measured_in(noisy, *np.zeros((2, *noisy.shape), bool))
    assert 0.9 * sigma < np.median(measured.sigmas) < 1.1 * sigma
    found = estimate(noisy)
    assert found.probability > 0.5
    assert 0.7 * sigma < np.median(found.base.sigmas) < 1.25 * sigma
    assert at(found.correlation, 0, 0) == pytest.approx(1)
    for shift in ((0, 1), (1, 0), (1, 1), (2, 0)):
        expected = np.exp(-(shift[0] ** 2 + shift[1] ** 2) / (4 * width**2))
        assert at(found.correlation, *shift) == pytest.approx(expected, abs=0.08)


@pytest.mark.slow
def test_estimate_is_in_the_units_of_the_image():
    noisy = (scene() + 10 * correlated((256, 320), 0.8))[None]
    found, scaled = estimate(noisy), estimate(noisy / 1000 - 5)
    np.testing.assert_allclose(np.array(scaled.base.sigmas) * 1000, found.base.sigmas, rtol=1e-6)
    np.testing.assert_allclose(scaled.correlation, found.correlation, atol=1e-6)


def test_curve_of_levels_is_estimated():
    y, x = np.mgrid[:320, :320]
    clean = 20 + 0.65 * x + 8 * np.sin(y / 40)
    noisy = clean + 2 * CURVE.sigma_at(clean) * correlated(clean.shape, 0.8)
    found = estimate(noisy[None])
    assert found.probability > 0.5
    values = np.linspace(40, 210, 8)
    ratio = found.base.sigma_at(values) / (2 * CURVE.sigma_at(values))
    assert np.all((ratio > 0.7) & (ratio < 1.4))


def test_brightness_and_colors_differ_in_level_and_correlation():
    gray = scene()
    clean = np.stack([gray, 0.8 * gray + 20, 0.6 * gray + 40])
    planes = [
        level * correlated(gray.shape, width, seed)
        for seed, (level, width) in enumerate([(12, 0.8), (6, 2.0), (6, 2.0)])
    ]
    found = estimate(clean + np.einsum("pc,phw->chw", OPPONENT, planes))
    assert found.probability > 0.5
    of_planes = np.einsum("pc,cdij,pd->pij", OPPONENT, found.correlation, OPPONENT)
    levels = np.median(found.base.sigmas) * np.sqrt(at(of_planes, 0, 0))
    assert 10 < levels[0] < 15
    assert np.all((levels[1:] > 4) & (levels[1:] < 8))
    assert at(of_planes, 0, 1)[0] / at(of_planes, 0, 0)[0] == pytest.approx(0.68, abs=0.1)
    assert np.all(at(of_planes, 0, 1)[1:] / at(of_planes, 0, 0)[1:] > 0.85)


@pytest.mark.parametrize("sigma", [2, 10, 40])
def test_white_noise_is_left_to_the_other_estimate(sigma):
    noise = sigma * np.random.default_rng(1).normal(size=(3, 256, 320))
    assert estimate(scene()[None] + noise[:1]) is None
    assert estimate(scene() + noise) is None


def test_demosaicking_shows_in_the_differences_of_channels():
    """Good demosaicking leaves the noise of the brightness nearly white, but interpolates that of the colors."""
    shape = 256, 320
    sharp = correlated(shape, 0.45)
    colors = [8 * correlated(shape, 1.2, seed) for seed in (1, 2, 3)]
    noisy = scene() + 12 * sharp + np.stack(colors)
    found = estimate(noisy)
    assert found.probability > 0.5
    assert np.median(found.base.sigmas) == pytest.approx(np.hypot(12, 8), rel=0.15)
    assert estimate(noisy.mean(axis=0)[None]) is None  # too white to be told from texture


def test_noise_of_dark_images_is_clipped_all_over():
    clean = 16 + 0.02 * scene()
    noisy = np.maximum(clean + 12 * correlated(clean.shape, 0.8), 0)[None]
    clipped = noisy == 0
    assert estimate(noisy, clipped) is None
    found = correlated_noise_of(noisy, clipped, clipped, denoise)
    assert found.probability > 0.5
    assert np.median(found.base.sigmas) == pytest.approx(12, rel=0.2)


@pytest.mark.slow
def test_images_without_noise_are_not_taken_to_be_noisy():
    y, x = np.mgrid[:256, :256]
    drawing = np.where(np.hypot(y - 100, x - 90) < 50, 200.0, 30.0)
    waves = 100 + 50 * np.sin(x / 5) * np.cos(y / 7)
    border = np.pad(np.rint(scene()), 64)
    for image in (np.zeros((256, 256)), drawing, waves, np.rint(waves), scene(), border):
        found = estimate(image[None])
        assert found is None or found.probability < 0.5 or max(found.base.sigmas) < 0.5


def test_higher_frequencies_grow_with_low_ones_in_texture_and_not_in_noise():
    y, x = np.mgrid[:256, :320]
    contrast = np.exp(1.5 * np.sin(x / 50) * np.cos(y / 40))  # texture that is strong in some areas
    none = np.zeros((1, 256, 320), bool)
    texture = measured_in(100 + 8 * (contrast * correlated((256, 320), 0.8))[None], none, none)
    noise = measured_in((scene() + 8 * correlated((256, 320), 0.8))[None], none, none)
    assert abs(noise.growth) < 0.15
    assert texture.growth > 0.4


def test_strong_texture_is_not_taken_to_be_noise():
    """Such as fur: it is strong nearly everywhere, and stronger in some areas."""
    y, x = np.mgrid[:256, :320]
    contrast = np.exp(0.3 * np.sin(x / 50) * np.cos(y / 40))
    fur = 110 + 22 * contrast * correlated(x.shape, 0.8)
    assert estimate(np.rint(fur).clip(0, 255)[None]).probability < 0.5


@pytest.mark.parametrize("name", ["grass", "gravel"])
def test_photographs_of_texture_alone_are_not_taken_to_be_noise(name):
    photograph = getattr(data, name)()[:256, :320]
    assert estimate(photograph[None].astype(float)).probability < 0.3


@pytest.mark.slow
def test_texture_of_bright_objects_is_not_taken_to_be_noise():
    _, x = np.mgrid[:256, :320]
    # 60 times as strong where it is bright.
    texture = 0.2 * 60 ** (x / 320) * correlated(x.shape, 0.8)
    clean = 30 + 0.6 * x + texture
    assert estimate(clean[None]).probability < 0.5
    assert estimate((clean + 3 * correlated(x.shape, 0.8, 1))[None]).probability > 0.5


def test_flat_graphics_are_not_taken_to_be_noisy():
    y, x = np.mgrid[:300, :400]
    image = np.zeros((3, 300, 400))
    image[:, 50:150, 60:200] = np.array([200, 30, 40])[:, None, None]
    image[:, np.hypot(y - 150, x - 300) < 60] = np.array([250, 250, 20])[:, None]
    assert estimate(image) is None


def test_excluded_pixels_do_not_count():
    noisy = (scene() + 10 * correlated((256, 320), 0.8))[None]
    excluded = np.zeros(noisy.shape, bool)
    excluded[:, 40:90, 50:250] = True
    damaged = np.where(excluded, 1e6, noisy)
    found = estimate(damaged, excluded)
    assert found.probability > 0.5
    assert 8 < np.median(found.base.sigmas) < 13


def test_a_black_border_does_not_count():
    noisy = np.pad(scene() + 10 * correlated((256, 320), 0.8), 60)[None]
    found = estimate(noisy)
    assert found.probability > 0.5
    assert 8 < np.median(found.base.sigmas) < 13


@pytest.mark.slow
def test_gray_images_in_color_have_the_noise_of_gray_ones():
    noisy = (scene() + 10 * correlated((256, 320), 0.8))[None]
    gray, color = estimate(noisy), estimate(np.repeat(noisy, 3, axis=0))
    assert color.probability > 0.5
    np.testing.assert_allclose(color.base.sigmas, gray.base.sigmas, rtol=0.02)
    for c in range(3):
        for d in range(3):
            np.testing.assert_allclose(color.correlation[c, d], gray.correlation[0, 0], atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("quality", [80, 92])
def test_noise_of_a_jpeg_is_recognised(quality):
    gray = scene(384, 384)
    planes = [
        level * correlated(gray.shape, width, seed)
        for seed, (level, width) in enumerate([(9, 0.7), (4, 1.5), (4, 1.5)])
    ]
    noisy = np.stack([gray, 0.8 * gray + 20, 0.6 * gray + 40])
    noisy += np.einsum("pc,phw->chw", OPPONENT, planes)
    file = io.BytesIO()
    pixels = np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
    Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "JPEG", quality=quality)
    found = estimate(np.asarray(Image.open(file), np.float64).transpose(2, 0, 1))
    assert found.probability > 0.5
    of_planes = np.einsum("pc,cdij,pd->pij", OPPONENT, found.correlation, OPPONENT)
    level = np.median(found.base.sigmas) * np.sqrt(at(of_planes, 0, 0)[0])
    assert 6 < level < 14


def without_weak_coefficients(image, least):
    """The image with all weak cosine coefficients of 8 x 8 pixels set to 0, as by a camera or JPEG."""
    k = np.arange(8)
    cosines = np.cos(np.pi * (2 * k + 1) * k[:, None] / 16) / 2
    cosines[0] /= np.sqrt(2)
    height, width = image.shape
    blocks = image.reshape(height // 8, 8, width // 8, 8).swapaxes(1, 2)
    coefficients = cosines @ blocks @ cosines.T
    coefficients[np.abs(coefficients) < least] = 0
    return (cosines.T @ coefficients @ cosines).swapaxes(1, 2).reshape(image.shape)


@pytest.mark.slow
def test_noise_that_is_sparse_in_calm_areas_is_stronger_and_whiter_elsewhere():
    y, x = np.mgrid[:384, :384]
    rough = x >= 192
    clean = 110 + 60 * np.sin(x / 150) * np.cos(y / 170) + 25 * rough * correlated(x.shape, 0.5, 7)
    noisy = np.rint(without_weak_coefficients(clean + 5 * correlated(x.shape, 0.7), 10))
    error = noisy - clean
    (calm, there), (calm_next, next_there) = (
        (values[:, :180].std(), values[:, 200:].std()) for values in (error, np.diff(error))
    )
    # Of neighbours: the variance of their difference is 2 (1 - correlation) in units of theirs.
    correlations = [1 - (b / a) ** 2 / 2 for a, b in ((calm, calm_next), (there, next_there))]
    assert there > 1.4 * calm
    assert correlations[1] < correlations[0] - 0.25
    found = estimate(noisy[None])
    assert np.median(found.base.sigmas) == pytest.approx(there, rel=0.2)
    assert at(found.correlation, 0, 1)[0, 0] == pytest.approx(correlations[1], abs=0.15)


def test_sparse_noise_is_strong_at_any_brightness():
    correlation = np.zeros((1, 1, 31, 31))
    correlation[..., 15, 15] = 1
    curve = CurveNoise([10, 100, 200], [1, 4, 3])
    for sparse, least in ((True, 2.4), (False, 1)):
        measured = Measured(curve, correlation, sparse, span=2.0, growth=0.0, skewness=0.0)
        assert in_most_areas(measured)[0].sigmas == pytest.approx((least, 4, 3))


def test_the_image_is_not_changed():
    noisy = (scene() + 10 * correlated((256, 320), 0.8))[None]
    before = noisy.copy()
    estimate(noisy)
    np.testing.assert_array_equal(noisy, before)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 8, 300), (3, 20, 20), (2, 40, 40)])
def test_small_images_are_unknown(shape):
    assert estimate(np.random.default_rng(0).normal(size=shape)) is None


def test_other_numbers_of_channels():
    noise = np.stack([correlated((256, 320), 0.8, seed) for seed in range(2)])

    def smooth(image, base, correlation):
        return np.stack(
            [
                denoise(image[c : c + 1], base, correlation[c : c + 1, c : c + 1])[0]
                for c in range(len(image))
            ]
        )

    image = scene() + 10 * noise
    none = np.zeros(image.shape, bool)
    found = correlated_noise_of(image, none, none, smooth)
    assert found.probability > 0.5
    assert found.correlation.shape == (2, 2, 31, 31)
    assert abs(at(found.correlation, 0, 0)[0, 1]) < 0.15


def test_levels_are_tried_on_the_brightness_alone():
    """It is all that is compared, and takes a third of the time of three channels."""
    tried = []

    def counted(image, base, correlation):
        tried.append((len(image), correlation.shape[:2]))
        return denoise(image, base, correlation)

    noise = np.stack([correlated((256, 320), 0.8, seed) for seed in range(3)])
    image = scene() + 10 * noise
    none = np.zeros(image.shape, bool)
    found = correlated_noise_of(image, none, none, counted)
    assert found.probability > 0.5
    assert set(tried) == {(1, (1, 1))}


@pytest.mark.slow
def test_the_level_of_texture_is_not_raised_to_that_of_sparse_noise():
    """Where the likeness does not fall, the level was raised most: up to 2.6 times what was measured."""
    y, x = np.mgrid[:256, :320]
    contrast = np.exp(2 * np.sin(x / 50) * np.cos(y / 40))
    texture = 110 + 8 * contrast * correlated(x.shape, 1.2)
    file = io.BytesIO()
    Image.fromarray(np.rint(texture).clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=60)
    image = np.asarray(Image.open(file), np.float64)[None]
    none = np.zeros(image.shape, bool)
    measured = measured_in(image, none, none)
    found = estimate(image)
    assert measured.sparse
    assert found.probability < 0.5
    assert max(found.base.sigmas) > 1.5 * max(measured.base.sigmas)  # if it is noise after all
    assert max(found.cautious.sigmas) <= 1.001 * max(measured.base.sigmas)


def test_channels_have_levels_of_their_own():
    """Those of the white balance of a camera."""
    noise = np.stack([correlated((256, 320), 0.8, seed) for seed in range(3)])
    found = estimate(scene() + np.array([14, 8, 10])[:, None, None] * noise)
    assert found.probability > 0.5
    levels = np.array(found.base.level) * np.median(found.base.sigmas)
    np.testing.assert_allclose(levels / levels.mean(), np.array([14, 8, 10]) * 3 / 32, rtol=0.12)

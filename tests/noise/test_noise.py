"""Noise models, and their estimation from the image alone."""

import math
import warnings

import numpy as np
import pytest
from skimage import data
from skimage.restoration import estimate_sigma as wavelet_estimate

import nlridge
from nlridge import GaussianNoise, PoissonGaussianNoise, estimate_noise, estimate_sigma
from nlridge.noise import estimation
from nlridge.planning.photons import run_settings, typical_photons

PHOTOGRAPHS = ("camera", "brick", "coins", "moon")


def photograph(name):
    return getattr(data, name)()[:300, :380].astype(np.float64)


def with_noise(clean, sigma, seed=0):
    return clean + np.random.default_rng(seed).normal(0, sigma, clean.shape)


# Gaussian noise.


@pytest.mark.parametrize("sigma", [2, 5, 15, 25, 50])
def test_sigma_of_photographs(sigma):
    errors = [estimate_sigma(with_noise(photograph(name), sigma)) - sigma for name in PHOTOGRAPHS]
    assert np.max(np.abs(errors)) < 0.5 + 0.02 * sigma  # some photographs are noisy themselves


def test_texture_is_not_taken_for_noise():
    """As it is by the median of wavelet coefficients."""
    textures = [photograph("brick"), data.grass()[:300, :380], data.gravel()[:300, :380]]
    for sigma in (5, 15):
        noisy = [with_noise(texture.astype(float), sigma) for texture in textures]
        errors = np.abs([estimate_sigma(image) - sigma for image in noisy])
        theirs = np.abs([wavelet_estimate(image) - sigma for image in noisy])
        assert errors.max() < 0.5 * theirs.max()


@pytest.mark.parametrize("shape", [(64, 64), (128, 200), (512, 512)])
def test_sigma_of_pure_noise(shape):
    estimates = [estimate_sigma(with_noise(np.zeros(shape), 7.0, seed)) for seed in range(5)]
    assert abs(np.mean(estimates) - 7) < 0.2


@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (3, 3), (10, 10), (13, 100)])
def test_sigma_of_tiny_images(shape):
    """Right on average; a few pixels leave each estimate uncertain."""
    estimates = [estimate_sigma(with_noise(np.zeros(shape), 5.0, seed)) for seed in range(12)]
    assert abs(np.mean(estimates) - 5) < 0.25
    assert 1 < min(estimates) <= max(estimates) < 10


def test_a_single_pixel_shows_no_noise():
    assert estimate_sigma([[5.0]]) == 0


def test_sigma_of_a_constant_image_is_zero():
    assert estimate_sigma(np.full((64, 64), 17)) == 0
    np.testing.assert_array_equal(nlridge.denoise(np.full((64, 64), 17.0)), 17.0)


@pytest.mark.parametrize("offset", [0.0, 1e6, -300.0])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_sigma_is_in_the_units_of_the_image(scale, offset):
    noisy = with_noise(photograph("camera"), 10)
    expected = estimate_sigma(noisy)
    assert estimate_sigma(scale * (noisy + offset)) == pytest.approx(
        scale * expected, rel=1e-5, abs=0
    )


@pytest.mark.parametrize("exponent", [-1050, -1000, -500, 500, 980])
def test_noise_of_any_scale(exponent):
    """Even if the squares of the pixels are too large or too small for float64."""
    random = np.random.default_rng(0)
    image = np.tile(np.linspace(10, 200, 256), (256, 1))
    counts = random.poisson(image) + 0.0
    scale = 2.0**exponent
    assert estimate_sigma(counts * scale) / scale == pytest.approx(estimate_sigma(counts), rel=1e-6)
    if abs(exponent) < 1000:
        scaled, expected = estimate_noise(counts * scale), estimate_noise(counts)
        assert scaled.gain / scale == pytest.approx(expected.gain, rel=1e-6)
        assert scaled.black_level / scale == pytest.approx(expected.black_level, rel=1e-6)
    pair = np.stack([counts, counts[::-1]]) * scale
    both = estimate_noise(pair, channel_axis=0, kind="gaussian").sigma
    assert both / scale == pytest.approx(estimate_sigma(counts), rel=0.05)


def test_missing_pixels_do_not_count():
    clean = photograph("camera")
    noisy = with_noise(clean, 10)
    gone = np.random.default_rng(1).random(clean.shape) < 0.02
    spoilt = np.where(gone, 1e6, noisy)
    assert estimate_sigma(spoilt, mask=gone) == pytest.approx(10, abs=0.2)
    assert estimate_sigma(np.where(gone, np.nan, noisy)) == estimate_sigma(spoilt, mask=gone)


@pytest.mark.slow
@pytest.mark.parametrize("with_noise", [False, True])
def test_a_gradient_without_noise(with_noise):
    """Such as a test image of integers, in which most variances are exactly 0. Another channel may have noise."""
    y, x = np.mgrid[:160, :200]
    channels = [(x // 2).astype(np.int8), (y // 2).astype(np.int8), (x // 2).astype(np.int8)]
    if with_noise:
        noise = np.random.default_rng(0).normal(0, 1, x.shape) * np.sqrt(2 + x / 4)
        channels[1] = np.clip(y // 4 + noise, -128, 127).astype(np.int8)
    image = np.stack(channels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        levels = np.broadcast_to(nlridge.estimate_noise(image, channel_axis=0).level, 3)
        volume = np.stack([image, image, image, image])
        result = nlridge.denoise(volume, method="fast", depth_axis=0, channel_axis=1)
    assert max(levels[0], levels[2]) < 0.5
    assert (levels[1] > 1.5) == with_noise
    assert np.abs(result[:, [0, 2]] - volume[:, [0, 2]]).max() < 2


def test_saturated_pixels_do_not_spoil_the_estimate():
    clean = 1.5 * photograph("camera") - 60  # much of it below 0 or above 255
    noisy = with_noise(clean, 12)
    assert np.mean((noisy < 0) | (noisy > 255)) > 0.2
    clipped = np.clip(noisy, 0, 255)
    assert estimate_sigma(clipped) == pytest.approx(12, abs=0.5)
    assert estimate_sigma(clipped.astype(np.uint8)) == pytest.approx(12, abs=0.5)


@pytest.mark.slow
def test_the_shrinkage_of_calm_patches_is_that_of_pure_noise():
    """The table that the estimate rests on, by simulation."""
    values = np.random.default_rng(0).normal(size=(1000, 1000)).astype(np.float32)
    energies = estimation._sums(np.diff(values, axis=1) ** 2, 7, 6) + estimation._sums(
        np.diff(values, axis=0) ** 2, 6, 7
    )
    assert energies.mean() == pytest.approx(estimation._EDGES, rel=0.01)
    windows = np.lib.stride_tricks.sliding_window_view(values, (7, 7))
    for energy, expected in zip(estimation._ENERGIES, estimation._SHRINKAGE, strict=True):
        patches = windows[energies <= energy * estimation._EDGES].reshape(-1, 49)[:300_000]
        patches = patches - patches.mean(axis=1, keepdims=True)
        least = np.linalg.eigvalsh(np.cov(patches.T))[1 : 1 + estimation._LEAST].mean()
        assert least / (1 - 10 / math.sqrt(len(patches))) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros((3, 4, 5)), ValueError, r"image has shape \(3, 4, 5\); expected two dimensions"),
        (np.zeros((3, 4), bool), TypeError, "image has dtype bool; expected integers or floats"),
        (np.full((3, 4), np.nan), ValueError, "image has no valid pixels"),
    ],
)  # fmt: skip
def test_bad_images(image, error, message):
    for function in (estimate_sigma, estimate_noise):
        with pytest.raises(error, match=message):
            function(image)


def test_bad_masks():
    with pytest.raises(ValueError, match=r"mask has shape \(2, 3\); expected \(20, 20\)"):
        estimate_sigma(np.zeros((20, 20)), mask=np.zeros((2, 3), bool))
    with pytest.raises(TypeError, match="mask has dtype float64; expected bool"):
        estimate_sigma(np.zeros((20, 20)), mask=np.zeros((20, 20)))


# Noise that grows with the signal.


@pytest.mark.parametrize("read_noise", [0.0, 3.0])
@pytest.mark.parametrize("photons", [2.0, 20.0, 500.0])
def test_stabilising_makes_the_variance_one_and_restoring_has_no_bias(photons, read_noise):
    noise = PoissonGaussianNoise(gain=2.0, read_noise=read_noise, black_level=50.0)
    rng = np.random.default_rng(0)
    pixels = 50 + 2.0 * rng.poisson(photons, 400_000) + rng.normal(0, read_noise, 400_000)
    assert np.var(pixels) == pytest.approx(2.0 * 2.0 * photons + read_noise**2, rel=0.01)
    stable = noise.stabilise(pixels)
    assert stable.std() == pytest.approx(noise.level, abs=0.1 if photons < 5 else 0.01)
    restored = noise.restore(np.array([stable.mean()]))[0]
    assert restored == pytest.approx(50 + 2.0 * photons, rel=0.002)


def test_nothing_is_darker_than_the_black_level_without_read_noise():
    noise = PoissonGaussianNoise(gain=1.0, black_level=100.0)
    assert noise.restore(np.array([-5.0, 0.0, 0.1])).min() == 100
    image = 100 + np.random.default_rng(0).poisson(0.1, (64, 64))
    assert nlridge.denoise(image, noise=noise).min() >= 100


@pytest.mark.parametrize("peak", [5, 20, 100, 1000])
def test_the_gain_of_a_camera_is_estimated(peak):
    gains = []
    for seed, name in enumerate(PHOTOGRAPHS[:3]):
        counts = np.random.default_rng(seed).poisson(photograph(name) / 255 * peak)
        noise = estimate_noise(3.0 * counts)
        # The noise of a texture of little contrast may be taken for Gaussian.
        if isinstance(noise, PoissonGaussianNoise):
            gains.append(noise.gain / 3.0)
    assert len(gains) >= 2
    assert np.median(gains) == pytest.approx(1, abs=0.15)


def test_the_black_level_is_estimated_where_it_matters():
    image = np.tile(np.linspace(1, 60, 400), (400, 1))
    noise = estimate_noise(200 + 2.0 * np.random.default_rng(0).poisson(image))
    assert noise.gain == pytest.approx(2.0, rel=0.05)
    assert noise.black_level == pytest.approx(200, abs=2)


@pytest.mark.parametrize("sigma", [10, 25, 50])
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_gaussian_noise_is_recognised(name, sigma):
    noise = estimate_noise(with_noise(photograph(name), sigma))
    assert isinstance(noise, GaussianNoise)
    assert noise.sigma == pytest.approx(sigma, abs=0.5 + 0.03 * sigma)


@pytest.mark.slow
@pytest.mark.parametrize("peak", [5, 50])
def test_blind_denoising_is_nearly_as_good_as_knowing_the_noise(peak):
    clean = photograph("camera")
    gain = 255 / peak
    noisy = gain * np.random.default_rng(0).poisson(clean / gain)

    def error(result):
        return 10 * np.log10(np.mean((result - clean) ** 2))

    fast = error(nlridge.denoise(noisy, noise=PoissonGaussianNoise(gain), method="fast"))
    assert error(nlridge.denoise(noisy, method="fast")) < fast + 0.15
    known = error(nlridge.denoise(noisy, noise=PoissonGaussianNoise(gain)))
    # In very little light, the gain is estimated to within a tenth. That costs the more, the better the method is,
    # but never as much as the method gains.
    assert error(nlridge.denoise(noisy)) < (fast if peak == 5 else known + 0.15)
    assert error(nlridge.denoise(noisy, sigma=math.sqrt(gain * clean.mean()))) > known + 4


def spots(shape=(300, 300)):
    """Sparse blobs on a dark background, from 0 to 1."""
    random = np.random.default_rng(3)
    image = np.zeros(shape)
    y, x = np.mgrid[: shape[0], : shape[1]]
    for _ in range(80):
        row, column = random.uniform(0, shape[0]), random.uniform(0, shape[1])
        radius = random.uniform(1.5, 8)
        distance = (y - row) ** 2 + (x - column) ** 2
        image += random.uniform(0.2, 1) ** 2 * np.exp(-distance / (2 * radius**2))
    return image / image.max()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("photons", "gain", "read_noise", "black_level"),
    [(30, 2.2, 3, 100), (300, 0.5, 1, 400), (3000, 1.0, 5, 100), (100, 20, 10, 0), (50, 5, 0, 0)],
)
def test_the_noise_of_a_dark_field_grows_with_the_signal(photons, gain, read_noise, black_level):
    """As in microscopy and astronomy, where few pixels are bright; noise may be clipped at 0."""
    light = photons * (0.02 + spots())
    random = np.random.default_rng(0)
    pixels = black_level + gain * random.poisson(light) + random.normal(0, read_noise, light.shape)
    image = np.clip(np.round(pixels), 0, 65535).astype(np.uint16)
    estimated = estimate_noise(image)
    assert isinstance(estimated, PoissonGaussianNoise)
    assert estimate_noise(image, kind="poisson") == estimated
    clean = black_level + gain * light

    def error(noise):
        result = nlridge.denoise(image, noise=noise, method="fast")
        return 10 * np.log10(np.mean((result - clean) ** 2))

    known = error(PoissonGaussianNoise(gain, math.hypot(read_noise, 0.29), black_level))
    assert error(estimated) < known + 0.3
    assert error(estimate_noise(image, kind="gaussian")) > known + 1.5


def test_a_dark_field_may_have_gaussian_noise_or_none():
    clean = 250 * spots()
    for sigma in (3, 20):
        noise = estimate_noise(with_noise(clean, sigma))
        assert isinstance(noise, GaussianNoise)
        assert noise.sigma == pytest.approx(sigma, rel=0.05)
    assert np.abs(nlridge.denoise(clean) - clean).max() < 1e-3


def test_the_median_of_the_variances_of_blocks_is_that_of_pure_noise():
    """The factor that the estimate rests on, by simulation."""
    pixels = np.random.default_rng(0).normal(50, 3, (1500, 1500))
    steps, _ = estimation._block_variances(estimation._channel(pixels, None))
    _, variances, counts = steps.T
    assert np.average(variances, weights=counts) == pytest.approx(9, rel=0.01)


def test_slopes_and_curves_do_not_count_as_noise():
    y, x = np.mgrid[:200, :200] / 10
    curved = 3 * x * y - 2 * x**2 + 0.5 * y**2 + 0.1 * x**3
    steps, _ = estimation._block_variances(estimation._channel(with_noise(curved, 1.0), None))
    assert np.median(steps[:, 1]) == pytest.approx(1, rel=0.05)


# Few photons.


@pytest.mark.parametrize("photons", [0.02, 0.1, 0.5, 1.0, 3.0])
def test_the_inverse_has_no_bias_even_for_few_photons(photons):
    counts = np.arange(60.0)
    chances = np.exp(counts * math.log(photons) - photons - [math.lgamma(k + 1) for k in counts])
    noise = PoissonGaussianNoise(1.0)
    mean = np.sum(chances * noise.stabilise(counts))
    assert noise.restore(np.array([mean]))[0] == pytest.approx(photons, abs=0.001 + 0.005 * photons)


@pytest.mark.parametrize("method", nlridge.method_names())
def test_few_photons_do_not_spoil_any_method(method):
    """Denoised in one run, these images are little better than noise with most methods."""
    clean = photograph("camera")[:192, :192] / 255
    counts = np.random.default_rng(0).poisson(clean)
    for noise in (PoissonGaussianNoise(1.0), None):
        result = nlridge.denoise(counts, noise=noise, method=method)
        assert -10 * np.log10(np.mean((result - clean) ** 2)) > 21


@pytest.mark.parametrize("seed", [0, 1])
def test_thin_lines_of_few_photons_are_kept(seed):
    y, x = np.mgrid[:128, :128] - 64
    lines = [
        np.exp(-((x * np.cos(angle) + y * np.sin(angle) - place) ** 2) / 3.4)
        for angle, place in zip(np.linspace(0.2, 2.9, 5), range(-24, 36, 12), strict=True)
    ]
    photons = np.max(lines, axis=0) + 0.08
    noise = nlridge.PoissonGaussianNoise(1.0)
    counts = np.random.default_rng(seed).poisson(photons)
    result = nlridge.denoise(counts, noise=noise, method="fast")
    assert np.sqrt(np.mean((result - photons) ** 2)) < 0.095


def test_several_runs_are_for_few_photons_only():
    assert run_settings(math.inf, (512, 512)) == []
    assert run_settings(101.0, (512, 512)) == []
    assert run_settings(6.0, (512, 512)) == [(0, 1.0)]  # means are kept
    (halvings, whole), *others = run_settings(0.5, (512, 512))
    assert (halvings, whole) == (2, 1.0)
    assert [share for _, share in others] == sorted((share for _, share in others), reverse=True)
    assert run_settings(0.5, (40, 512))[0] == (0, 1.0)  # too small to be halved


def test_photons_are_counted_where_the_light_is():
    light = 100 * spots()
    counts = np.random.default_rng(0).poisson(light)
    expected = np.mean(light**2) / np.mean(light)
    assert counts.mean() < 0.3 * expected
    for noise in (PoissonGaussianNoise(3.0, 0.0, 50.0), PoissonGaussianNoise(3.0, 6.0, 50.0)):
        pixels = with_noise(50 + 3.0 * counts, noise.read_noise)
        extra = (noise.read_noise / noise.gain) ** 2
        assert typical_photons(noise, pixels) == pytest.approx(expected + extra, rel=0.02)
    assert typical_photons(GaussianNoise(1), counts) == math.inf
    assert typical_photons(PoissonGaussianNoise(1), np.zeros((5, 5))) == math.inf


@pytest.mark.parametrize("exponent", [-200, 200])
def test_few_photons_of_any_unit(exponent):
    counts = np.random.default_rng(0).poisson(np.tile(np.linspace(0.1, 2, 80), (70, 1))) + 0.0
    expected = nlridge.denoise(counts, noise=PoissonGaussianNoise(1.0), method="fast")
    scale = 2.0**exponent
    result = nlridge.denoise(counts * scale, noise=PoissonGaussianNoise(scale), method="fast")
    np.testing.assert_array_equal(result / scale, expected)


def test_few_photons_with_missing_pixels():
    clean = np.tile(np.linspace(0.1, 2, 150), (140, 1))
    counts = np.random.default_rng(0).poisson(clean) + 0.0
    gone = np.random.default_rng(1).random(counts.shape) < 0.1
    noise = PoissonGaussianNoise(1.0)
    result = nlridge.denoise(np.where(gone, np.nan, counts), noise=noise, method="fast")
    assert np.array_equal(np.isnan(result), gone)
    whole = nlridge.denoise(counts, noise=noise, method="fast")
    errors = [np.std((image - clean)[~gone]) for image in (result, whole)]
    assert errors[0] < 1.2 * errors[1]


def test_models_are_printed_in_plain_words():
    assert str(GaussianNoise(3.14159)) == "Gaussian noise with a standard deviation of 3.142"
    assert str(PoissonGaussianNoise(2)) == "Poisson noise with a gain of 2"
    assert (
        str(PoissonGaussianNoise(2, 3, 100))
        == "Poisson noise with a gain of 2 above a black level of 100, and read-out noise of 3"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianNoise(-1), "sigma is -1; expected a non-negative number below 1e300"),
        (lambda: PoissonGaussianNoise(0), "gain is 0; expected a positive number"),
        (lambda: PoissonGaussianNoise(1, -1), "read_noise is -1; expected a non-negative number"),
        (lambda: PoissonGaussianNoise(1, 1, math.nan), "black_level is nan; expected a finite number"),
        (lambda: PoissonGaussianNoise("a"), "gain is 'a'; expected a number"),
        (lambda: PoissonGaussianNoise([1, 1, 1]), r"gain is \[1, 1, 1\]; expected a number"),
        (lambda: PoissonGaussianNoise(1, black_level=None), "black_level is None; expected a number"),
        (lambda: PoissonGaussianNoise(1, 1e200), r"read_noise is 1e\+200; expected at most 1e100 times the gain, 1"),
        (lambda: PoissonGaussianNoise(10**400), r"gain is 10{75} \.\.\.; expected a positive number"),
        (lambda: PoissonGaussianNoise(1, black_level=10**400), r"black_level is 10{75} \.\.\.; expected a finite number"),
        (lambda: GaussianNoise(10**400), r"sigma is 10{75} \.\.\.; expected a number"),
        (lambda: GaussianNoise(np.linspace(-1, 1, 50)), r"^sigma is array\(\[-1\. , [^\n]* \.\.\.; expected non-negative numbers"),
        (lambda: GaussianNoise("ten"), "sigma is 'ten'; expected a number or an array of numbers"),
    ],
)  # fmt: skip
def test_impossible_noise_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_models_are_equal_if_their_values_are():
    levels = np.ones((3, 4))
    assert GaussianNoise(3) == GaussianNoise(3.0)
    assert GaussianNoise([1, 2]) == GaussianNoise((1.0, 2.0))
    assert GaussianNoise(levels) == GaussianNoise(levels.copy())
    assert hash(GaussianNoise(levels)) == hash(GaussianNoise(levels.copy()))
    assert GaussianNoise(levels) != GaussianNoise(2 * levels)
    assert repr(GaussianNoise(levels)) == "GaussianNoise(sigma=a map of shape (3, 4))"


def test_signalling_nans_are_missing_like_all_others():
    """Damaged files have them; arithmetic with them warns."""
    image = np.random.default_rng(0).normal(100, 10, (64, 64)).astype(np.float32)
    image.view(np.uint32)[5:9, 7:30] = 0x7FA00001
    quiet = np.where(np.isnan(image), np.float32(np.nan), image)
    assert estimate_sigma(image) == estimate_sigma(quiet)
    np.testing.assert_array_equal(nlridge.denoise(image), nlridge.denoise(quiet))


def test_a_level_for_no_channel_is_refused():
    with pytest.raises(ValueError, match=r"sigma is \[\]; expected at least one number"):
        nlridge.GaussianNoise([])


def test_saturated_pixels_may_be_far_from_the_others():
    """Too far for float32, in units of the deviation of the others."""
    noisy = np.random.default_rng(0).normal(100, 5, (64, 64))
    noisy[:8] = 1e50
    with np.errstate(all="raise", under="ignore"):
        assert nlridge.estimate_sigma(noisy) == pytest.approx(5, rel=0.1)


def test_a_line_through_a_single_brightness_has_no_slope():
    slope, offset, error = estimation._robust_line(
        np.full(3, 5.0), np.array([1.0, 2.0, 3.0]), np.ones(3)
    )
    assert slope == 0
    assert 1 <= offset <= 2
    assert error == math.inf

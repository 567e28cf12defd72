"""Color and other channels: the planes they are turned into, and what that gains."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
from groups import without_kernels
from images import SIGMA, photograph, psnr, with_noise
from skimage import data

import nlridge
from nlridge import Recipe, Step, denoise, denoise_to_disk, prepare
from nlridge.core.families import BM3D, Bayes, Ridge
from nlridge.noise.gaussian import GaussianNoise
from nlridge.planning.channels import OPPONENT, planes_of
from nlridge.planning.plan import covariance_of


def one_by_one(noisy, sigmas, **options):
    channels = np.moveaxis(noisy, -1, 0)
    return np.stack(
        [denoise(c, s, **options) for c, s in zip(channels, sigmas, strict=True)], axis=-1
    )


# Planes.


def planes_for(pixels, sigmas, scales):
    """The planes of channels of which these are some pixels."""
    return planes_of(covariance_of(GaussianNoise(0), sigmas, pixels), sigmas, scales)


def sample(channels, seed=0, common=1.0, sigma=1.0):
    """Channels that have something in common, and noise."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(0, 20, 5000), rng.normal(0, 10, (channels, 5000))
    return common * shared + own + sigma * rng.normal(size=(channels, 5000))


def test_opponent_colors_are_orthonormal():
    np.testing.assert_allclose(OPPONENT @ OPPONENT.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(OPPONENT[0], 1 / np.sqrt(3))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("uneven", [False, True])
def test_planes_have_equal_independent_noise_and_can_be_inverted(channels, uneven):
    sigmas = np.linspace(1, 3 if uneven else 1, channels)
    parts = planes_for(sample(channels), sigmas, np.ones(channels))
    assert sorted(c for part in parts for c in part.channels) == list(range(channels))
    image = np.random.default_rng(1).normal(size=(channels, 6, 7)).astype(np.float32)
    for part in parts:
        np.testing.assert_allclose(part.back(part.of(image)), image[part.channels], atol=1e-5)
        covariance = part.matrix @ np.diag(sigmas[part.channels] ** 2) @ part.matrix.T
        np.testing.assert_allclose(
            covariance, covariance[0, 0] * np.eye(len(covariance)), atol=1e-9
        )
        variance = part.variance((sigmas**2).astype(np.float32).reshape(-1, 1, 1))
        assert variance == pytest.approx(covariance[0, 0], rel=1e-5)


def test_red_green_and_blue_become_opponents_and_others_principal_components():
    (three,) = planes_for(sample(3), np.ones(3), np.ones(3))
    np.testing.assert_array_equal(three.matrix, OPPONENT)
    (uneven,) = planes_for(sample(3), np.array([1.0, 2.0, 1.0]), np.array([1, 0.5, 1]))
    assert not np.allclose(uneven.matrix, OPPONENT)
    (four,) = planes_for(sample(4), np.ones(4), np.ones(4))
    variances = np.var(four.matrix @ sample(4), axis=1)
    assert (np.diff(variances) < 0).all()  # the strongest plane comes first


def test_channels_that_show_different_things_are_kept_apart():
    apart = planes_for(sample(3, common=0), np.ones(3), np.ones(3))
    assert [part.channels for part in apart] == [[0], [1], [2]]
    mixed = np.concatenate([sample(2, 0), sample(1, 1), sample(2, 2), np.zeros((1, 5000))])
    together = [part.channels for part in planes_for(mixed, np.ones(6), np.ones(6))]
    assert together == [[0, 1], [2], [3, 4], [5]]


def test_a_map_of_each_channel_gives_a_map_of_each_plane():
    (part,) = planes_for(sample(3), np.ones(3), np.ones(3))
    maps = np.random.default_rng(0).uniform(1, 2, (3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(
        part.variance(maps), np.einsum("kc,cyx->kyx", part.matrix**2, maps), rtol=1e-5
    )
    np.testing.assert_array_equal(part.variance(maps[:1]), maps[:1])


# The algorithm in color.


def oracle_in_color(noisy, estimates, first, second, stacked):
    """Step by step with loops: brightness alone is matched in step 1, all planes in step 2."""
    planes = np.einsum("kc,yxc->kyx", OPPONENT, noisy)
    bands = [[0], [1, 2]] if stacked else [[0], [1], [2]]

    def step(guide, matched, estimate, patch, group, stride, window):
        total, weight = np.zeros(planes.shape), np.zeros(planes.shape)
        for y in oracle.references(planes.shape[1], patch, stride):
            for x in oracle.references(planes.shape[2], patch, stride):
                corners = oracle.similar(guide[:matched], y, x, patch, group, window)
                for band in bands:
                    Y, X = (
                        np.concatenate([oracle.group_matrix(a[k], corners, patch) for k in band])
                        for a in (planes, guide)
                    )
                    denoised, weights = estimate(Y, X)
                    for j, (top, left) in enumerate(corners):
                        patches = denoised[:, j].reshape(len(band), patch, patch)
                        inside = np.s_[band, top : top + patch, left : left + patch]
                        total[inside] += weights[j] * patches
                        weight[inside] += weights[j]
        return total / weight

    pilot = step(planes, 1, estimates[0], *first)
    result = step(pilot, 3, estimates[1], *second)
    return np.einsum("kc,kyx->yxc", OPPONENT, result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "estimates"),
    [(Ridge(), oracle.nl_ridge), (Bayes(), oracle.nl_bayes), (BM3D(), oracle.bm3d)],
)
def test_color_against_the_oracle(family, estimates):
    noisy = with_noise(photograph(33)[:, :28])
    recipe = Recipe(family, Step(5, 9, stride=3, window=11), Step(4, 14, stride=2, window=13))
    expected = oracle_in_color(
        noisy, estimates(SIGMA), (5, 9, 3, 11), (4, 14, 2, 13), family.stacks_planes
    )
    result = denoise(noisy, SIGMA, method=recipe, channel_axis=-1, data_range=255)
    assert np.sqrt(np.mean((result - expected) ** 2)) < 0.02
    assert np.median(np.abs(result - expected)) < 1e-4


@pytest.mark.parametrize("method", nlridge.method_names())
def test_colors_together_are_better_than_one_by_one(method):
    clean = photograph()
    noisy = with_noise(clean)
    together = denoise(noisy, SIGMA, method=method, channel_axis=-1, data_range=255)
    apart = one_by_one(noisy, [SIGMA] * 3, method=method, data_range=255)
    assert psnr(together, clean) > psnr(apart, clean) + 1.5


@pytest.mark.parametrize("method", nlridge.method_names())
def test_formulas_and_kernels_agree_in_color_and_with_a_map(method):
    from dataclasses import replace

    noisy = with_noise(photograph(48))
    sigma = np.linspace(15, 25, 48 * 48).reshape(48, 48)
    chosen = nlridge.recipe(method, SIGMA)
    family = without_kernels(chosen.family)
    fast = denoise(noisy, sigma, method=chosen, channel_axis=-1)
    slow = denoise(noisy, sigma, method=replace(chosen, family=family), channel_axis=-1)
    assert np.sqrt(np.mean((fast - slow) ** 2)) < 0.002


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_any_number_of_channels_on_any_axis(channels, axis):
    clean = np.resize(np.moveaxis(photograph(64), -1, 0), (channels, 64, 64))
    noisy = np.moveaxis(with_noise(clean), 0, axis)
    result = denoise(noisy, SIGMA, channel_axis=axis, data_range=255)
    assert result.shape == noisy.shape
    last = denoise(np.moveaxis(noisy, axis, -1), SIGMA, channel_axis=-1, data_range=255)
    np.testing.assert_array_equal(np.moveaxis(result, axis, -1), last)
    assert psnr(last, np.moveaxis(clean, 0, -1)) > 28.5


def test_one_channel_is_a_gray_image():
    gray = with_noise(photograph()[..., 1])
    np.testing.assert_array_equal(
        denoise(gray[:, None], SIGMA, channel_axis=1)[:, 0], denoise(gray, SIGMA)
    )


def test_unrelated_channels_are_as_good_as_one_by_one():
    clean = np.stack([photograph()[..., 1], np.rot90(photograph()[..., 1], 2)], axis=-1)
    noisy = with_noise(clean)
    together = denoise(noisy, SIGMA, channel_axis=-1, data_range=255)
    np.testing.assert_allclose(together, one_by_one(noisy, [SIGMA] * 2, data_range=255), atol=1e-4)


@pytest.mark.slow
def test_five_channels_together_are_better_than_one_by_one():
    """As of a camera of five colors: mixtures of red, green and blue."""
    mixtures = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]])
    clean = photograph() @ mixtures.T
    noisy = with_noise(clean)
    together = denoise(noisy, SIGMA, channel_axis=-1, data_range=255)
    assert psnr(together, clean) > psnr(one_by_one(noisy, [SIGMA] * 5, data_range=255), clean) + 1.5


def test_a_sigma_for_each_channel():
    clean, sigmas = photograph(), np.array([5.0, 20.0, 40.0])
    noisy = with_noise(clean, sigmas)
    result = denoise(noisy, sigmas, channel_axis=-1, data_range=255)
    assert (
        psnr(result, clean) > psnr(denoise(noisy, 26, channel_axis=-1, data_range=255), clean) + 1
    )
    apart = one_by_one(noisy, sigmas, data_range=255)
    for channel in range(3):
        assert psnr(result[..., channel], clean[..., channel]) > psnr(
            apart[..., channel], clean[..., channel]
        )


@pytest.mark.parametrize("method", nlridge.method_names())
def test_workers_make_no_difference_in_color(method):
    noisy = with_noise(data.astronaut()[:100, :330].astype(np.float32))
    first, *others = (
        denoise(noisy, SIGMA, method=method, channel_axis=-1, workers=n) for n in (1, 3)
    )
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.slow
def test_noise_in_color_is_estimated():
    clean = photograph(256)
    noisy = with_noise(clean)
    noise = nlridge.estimate_noise(noisy, channel_axis=-1)
    assert isinstance(noise, nlridge.GaussianNoise)
    assert noise.sigma == pytest.approx(SIGMA, rel=0.02)  # one number for all channels
    np.testing.assert_allclose(nlridge.estimate_sigma(noisy, channel_axis=-1), SIGMA, rtol=0.05)
    known = psnr(denoise(noisy, SIGMA, channel_axis=-1), clean)
    assert psnr(denoise(noisy, channel_axis=-1), clean) > known - 0.05
    uneven = nlridge.estimate_noise(with_noise(clean, np.array([5, 20, 40])), channel_axis=-1)
    np.testing.assert_allclose(uneven.sigma, [5, 20, 40], rtol=0.08)


@pytest.mark.slow
def test_poisson_noise_in_color():
    clean, gain = photograph(256), 4.0
    counts = gain * np.random.default_rng(0).poisson(clean / gain)
    noise = nlridge.estimate_noise(counts, channel_axis=-1)
    assert isinstance(noise, nlridge.PoissonGaussianNoise)
    assert noise.gain == pytest.approx(gain, rel=0.05)
    known = denoise(counts, noise=nlridge.PoissonGaussianNoise(gain), channel_axis=-1)
    assert psnr(denoise(counts, channel_axis=-1), clean) > psnr(known, clean) - 0.1


def test_details_in_color_have_the_shape_of_the_image():
    noisy = with_noise(photograph()).astype(np.float32)
    details = nlridge.denoise_with_details(noisy, channel_axis=-1)
    assert details.image.shape == details.pilot.shape == details.residual.shape == noisy.shape
    np.testing.assert_array_equal(details.image, denoise(noisy, channel_axis=-1))
    np.testing.assert_allclose(details.image + details.residual, noisy, atol=1e-4)


def test_missing_pixels_in_color():
    clean = photograph()
    noisy = with_noise(clean)
    gone = np.random.default_rng(1).random(clean.shape) < 0.02  # of single channels
    result = denoise(np.where(gone, np.nan, noisy), SIGMA, channel_axis=-1)
    np.testing.assert_array_equal(np.isnan(result), gone)
    whole = denoise(noisy, SIGMA, channel_axis=-1)
    assert psnr(result[~gone], clean[~gone]) > psnr(whole[~gone], clean[~gone]) - 0.1
    pixels = gone[..., 0]
    masked = denoise(noisy, SIGMA, channel_axis=-1, mask=pixels)
    np.testing.assert_array_equal(masked[pixels], noisy[pixels])


def test_a_channel_without_pixels_does_not_spoil_the_others():
    noisy = with_noise(photograph())
    noisy[..., 1] = np.nan
    result = denoise(noisy, SIGMA, channel_axis=-1, data_range=255)
    assert np.isnan(result[..., 1]).all()
    assert psnr(result[..., ::2], photograph()[..., ::2]) > 29.5


@pytest.mark.parametrize(("stack", "channel"), [(0, 3), (0, -1), (3, 1), (-1, 0), (2, 3)])
def test_frames_of_a_stack_in_color_are_denoised_one_by_one(stack, channel):
    frames = [with_noise(photograph(40), seed=seed) for seed in range(2)]
    images = np.moveaxis(np.stack(frames), (0, 3), (stack, channel))
    for options in ({"sigma": SIGMA}, {}, {"sigma": [10, 20, 30]}):
        result = denoise(images, stack_axis=stack, channel_axis=channel, **options)
        result = np.moveaxis(result, (stack, channel), (0, 3))
        for frame, clean in zip(frames, result, strict=True):
            np.testing.assert_array_equal(clean, denoise(frame, channel_axis=-1, **options))


@pytest.mark.parametrize(
    ("shape", "arguments", "error", "message"),
    [
        ((20, 20, 3), {}, ValueError, "pass channel_axis=-1 for a color image"),
        ((20, 20), {"channel_axis": -1}, ValueError, r"image has shape \(20, 20\); expected three dimensions for an image with channel_axis"),
        ((20, 20, 3), {"channel_axis": 3}, ValueError, "channel_axis is 3; expected a number from -3 to 2"),
        ((20, 20, 3), {"channel_axis": "last"}, TypeError, "channel_axis is 'last'; expected a whole number or None"),
        ((2, 20, 20, 3), {"channel_axis": 0, "stack_axis": -4}, ValueError, "stack_axis is -4 and channel_axis is 0; expected two different axes"),
        ((2, 20, 20, 3), {"channel_axis": 0}, ValueError, r"image has shape \(2, 20, 20, 3\); expected three dimensions"),
        ((20, 20, 3), {"channel_axis": 2, "sigma": [1, 2]}, ValueError, "sigma has 2 numbers; expected one, or one for each channel, of which there are 3"),
        ((20, 20, 3), {"channel_axis": 2, "sigma": np.ones((3, 20, 20))}, ValueError, r"sigma has shape \(3, 20, 20\); expected a number, one for each channel, or \(20, 20, 3\) or \(20, 20\)"),
        ((20, 20, 3), {"channel_axis": 2, "mask": np.ones((3, 20), bool)}, ValueError, r"mask has shape \(3, 20\); expected \(20, 20, 3\) or \(20, 20\)"),
    ],
)  # fmt: skip
def test_bad_channels(shape, arguments, error, message):
    with pytest.raises(error, match=message):
        denoise(np.zeros(shape), **arguments)


# Channels of very different kinds.


def gray(seed=0):
    return data.camera()[100 : 100 + 128, 100 + seed : 228 + seed].astype(np.float64)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e3, 1e6])
def test_the_scale_of_one_channel_does_not_matter_to_another(factor):
    clean = np.stack([photograph()[..., 1], np.rot90(photograph()[..., 1])])
    noisy = with_noise(clean)
    scaled = noisy * np.array([1, factor])[:, None, None]
    result = denoise(scaled, [SIGMA, SIGMA * factor], channel_axis=0)
    expected = denoise(noisy, SIGMA, channel_axis=0)
    np.testing.assert_allclose(result[0], expected[0], atol=0.02)
    np.testing.assert_allclose(result[1] / factor, expected[1], atol=0.02)


def test_an_offset_between_channels_does_not_count_as_range():
    noisy = with_noise(np.stack([gray() / 255, gray()[::-1] / 255 + 1000]), 0.1)
    result = denoise(noisy, 0.1, channel_axis=0)
    alone = denoise(noisy[0], 0.1)
    np.testing.assert_allclose(result[0], alone, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "tolerance"), [("fast", 0.001), ("standard", 0.06)])
def test_a_channel_without_noise_is_returned_unchanged(method, tolerance):
    """In the rounds of "standard", the last digits of the planes decide which of two patches is a bit more similar."""
    noisy = with_noise(photograph())
    alpha = np.full((*noisy.shape[:2], 1), 65535.0)
    image = np.concatenate([noisy, alpha], axis=-1)
    options = {"channel_axis": -1, "data_range": 255, "method": method}
    result = denoise(image, [SIGMA, SIGMA, SIGMA, 0], **options)
    np.testing.assert_array_equal(result[..., 3], 65535)
    np.testing.assert_allclose(result[..., :3], denoise(noisy, SIGMA, **options), atol=tolerance)
    blind = denoise(image, channel_axis=-1, method=method)
    np.testing.assert_array_equal(blind[..., 3], 65535)
    assert psnr(blind[..., :3], photograph()) > 30.5


def test_channels_of_unlike_brightness_and_noise_are_not_taken_for_counts():
    rng = np.random.default_rng(0)
    cells = data.coins()[:128, :128].astype(float) + 500
    image = np.stack(
        [gray() + rng.normal(0, 10, (128, 128)), cells + rng.normal(0, 30, (128, 128))]
    )
    noise = nlridge.estimate_noise(image, channel_axis=0)
    assert isinstance(noise, nlridge.GaussianNoise)
    np.testing.assert_allclose(noise.sigma, [10, 30], rtol=0.05)


def test_counts_are_recognised_beside_a_constant_channel():
    counts = np.random.default_rng(0).poisson(photograph(256) / 255 * 100).astype(float)
    alpha = np.full((*counts.shape[:2], 1), 100.0)
    noise = nlridge.estimate_noise(np.concatenate([counts, alpha], axis=-1), channel_axis=-1)
    assert isinstance(noise, nlridge.PoissonGaussianNoise)
    assert noise.gain == pytest.approx(1, rel=0.05)


def test_a_missing_channel_of_a_pixel_costs_the_others_little():
    clean = photograph()
    noisy = with_noise(clean)
    red = np.random.default_rng(1).random(clean.shape[:2]) < 0.4
    holes = noisy.copy()
    holes[red, 0] = np.nan
    whole, part = (denoise(a, SIGMA, channel_axis=-1, data_range=255) for a in (noisy, holes))
    for channel in (1, 2):
        assert psnr(part[..., channel], clean[..., channel]) > psnr(whole[..., channel], clean[..., channel]) - 0.5  # fmt: skip


@pytest.mark.parametrize("exponent", [-900, -500, 500, 900])
def test_scaling_by_extreme_powers_of_two(exponent):
    a = 2.0**exponent
    noisy = with_noise(photograph(40))
    scaled = denoise(a * noisy, a * SIGMA, channel_axis=-1, data_range=a * 255)
    np.testing.assert_array_equal(
        scaled / a, denoise(noisy, SIGMA, channel_axis=-1, data_range=255)
    )


# Separate amounts for brightness and color.


def _removed(noisy, **options):
    """How much is removed from the brightness and from the differences of colors, (root mean squares)."""
    planes = (noisy - denoise(noisy, SIGMA, channel_axis=-1, **options)) @ OPPONENT.T
    return np.sqrt(np.mean(planes[..., 0] ** 2)), np.sqrt(np.mean(planes[..., 1:] ** 2))


@pytest.mark.parametrize("method", ["fast", "standard", "nl-ridge"])
def test_more_color_removes_more_color_alone(method):
    noisy = with_noise(photograph(96))
    amounts = [_removed(noisy, method=method, color=c) for c in (0.1, 0.5, 0.8, 1, 1.5, 3)]
    brightness, colors = np.array(amounts).T
    assert np.all(np.diff(colors) > 0)
    assert colors[0] < 0.2 * SIGMA
    np.testing.assert_allclose(brightness, brightness[3], rtol=0.02)


def test_color_is_a_factor_on_strength():
    noisy = with_noise(photograph(64))
    neutral = denoise(noisy, SIGMA, channel_axis=-1)
    np.testing.assert_array_equal(denoise(noisy, SIGMA, channel_axis=-1, color=1), neutral)
    # The noise of colors is treated as it is.
    amounts = _removed(noisy, strength=0.5, color=2)
    assert amounts[0] < 0.9 * _removed(noisy)[0]
    assert amounts[1] == pytest.approx(_removed(noisy)[1], rel=0.02)


def test_a_large_amount_of_color_inverts_no_structure():
    clean = photograph(96)
    noisy = with_noise(clean, 10)
    result = denoise(noisy, 10, channel_axis=-1, color=20)
    colors, true = ((image @ OPPONENT.T)[..., 1:] for image in (result, clean))
    assert np.corrcoef(colors.ravel(), true.ravel())[0, 1] > 0.9


@pytest.mark.parametrize("method", ["fast", "nl-ridge"])
def test_kernels_agree_with_formulas_on_color(method):
    noisy = with_noise(photograph(48))
    levels = np.broadcast_to(np.linspace(15, 25, 48), (48, 48))
    for sigma in (SIGMA, levels):
        options = {"channel_axis": -1, "color": 1.7, "data_range": 255}
        recipe = nlridge.denoise_with_details(noisy, sigma, method=method, **options).recipe
        by_kernels = denoise(noisy, sigma, method=recipe, **options)
        formulas = replace(recipe, family=without_kernels(recipe.family))
        by_formulas = denoise(noisy, sigma, method=formulas, **options)
        np.testing.assert_allclose(by_kernels, by_formulas, atol=0.05)


@pytest.mark.slow
def test_color_has_the_same_bits_in_tiles_and_with_dask(tmp_path):
    dask = pytest.importorskip("dask.array")
    noisy = with_noise(photograph(100)).astype(np.float32)
    options = {"channel_axis": -1, "color": 1.7, "strength": 0.8, "data_range": 255}
    whole = denoise(noisy, SIGMA, **options)
    tiled = denoise_to_disk(noisy, tmp_path / "tiled.npy", SIGMA, tile=64, **options)
    np.testing.assert_array_equal(tiled, whole)
    lazy = prepare(dask.from_array(noisy, chunks=(64, 64, 3)), SIGMA, tile=64, **options).denoise()
    np.testing.assert_array_equal(lazy.compute(), whole)


def test_color_of_frames_and_tensors():
    torch = pytest.importorskip("torch")
    noisy = np.stack([with_noise(photograph(48), seed=seed) for seed in range(3)])
    options = {"channel_axis": -1, "time_axis": 0, "method": "fast", "data_range": 255}
    results = [denoise(noisy, SIGMA, color=c, **options) for c in (0.3, 1, 2)]
    removed = [np.std(((noisy - result) @ OPPONENT.T)[..., 1:]) for result in results]
    assert removed[0] < 0.6 * removed[1] < 0.6 * removed[2]
    with_gradient = torch.tensor(noisy[0], requires_grad=True)
    options = {"channel_axis": -1, "color": 2, "method": "fast", "data_range": 255}
    by_tensors = denoise(with_gradient, SIGMA, **options).detach().numpy()
    np.testing.assert_allclose(by_tensors, denoise(noisy[0], SIGMA, **options), atol=0.05)


@pytest.mark.parametrize(
    ("channels", "sentence"),
    [
        (1, "color is 2, which has no effect, since the image is gray; expected 1"),
        (2, "color is 2, which has no effect, since the channels are denoised separately"),
    ],
)
def test_color_without_effect_gets_a_warning(channels, sentence):
    noisy = np.random.default_rng(0).normal(100, SIGMA, (channels, 64, 64))
    with pytest.warns(UserWarning, match=sentence):
        denoise(noisy, SIGMA, channel_axis=0, color=2, method="fast")


def test_color_must_be_a_factor():
    with pytest.raises(ValueError, match="color is 0; expected a positive number"):
        denoise(photograph(32), 10, channel_axis=-1, color=0)
    with pytest.raises(ValueError, match=r"color is 200; expected a number from 0.01 to 100"):
        denoise(photograph(32), 10, channel_axis=-1, color=200)

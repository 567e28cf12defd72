"""How correlated noise is made white: group by group, or by a filter on the image."""

import numpy as np
import pytest
from correlated_images import KERNELS, correlation_of, in_groups, kernels, methods, noise_of, scene
from images import photograph

import nlridge
from nlridge import CorrelatedNoise
from nlridge.core.algorithm.filtering import (
    REACH,
    clear_frequencies,
    filtered,
    filters_of,
    is_narrow,
)
from nlridge.core.families import GroupNoise, whitening

# The covariance of a group, and its approximation by a Kronecker product.


def exact_covariance(correlation, patch, rows, columns):
    """The covariance of all pixels of a group, ordered as those of C ⊗ T."""
    y, x = (axis.ravel() for axis in np.mgrid[:patch, :patch])
    y, x = ((q[:, None] + p).ravel() for q, p in ((y, rows), (x, columns)))
    return whitening._at(correlation, y[:, None] - y, x[:, None] - x)


def factors(correlation, patch, window, rows, columns):
    """C and T of a group, and W ⊗ I, which whitens its pixels."""
    tables = whitening.whitening_of(correlation[None], patch, window)
    reach = window - 1
    T = tables.between[rows[:, None] - rows + reach, columns[:, None] - columns + reach]
    return tables.color @ tables.color, T, np.kron(tables.whiten, np.eye(len(rows)))


def spread_positions(count, step, seed=0):
    """Positions on a grid of the given step, in random order."""
    side = int(np.ceil(np.sqrt(count)))
    chosen = np.random.default_rng(seed).permutation(side**2)[:count]
    return step * (chosen // side), step * (chosen % side)


def relative_error(approximation, exact):
    return np.linalg.norm(approximation - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("name", "step", "both", "pixels_alone"),
    [
        ("white", 1, 0.926, 0.926),
        ("white", 5, 0.0, 0.0),
        ("blur", 1, 0.886, 0.936),
        ("blur", 5, 0.350, 0.350),
        ("blur", 8, 0.002, 0.002),
        ("horizontal lines", 1, 0.813, 0.943),
        ("horizontal lines", 5, 0.293, 0.730),
        ("vertical lines", 5, 0.282, 0.740),
        ("rings", 1, 0.829, 0.940),
        ("rings", 5, 0.568, 0.622),
        ("rings", 8, 0.382, 0.406),
    ],
)
def test_how_far_the_kronecker_product_is_from_the_covariance_of_a_group(
    name, step, both, pixels_alone
):
    """The relative error of C ⊗ T, and of C ⊗ I, for 12 patches of 5 x 5 on a grid: overlapping, touching or apart.

    If patches overlap, the same pixels are in several patches at different places. No Kronecker product describes
    that, not even for white noise.
    """
    correlation = correlation_of(KERNELS.get(name, np.ones((1, 1))))
    rows, columns = spread_positions(12, step)
    exact = exact_covariance(correlation, 5, rows, columns)
    C, T, _ = factors(correlation, 5, 41, rows, columns)
    assert relative_error(np.kron(C, T), exact) == pytest.approx(both, abs=0.002)
    assert relative_error(np.kron(C, np.eye(12)), exact) == pytest.approx(pixels_alone, abs=0.002)
    if name != "white":
        assert relative_error(np.eye(12 * 25), exact) > max(both + 0.05, 0.8)


@pytest.mark.parametrize("step", [1, 3, 5])
@kernels
def test_the_covariance_of_patches_is_exact_on_average_over_their_pixels(kernel, step):
    """T is E[V'V] / n for the noise V of a group whose pixels are white, up to a factor: all that NL-Ridge needs."""
    correlation = correlation_of(kernel)
    rows, columns = spread_positions(12, step)
    exact = exact_covariance(correlation, 5, rows, columns)
    _, T, W = factors(correlation, 5, 41, rows, columns)
    gram = np.einsum("ijik->jk", (W @ exact @ W.T).reshape(25, 12, 25, 12))
    # Lines are so long that the window cuts off their correlation, which is made positive definite again.
    np.testing.assert_allclose(gram / gram[0, 0], T, atol=0.02 if 1 in kernel.shape else 1e-6)


@kernels
def test_whitened_noise_is_white(kernel):
    """Drawn from images, in groups of patches that overlap: on average over patches, and over pixels."""
    draws, n, m = 1500, 25, 12
    rows, columns = spread_positions(m, 1)
    images = noise_of(kernel, (draws, 12, 12))
    y, x = (axis.ravel()[:, None] for axis in np.mgrid[:5, :5])
    groups = images[:, y + rows, x + columns]
    tables = whitening.whitening_of(correlation_of(kernel)[None], 5, 21)
    seen = []

    def nothing(Y, X, noise):
        seen.append(Y)
        return Y, np.ones(Y[..., 0, :].shape)

    unchanged, _ = whitening.evaluate_whitened(
        nothing, groups, groups, GroupNoise(1.0), tables, rows, columns
    )
    np.testing.assert_allclose(unchanged, groups, atol=1e-9)

    def distances_from_white(values):
        between_patches = np.mean(values.mT @ values, axis=0)
        between_pixels = np.mean(values @ values.mT, axis=0)
        return [
            np.sqrt(np.mean((covariance / np.diag(covariance).mean() - np.eye(size)) ** 2))
            for covariance, size in ((between_patches, m), (between_pixels, n))
        ]

    before, after = distances_from_white(groups), distances_from_white(seen[0])
    assert min(before) > 0.25
    assert after[0] < min(0.15, before[0] / 3)
    assert after[1] < min(0.15, before[1] / 2)


def test_factors_that_are_nearly_constant_keep_the_whitening_invertible():
    """Where the vector of the reflection is next to nothing, there is none."""
    for spread in (0.0, 1e-8, 1e-6, 1e-5, 2e-5, 1e-4, 1e-2, 1.0):
        u = 1 + spread * np.random.default_rng(0).normal(size=(12, 1))
        R = whitening._reflection(u)
        np.testing.assert_allclose(R @ R, np.eye(12), atol=1e-9)
        np.testing.assert_allclose(np.ptp(R @ u), 0, atol=1e-3)


# The filter on the image.


@pytest.mark.parametrize("name", ["blur", "pink"])
def test_a_filter_makes_noise_of_short_correlation_white(name):
    distance = np.hypot(*np.mgrid[-4:5, -4:5])
    kernel = np.exp(-(distance**2)) if name == "blur" else 1 / (1 + distance) ** 2
    correlation = CorrelatedNoise.from_kernel(1, kernel).correlation
    filters = filters_of(np.stack([correlation, 4 * correlation]))
    noise = np.random.default_rng(0).normal(size=(2, 300, 300))
    power = np.abs(np.fft.fft2(kernel / np.sqrt(np.sum(kernel**2)), (300, 300)))
    colored = np.fft.ifft2(np.fft.fft2(noise) * power).real * np.array([1, 2])[:, None, None]
    white = filtered(colored.astype(np.float32), filters.whiten)
    for plane in white:
        assert np.std(plane) == pytest.approx(1, rel=0.03)
        for shift in ((0, 1), (1, 0), (1, 1), (0, 2), (3, 1)):
            assert abs(np.mean(plane * np.roll(plane, shift, (0, 1)))) < 0.2
    back = filtered(white, filters.color)
    assert np.std(back - colored) < 0.1 * np.std(colored)


@pytest.mark.parametrize(
    "noise",
    [CorrelatedNoise.lines(1, length=31), CorrelatedNoise.waves(1, period=(6, 9), white=0.1)],
)
def test_no_short_filter_makes_stripes_and_waves_white(noise):
    assert filters_of(noise.correlation[None]) is None


def test_white_noise_needs_no_filter():
    assert filters_of(None) is None


def test_a_filter_is_a_convolution_of_the_mirrored_image():
    rng = np.random.default_rng(0)
    image = rng.normal(size=(2, 5, 70)).astype(np.float32)
    taps = rng.normal(size=(2, 2 * REACH + 1, 2 * REACH + 1)).astype(np.float32)
    taps += taps[:, ::-1, ::-1]
    wide = np.pad(image, ((0, 0), (REACH, REACH), (REACH, REACH)), "symmetric").astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(wide, taps.shape[1:], axis=(1, 2))
    expected = np.einsum("pyxij,pij->pyx", windows, taps)
    np.testing.assert_allclose(filtered(image, taps), expected, atol=1e-3)
    torch = pytest.importorskip("torch")
    tensor = filtered(torch.tensor(image)[:, None], taps)[:, 0]
    np.testing.assert_allclose(tensor.numpy(), expected, atol=1e-3)


def test_a_filter_is_as_good_as_groups_on_a_photograph():
    noisy, options = scene("gray", (96, 96))
    fast, slow = (
        nlridge.denoise(noisy, method=recipe, data_range=255, **options)
        for recipe in (
            nlridge.recipe("standard", 20, correlation="short"),
            in_groups("standard"),
        )
    )
    assert np.std(fast - slow) < 0.3 * 20


def test_the_best_method_whitens_groups():
    assert not nlridge.recipe("best", 20).prefilter
    assert nlridge.recipe("standard", 20).prefilter


# Frequencies at which there is no noise.


@pytest.mark.parametrize("kind", ["horizontal lines", "rings"])
def test_clear_frequencies_are_restored(kind):
    """At the frequencies of the noise, nothing of the noise passes; at clear ones, lost detail comes back."""
    correlation = correlation_of(KERNELS[kind])[None]
    taps = clear_frequencies(correlation).restore
    noise = noise_of(KERNELS[kind], (160, 160))[None].astype(np.float32)
    assert np.var(filtered(noise, taps)) < 0.01
    lost = np.random.default_rng(0).normal(0, 0.2, noise.shape).astype(np.float32)
    assert np.var(lost - filtered(lost, taps)) < 0.35 * np.var(lost)


@pytest.mark.parametrize("white", [0.0, 0.2])
def test_endless_stripes_do_not_come_back_with_clear_frequencies(white):
    taps = clear_frequencies(CorrelatedNoise.lines(1, white=white).correlation[None]).restore
    rng = np.random.default_rng(0)
    stripes = np.repeat(rng.normal(0, 1, (1, 160, 1)), 160, axis=2).astype(np.float32)
    assert np.var(filtered(stripes, taps)) < 0.1


def test_noise_of_few_frequencies_is_narrow():
    narrow = {name: is_narrow(correlation_of(kernel)[None]) for name, kernel in KERNELS.items()}
    assert narrow["horizontal lines"]
    assert narrow["vertical lines"]
    assert narrow["rings"]
    assert not narrow["blur"]
    assert not is_narrow(np.ones((1, 1, 1)))


@methods
def test_detail_at_clear_frequencies_survives(method):
    """What is removed has hardly any power at the frequencies at which the noise has none."""
    kernel = KERNELS["horizontal lines"]
    clean = photograph(96).mean(axis=-1)
    noisy = clean + 25 * noise_of(kernel, clean.shape)
    noise = CorrelatedNoise.from_kernel(25, kernel)
    removed = noisy - nlridge.denoise(noisy, noise=noise, method=method, data_range=255)
    taps = clear_frequencies(noise.correlation[None]).compare
    assert np.std(filtered(removed[None].astype(np.float32), taps)) < 1.4

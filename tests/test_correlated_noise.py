"""Noise that is correlated from pixel to pixel: the model, the whitening of groups, and all engines."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from groups import without_kernels
from images import photograph, psnr
from test_families import FAMILIES, TAME

import nlridge
from nlridge import CorrelatedNoise, GaussianNoise, PoissonGaussianNoise, Recipe, Rounds, Step
from nlridge.algorithm import pyramid
from nlridge.algorithm.filtering import REACH, clear_frequencies, filtered, filters_of, is_narrow
from nlridge.algorithm.inputs import PartialDenoising, PlaneNoise, StepInputs
from nlridge.algorithm.passes import Pass
from nlridge.engines import cpu
from nlridge.families import GroupNoise, whitening

_gaussian = np.exp(-(np.arange(-4, 5) ** 2) / (2 * 0.8**2))
_y, _x = np.mgrid[-10:11, -10:11]
KERNELS = {
    "blur": np.outer(_gaussian, _gaussian),
    "horizontal lines": np.array([16.0 - abs(np.arange(-15, 16))]),
    "vertical lines": np.array([16.0 - abs(np.arange(-15, 16))]).T,
    "rings": np.cos(np.hypot(_x, _y)) * np.exp(-(_x**2 + _y**2) / 200),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
methods = pytest.mark.parametrize("method", nlridge.method_names())
two_methods = pytest.mark.parametrize("method", ["fast", "standard"])


def noise_of(kernel, shape, seed=0):
    """White noise convolved with a kernel, with a variance of 1."""
    height, width = (a + b - 1 for a, b in zip(shape[-2:], kernel.shape, strict=True))
    white = np.random.default_rng(seed).normal(size=(*shape[:-2], height, width))
    spectrum = np.fft.fft2(white) * np.fft.fft2(kernel / np.linalg.norm(kernel), (height, width))
    top, left = (length - 1 for length in kernel.shape)
    return np.fft.ifft2(spectrum).real[..., top:, left:]


def correlation_of(kernel):
    return CorrelatedNoise.from_kernel(1, kernel).correlation


def blurred_with(neighbour):
    """The correlation of noise whose neighbours have the given correlation."""
    return np.outer([neighbour, 1, neighbour], [neighbour, 1, neighbour])


def test_noise_of_a_few_frequencies_needs_more_rounds():
    clean = photograph(96).mean(axis=2)
    noisy = clean + 8 * noise_of(KERNELS["rings"], clean.shape)
    recipe = nlridge.recipe("standard", 8, correlation="long")
    two = replace(recipe, rounds=nlridge.recipe("standard", 8).rounds, coarse=None)
    noise = CorrelatedNoise.from_kernel(8, KERNELS["rings"])
    more, fewer = (
        psnr(nlridge.denoise(noisy, noise=noise, method=method), clean)
        for method in (replace(recipe, coarse=None), two)
    )
    assert more > fewer + 0.05


# The model.


def test_a_share_of_the_noise_is_removed(tmp_path):
    """In memory, on disk, and from tensors that need a gradient."""
    image = photograph(64)[..., 0] + 10 * noise_of(KERNELS["blur"], (64, 64))
    whole, half = (
        CorrelatedNoise(10, correlation_of(KERNELS["blur"]), share) for share in (1, 0.5)
    )
    assert whole != half
    assert half == pickle.loads(pickle.dumps(half))
    assert repr(half).endswith(", share=0.5)")
    assert str(half) == f"{whole}, of which 50% is to be removed"
    run = partial(nlridge.denoise, method="fast")
    expected = (image + run(image, noise=whole)) / 2
    result = run(image, noise=half)
    np.testing.assert_allclose(result, expected, atol=1e-3)
    np.testing.assert_array_equal(run(image, noise=half, out=tmp_path / "half.npy"), result)
    # A strength of 1 / share removes all.
    np.testing.assert_array_equal(
        run(image, noise=half, strength=2), run(image, noise=whole, strength=2)
    )
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(image, requires_grad=True)
    np.testing.assert_allclose(run(tensor, noise=half).detach(), result, atol=0.05)


def test_a_kernel_has_the_correlation_of_the_noise_that_it_makes():
    kernel = np.random.default_rng(0).normal(size=(3, 4))
    noise = noise_of(kernel, (1000, 1000))
    correlation = correlation_of(kernel)
    assert correlation.shape == (5, 7)
    for dy in range(3):
        for dx in range(-3, 4):
            moved = noise[dy : 990 + dy, 3 + dx : 990 + dx]
            assert np.mean(noise[:990, 3:990] * moved) == pytest.approx(
                correlation[2 + dy, 3 + dx], abs=0.01
            )


def test_a_spectrum_is_that_of_the_bm3d_package():
    """`sigma_psd` is the expected square of the Fourier transform of the noise, for the shape of the image."""
    kernel = KERNELS["blur"] / np.linalg.norm(KERNELS["blur"])
    for shape in ((64, 80), (63, 81)):
        spectrum = 7.0**2 * np.abs(np.fft.fft2(kernel, shape)) ** 2 * shape[0] * shape[1]
        white = np.random.default_rng(0).normal(0, 7, (200, *shape))
        noise = np.fft.ifft2(np.fft.fft2(white) * np.fft.fft2(kernel, shape)).real
        np.testing.assert_allclose(
            np.mean(np.abs(np.fft.fft2(noise)) ** 2) / spectrum.mean(), 1, atol=0.01
        )
        model = CorrelatedNoise.from_spectrum(spectrum)
        assert model.level == pytest.approx(noise.std(), rel=0.01)
        expected = CorrelatedNoise.from_kernel(7.0, kernel).correlation
        np.testing.assert_allclose(model.correlation, expected, atol=1e-9)
    channels = CorrelatedNoise.from_spectrum([spectrum, 4 * spectrum])
    assert channels.level == pytest.approx([7, 14])
    assert channels.correlation.shape == (2, *expected.shape)
    assert CorrelatedNoise.from_spectrum(spectrum, 3.0).level == 3


def test_lines_are_correlated_along_one_axis():
    rows = CorrelatedNoise.lines(5)
    assert rows.correlation.shape == (1, 255)
    assert np.all(rows.correlation == 1)
    columns = CorrelatedNoise.lines(5, axis=0, length=10, white=0.2)
    assert columns.correlation.shape == (19, 1)
    assert columns.correlation[9, 0] == 1
    np.testing.assert_allclose(columns.correlation[10:, 0], 0.8 * (1 - np.arange(1, 10) / 10))


def test_waves_are_those_of_a_pattern_at_a_random_place():
    noise = CorrelatedNoise.waves(5, period=(8, -4))
    y, x = np.mgrid[:160, :160]
    pattern = np.sqrt(2) * np.cos(2 * np.pi * (y / 8 - x / 4) + 1)
    middle = np.array(noise.correlation.shape) // 2
    for dy, dx in ((0, 0), (0, 1), (1, 0), (3, 2), (-5, 7)):
        moved = np.roll(pattern, (-dy, -dx), axis=(0, 1))
        assert noise.correlation[middle[0] + dy, middle[1] + dx] == pytest.approx(
            np.mean(pattern * moved)
        )


def test_negligible_margins_are_cropped():
    wide = np.zeros((41, 31))
    wide[19:22, 14:17] = blurred_with(0.4)
    wide[0, 0] = wide[-1, -1] = 5e-4
    assert CorrelatedNoise(1, wide) == CorrelatedNoise(1, blurred_with(0.4))
    long = np.ones((1, 1001))
    assert CorrelatedNoise(1, long) == CorrelatedNoise.lines(1)


def test_models_are_values():
    noise = CorrelatedNoise(8, blurred_with(0.5))
    again = pickle.loads(pickle.dumps(noise))
    assert noise == again
    assert hash(noise) == hash(again)
    assert noise == CorrelatedNoise(GaussianNoise(8.0), blurred_with(0.5).tolist())
    assert noise != CorrelatedNoise(8, blurred_with(0.4))
    assert noise != CorrelatedNoise(7, blurred_with(0.5))
    assert noise != GaussianNoise(8)
    with pytest.raises(AttributeError):
        noise.noise = GaussianNoise(1)
    with pytest.raises(ValueError, match="read-only"):
        noise.correlation[0, 0] = 1
    assert repr(noise) == (
        "CorrelatedNoise(GaussianNoise(sigma=8.0), correlation=an array of shape (3, 3))"
    )


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (CorrelatedNoise(8, blurred_with(0.5)),
         "Gaussian noise with a standard deviation of 8, correlated over about 2 pixels"),
        (CorrelatedNoise(8, [[1]]),
         "Gaussian noise with a standard deviation of 8, correlated over about 1 pixel"),
        (CorrelatedNoise([1, 2], blurred_with(0.05)),
         "Gaussian noise with standard deviations of 1 and 2 in the channels, correlated over about 1 pixel"),
        (CorrelatedNoise(PoissonGaussianNoise(2), [[0.5, 1, 0.5]]),
         "Poisson noise with a gain of 2, correlated over about 1 x 2 pixels"),
    ],
)  # fmt: skip
def test_models_are_printed_in_plain_words(noise, words):
    assert str(noise) == words


NOT_A_MATRIX = [[1.0, -0.9, -0.9], [-0.9, 1.0, -0.9], [-0.9, -0.9, 1.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CorrelatedNoise("ten", [[1]]), "noise is 'ten'; expected a number or an array of numbers"),
        (lambda: CorrelatedNoise(-1, [[1]]), "noise is -1; expected a non-negative number below 1e300"),
        (lambda: CorrelatedNoise(CorrelatedNoise(1, [[1]]), [[1]]), r"noise is CorrelatedNoise\(.*; expected noise that is not correlated yet"),
        (lambda: CorrelatedNoise(1, [["1"]]), r"correlation is \[\['1'\]\]; expected an array of numbers"),
        (lambda: CorrelatedNoise(1, [[True]]), r"correlation is \[\[True\]\]; expected an array of numbers"),
        (lambda: CorrelatedNoise(1, [[1j]]), r"correlation is \[\[1j\]\]; expected an array of numbers"),
        (lambda: CorrelatedNoise(1, [[1, 2], [3]]), r"correlation is \[\[1, 2\], \[3\]\]; expected an array of numbers"),
        (lambda: CorrelatedNoise(1, [1]), r"correlation has shape \(1,\); expected \(height, width\)"),
        (lambda: CorrelatedNoise(1, np.zeros((0, 3))), r"correlation has shape \(0, 3\); expected \(height, width\)"),
        (lambda: CorrelatedNoise(1, [[np.nan]]), "correlation has values that are not finite; expected finite numbers"),
        (lambda: CorrelatedNoise(1, np.ones((2, 3))), r"correlation has shape \(2, 3\); expected an odd height and width, with the distance 0 in the middle"),
        (lambda: CorrelatedNoise(1, np.ones((2, 3, 1, 1))), r"correlation has shape \(2, 3, 1, 1\); expected \(channels, channels, height, width\)"),
        (lambda: CorrelatedNoise(1, [[2]]), r"correlation is .*2.* in the middle; expected 1"),
        (lambda: CorrelatedNoise(1, [[0.5, 1, 0.4]]), r"correlation differs for opposite distances; expected the same at \(dy, dx\) and \(-dy, -dx\)"),
        (lambda: CorrelatedNoise(1, [[1.5, 1, 1.5]]), "correlation is up to 1.5; expected at most 1"),
        (lambda: CorrelatedNoise(1, np.array(NOT_A_MATRIX)[..., None, None]), "correlation of the channels is .* in the middle; expected a positive semidefinite matrix"),
        (lambda: CorrelatedNoise(1, [[1]], share=1.5), "share is 1.5; expected a number from 0 to 1"),
        (lambda: CorrelatedNoise.from_kernel(1, [[0, 0]]), "kernel is 0; expected at least one other number"),
        (lambda: CorrelatedNoise.from_kernel(1, np.ones((1, 600))), r"kernel has shape \(1, 600\); expected at most 508 pixels along an axis"),
        (lambda: CorrelatedNoise.from_kernel(1, np.ones((2, 2, 3, 3))), r"kernel has shape \(2, 2, 3, 3\); expected \(height, width\)"),
        (lambda: CorrelatedNoise.from_kernel(1, "blur"), "kernel is 'blur'; expected an array of numbers"),
        (lambda: CorrelatedNoise.from_spectrum([[1, -1]]), "spectrum has negative values, or none but 0; expected the mean of abs"),
        (lambda: CorrelatedNoise.from_spectrum([[0, 0]]), "spectrum has negative values, or none but 0; expected the mean of abs"),
        (lambda: CorrelatedNoise.lines(1, axis=2), "axis is 2; expected 0 or 1"),
        (lambda: CorrelatedNoise.lines(1, length=0), "length is 0; expected at least 1"),
        (lambda: CorrelatedNoise.lines(1, length=2.5), "length is 2.5; expected a whole number"),
        (lambda: CorrelatedNoise.lines(1, white=1), "white is 1; expected a number from 0 to less than 1"),
        (lambda: CorrelatedNoise.lines(1, white=-0.1), "white is -0.1; expected a number from 0 to less than 1"),
        (lambda: CorrelatedNoise.lines(1, white="a"), "white is 'a'; expected a number"),
        (lambda: CorrelatedNoise.waves(1, period=4), "period is 4; expected two numbers of at least 2"),
        (lambda: CorrelatedNoise.waves(1, period=(0, 4)), r"period is \(0, 4\); expected two numbers of at least 2"),
        (lambda: CorrelatedNoise.waves(1, period=(np.inf, np.inf)), "expected two numbers of at least 2, not both infinite"),
        (lambda: CorrelatedNoise.waves(1, period=(4, 5), white=2), "white is 2; expected a number from 0 to less than 1"),
        (lambda: nlridge.denoise(np.zeros((9, 9)), noise=CorrelatedNoise(1, np.ones((3, 1, 1)))), "correlation is that of 3 channels; expected one for all, or 1"),
    ],
)  # fmt: skip
def test_impossible_noise_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


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
    return tables.colour @ tables.colour, T, np.kron(tables.whiten, np.eye(len(rows)))


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


# Kernels and formulas, engines, and ways to divide the work.


def planes_with_noise(count, shape):
    """The correlation of each of some planes, in units of one variance, and their noise."""
    kinds = [KERNELS["blur"], KERNELS["rings"], KERNELS["horizontal lines"]][:count]
    correlation = np.zeros((count, 41, 61))
    for k, kernel in enumerate(kinds):
        own = (1 + k) * correlation_of(kernel)
        margins = [(whole - part) // 2 for whole, part in zip((41, 61), own.shape, strict=True)]
        correlation[k] = np.pad(own, [(margin, margin) for margin in margins])
    noise = [np.sqrt(1 + k) * noise_of(kernel, shape, k) for k, kernel in enumerate(kinds)]
    return correlation, np.stack(noise)


def step_inputs(planes, *, is_second, uneven=False, partly=False):
    """Inputs of a pass over a small image; many groups at its borders are small."""
    correlation, noise = planes_with_noise(planes, (22, 24))
    y, x = np.mgrid[:22, :24]
    clean = np.stack([8 * np.sin(x / 3 + k) * np.cos(y / 4) + 10 for k in range(planes)])
    levels = 0.5 + x / 24 if uneven else np.ones(x.shape)
    noisy, less, pilot = (
        (clean + share * levels * noise).astype(np.float32) for share in (1, 0.6, 0.2)
    )
    variance = np.square(levels).astype(np.float32)[None] if uneven else 1.0
    guide = pilot if is_second else noisy
    return StepInputs(
        less if partly else noisy,
        guide=guide,
        similar=guide[:1],
        noise=PlaneNoise(variance, correlation),
        partly=PartialDenoising(noisy, 0.3) if partly else None,
    )


SETTINGS = Step(5, 30, stride=3, window=9)
KINDS = [
    (name, step, kind)
    for name, step in TAME
    for kind in ("plain", "uneven", "partly denoised", "uneven and partly denoised")
    if step == "refine" or "partly" not in kind  # rounds are those of the second step
]


@pytest.mark.parametrize("planes", [1, 3])
@pytest.mark.parametrize(("name", "step", "kind"), KINDS)
def test_kernel_and_formula_agree(name, step, kind, planes):
    family, is_second = FAMILIES[name], step == "refine"
    options = {"uneven": "uneven" in kind, "partly": "partly" in kind}
    inputs = step_inputs(planes, is_second=is_second, **options)
    run = partial(cpu.run_pass, inputs, workers=1, tick=lambda: None)
    by_kernel, by_formula = (
        run(Pass(chosen, is_second, SETTINGS)) for chosen in (family, without_kernels(family))
    )
    assert np.abs(by_kernel[0] - inputs.noisy).mean() > 0.05
    for fast, slow in zip(by_kernel, by_formula, strict=True):
        np.testing.assert_allclose(fast, slow, atol=5e-4)  # of a noise level of 1


@pytest.mark.parametrize("kind", ["horizontal lines", "rings"])
def test_clear_frequencies_are_regained(kind):
    """At the frequencies of the noise, nothing of the noise passes; at clear ones, lost detail comes back."""
    correlation = correlation_of(KERNELS[kind])[None]
    taps = clear_frequencies(correlation).regain
    noise = noise_of(KERNELS[kind], (160, 160))[None].astype(np.float32)
    assert np.var(filtered(noise, taps)) < 0.01
    lost = np.random.default_rng(0).normal(0, 0.2, noise.shape).astype(np.float32)
    assert np.var(lost - filtered(lost, taps)) < 0.35 * np.var(lost)


@pytest.mark.parametrize("white", [0.0, 0.2])
def test_endless_stripes_do_not_come_back_with_clear_frequencies(white):
    taps = clear_frequencies(CorrelatedNoise.lines(1, white=white).correlation[None]).regain
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


def in_groups(method):
    """A recipe of two scales that whitens groups even where a filter would do."""
    recipe = nlridge.recipe(method, 20, correlation="long")
    recipe = replace(recipe, prefilter=False, coarse=None)
    return replace(recipe, coarse=nlridge.CoarseScale(recipe, pilot_level=2))


def small(method):
    """A recipe with smaller windows, for speed, that whitens group by group."""
    recipe = in_groups(method)

    def smaller(recipe):
        first, second = (
            replace(step, group_size=min(step.group_size, 24), window=11)
            for step in (recipe.first, recipe.second)
        )
        return replace(recipe, first=first, second=second)

    recipe = smaller(recipe)
    coarse = replace(recipe.coarse, recipe=smaller(recipe.coarse.recipe))
    return replace(recipe, coarse=coarse)


def scene(kind, shape=(90, 44)):
    """A noisy image, and the arguments of `denoise` that describe its noise."""
    blur, lines = KERNELS["blur"], KERNELS["vertical lines"]
    y, x = np.mgrid[: shape[0], : shape[1]]
    clean = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    if kind == "gray":
        return clean + 20 * noise_of(blur, shape), {"noise": CorrelatedNoise.from_kernel(20, blur)}
    if kind == "poisson":
        # Noise of the variance of counts, and correlated.
        noisy = clean + np.sqrt(3 * clean) * noise_of(blur, shape)
        return noisy, {"noise": CorrelatedNoise.from_kernel(PoissonGaussianNoise(3), blur)}
    clean = np.stack([clean, 0.8 * clean + 20, 0.5 * clean])
    if kind == "colour":
        mixing = np.array([[1, 0.5, 0], [0.2, 1, 0.5], [0, 0.5, 1]])
        mixing /= np.linalg.norm(mixing, axis=1, keepdims=True)
        noise = np.einsum("ij,jyx->iyx", mixing, noise_of(blur, clean.shape))
        between = (mixing @ mixing.T)[..., None, None] * correlation_of(blur)
        model = CorrelatedNoise([20, 15, 25], between)
        noisy = clean + np.array([20, 15, 25])[:, None, None] * noise
        return noisy, {"noise": model, "channel_axis": 0}
    assert kind == "channels"
    noise = np.stack([noise_of(blur, shape), noise_of(lines, shape), noise_of(blur, shape, 1)])
    kernels = np.zeros((3, 31, 31))
    kernels[0, :9, :9] = kernels[2, :9, :9] = blur
    kernels[1, :, :1] = lines
    model = CorrelatedNoise.from_kernel(20, kernels)
    return clean + 20 * noise, {"noise": model, "channel_axis": 0}


SCENES = ("gray", "poisson", "colour", "channels")


@pytest.mark.parametrize("kind", SCENES)
@methods
def test_tiles_are_the_same_as_the_whole_image(method, kind, tmp_path):
    noisy, options = scene(kind)
    options["method"] = method if kind == "gray" else small(method)
    whole = nlridge.denoise(noisy, workers=1, **options)
    assert np.array_equal(nlridge.denoise(noisy, workers=3, **options), whole)
    tiled = nlridge.denoise(noisy, out=tmp_path / "out.npy", tile=64, **options)
    assert np.array_equal(tiled, whole)


@pytest.mark.parametrize("tile", [64, 80, 200])
def test_tiles_of_any_height(tile, tmp_path):
    noisy, options = scene("gray", (150, 40))
    whole = nlridge.denoise(noisy, **options)
    tiled = nlridge.denoise(noisy, out=tmp_path / "out.npy", tile=tile, **options)
    assert np.array_equal(tiled, whole)


@pytest.mark.parametrize("shape", [(2, 2), (3, 1), (1, 70)])
def test_tiles_of_a_tiny_image_with_a_map_of_levels(shape, tmp_path):
    random = np.random.default_rng(0)
    noisy, levels = 100 + 20 * random.normal(size=shape), random.uniform(10, 20, shape)
    options = {"noise": CorrelatedNoise.from_kernel(levels, KERNELS["blur"]), "data_range": 255}
    whole = nlridge.denoise(noisy, **options)
    tiled = nlridge.denoise(noisy, out=tmp_path / "out.npy", **options)
    assert np.array_equal(tiled, whole)


@pytest.mark.parametrize("kind", SCENES)
def test_dask_arrays_are_the_same_as_the_whole_image(kind):
    da = pytest.importorskip("dask.array")
    noisy, options = scene(kind)
    options["method"] = small("standard")
    later = nlridge.denoise(da.from_array(noisy), tile=64, **options)
    whole = nlridge.denoise(noisy, **options)
    assert np.array_equal(later.compute(scheduler="synchronous"), whole)


@pytest.mark.parametrize("kind", ["gray", "colour", "channels"])
@methods
def test_tensors_are_denoised_as_arrays_are(method, kind, one_torch_thread):
    torch = pytest.importorskip("torch")
    from nlridge.torch import NLRidge

    noisy, options = scene(kind, (40, 44))
    expected = nlridge.denoise(noisy, method=small(method), **options)
    channels = noisy.astype(np.float32).reshape(1, -1, 40, 44)
    model = options["noise"]
    module = NLRidge(small(method), data_range=255, correlation=model.correlation)
    sigma = torch.tensor(model.level, dtype=torch.float32).reshape(-1, 1, 1)
    result = module(torch.tensor(channels), sigma)[0].numpy().reshape(noisy.shape)
    if method == "bm3d":  # rounding decides about coefficients right at the threshold
        assert np.mean(np.abs(result - expected)) < 0.1
    else:
        np.testing.assert_allclose(result, expected, atol=0.01)


def test_gradients_are_finite_and_the_derivative(one_torch_thread):
    torch = pytest.importorskip("torch")
    from nlridge.families import TwoSided
    from nlridge.torch import NLRidge

    step = Step(3, 8, 3, 7)
    plain = Recipe(TwoSided(), step, step, Rounds(2, 0.5, 0.5))
    recipe = replace(plain, coarse=nlridge.CoarseScale(plain))
    module = NLRidge(recipe, correlation=blurred_with(0.4))
    x = torch.rand(1, 1, 10, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(partial(module, sigma=0.3), x.requires_grad_(), fast_mode=True)
    flat = torch.full((1, 3, 20, 20), 0.5, requires_grad=True)
    NLRidge(recipe, correlation=[[1]])(flat, 0.1).square().sum().backward()
    assert torch.isfinite(flat.grad).all()


@two_methods
def test_a_step_with_tensors_never_waits_for_the_device(method):
    torch = pytest.importorskip("torch")
    from test_torch import Calls

    from nlridge.algorithm.framework import denoised
    from nlridge.engines import torch as engine

    noisy = torch.empty(2, 1, 32, 33, device="meta")
    correlation = np.stack([blurred_with(0.4), blurred_with(0.2)])
    run = partial(engine.run_pass, max_memory=2**30)
    for variance in (1.0, torch.empty(1, 1, 32, 33, device="meta")):
        noise = PlaneNoise(variance, correlation)
        with Calls() as calls:
            *_, result = denoised(noisy, noise, small(method), run)
        assert result.device.type == "meta"
        assert "copy, waited for" not in calls.count


def test_a_batch_of_tensors(one_torch_thread):
    torch = pytest.importorskip("torch")
    from nlridge.torch import NLRidge

    module = NLRidge(small("standard"), correlation=blurred_with(0.4))
    assert "correlation=an array of shape (3, 3)" in repr(module)
    assert "correlation" not in repr(NLRidge())
    x = torch.rand(3, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    sigmas = torch.tensor([0.05, 0.1, 0.1])
    batch = module(x, sigmas)
    for image, sigma, result in zip(x, sigmas, batch, strict=True):
        torch.testing.assert_close(module(image[None], sigma)[0], result, atol=1e-4, rtol=0)
    channels = NLRidge(small("standard"), correlation=np.ones((2, 1, 1)))
    with pytest.raises(
        ValueError, match="correlation is that of 2 channels; expected one for all, or 3"
    ):
        channels(x, 0.1)


def test_denoise_takes_tensors(one_torch_thread):
    torch = pytest.importorskip("torch")
    noisy, options = scene("gray", (40, 44))
    result = nlridge.denoise(torch.tensor(noisy), method=small("standard"), **options)
    expected = nlridge.denoise(noisy, method=small("standard"), **options)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_allclose(result.numpy(), expected, atol=0.01)
    x = torch.tensor(noisy, requires_grad=True)
    with_gradient = nlridge.denoise(x, method=small("standard"), data_range=255, **options)
    np.testing.assert_allclose(with_gradient.detach().numpy(), expected, atol=0.01)
    counts = {"noise": CorrelatedNoise(PoissonGaussianNoise(1), [[1]])}
    with pytest.raises(ValueError, match="expected Gaussian noise"):
        nlridge.denoise(x, **counts)


# The whole algorithm.


@methods
def test_a_constant_that_is_added_to_the_image_is_added_to_the_result(method):
    noisy, options = scene("gray", (60, 50))
    options["method"] = small(method)
    result = nlridge.denoise(noisy, data_range=255, **options)
    brighter = nlridge.denoise(noisy + 1024, data_range=255, **options)
    np.testing.assert_allclose(brighter - 1024, result, atol=0.02)


@pytest.mark.parametrize("channels", [1, 3])
@methods
def test_a_correlation_of_0_is_nearly_white_noise(method, channels):
    clean = np.moveaxis(photograph(64), -1, 0)[:channels]
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    recipe = nlridge.recipe(method, 20, correlation="long")
    white, delta = (
        nlridge.denoise(noisy, noise=noise, method=recipe, channel_axis=0)
        for noise in (GaussianNoise(20), CorrelatedNoise(20, [[1]]))
    )
    assert psnr(delta, clean) == pytest.approx(psnr(white, clean), abs=0.1)
    assert np.std(delta - white) < 0.06 * 20


@kernels
def test_the_noise_of_the_coarser_image(kernel):
    correlation = correlation_of(kernel)
    coarse = pyramid.coarser_noise(PlaneNoise(4.0, correlation[None]))
    image = pyramid.coarser(2 * noise_of(kernel, (1, 1000, 1000)).astype(np.float32))[0]
    assert coarse.variance == 1
    inner = image[20:480, 20:480]
    for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1), (1, -1), (0, 3), (3, 0), (0, 9), (9, 0)):
        moved = image[20 + dy : 480 + dy, 20 + dx : 480 + dx]
        expected = whitening._at(coarse.correlation[0], dy, dx)
        assert np.mean(inner * moved) == pytest.approx(float(expected), abs=0.05)
    assert coarse.level == pytest.approx(np.std(inner), rel=0.02)


def gain(clean, noisy, noise, white, method, **options):
    """How much is gained over white noise of the same level, or of 1.5 times that, in dB."""
    known = nlridge.denoise(noisy, noise=noise, method=method, data_range=255, **options)
    others = [
        nlridge.denoise(noisy, noise=white, method=method, data_range=255, strength=s, **options)
        for s in (1.0, 1.5)
    ]
    return psnr(known, clean) - max(psnr(other, clean) for other in others)


@methods
@kernels
def test_the_right_correlation_is_better_than_white_noise(kernel, method):
    clean = photograph(72)[..., 1]
    noisy = clean + 20 * noise_of(kernel, clean.shape)
    noise = CorrelatedNoise.from_kernel(20, kernel)
    least = 0.7 if kernel is KERNELS["blur"] else 1.5
    assert gain(clean, noisy, noise, GaussianNoise(20), method) > least


@pytest.mark.parametrize("kind", ["rows", "columns", "waves", "slanted waves"])
@two_methods
def test_stripes_and_patterns(method, kind):
    clean = photograph(72)[..., 1]
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:72, :72]
    if kind in ("rows", "columns"):
        pattern = rng.normal(size=72)[y if kind == "rows" else x]
        noise = CorrelatedNoise.lines(20, axis=1 if kind == "rows" else 0, white=0.1)
    else:
        period = (np.inf, 5.0) if kind == "waves" else (7.0, -11.0)
        pattern = np.sqrt(2) * np.cos(2 * np.pi * (y / period[0] + x / period[1]) + 1)
        noise = CorrelatedNoise.waves(20, period=period, white=0.1)
    noisy = clean + 20 * (np.sqrt(0.9) * pattern + np.sqrt(0.1) * rng.normal(size=clean.shape))
    assert gain(clean, noisy, noise, GaussianNoise(20), method) > (4 if "waves" in kind else 2)


@pytest.mark.parametrize("kind", ["related", "of the same noise", "one kernel each"])
@two_methods
def test_channels_whose_noise_is_correlated(method, kind):
    clean = np.moveaxis(photograph(64), -1, 0)
    blur, lines = KERNELS["blur"], KERNELS["vertical lines"]
    if kind == "one kernel each":
        kernels = np.zeros((3, 31, 31))
        kernels[:, :9, :9] = blur
        kernels[1] = 0
        kernels[1, :, :1] = lines
        noise = np.stack([noise_of(k, clean.shape[1:], i) for i, k in enumerate(kernels)])
        model = CorrelatedNoise.from_kernel(20, kernels)
    else:
        shares = {"related": 0.5, "of the same noise": 1.0}[kind]
        mixing = np.eye(3) * (1 - shares) + shares / 3
        mixing /= np.linalg.norm(mixing, axis=1, keepdims=True)
        noise = np.einsum("ij,jyx->iyx", mixing, noise_of(blur, clean.shape))
        model = CorrelatedNoise(20, (mixing @ mixing.T)[..., None, None] * correlation_of(blur))
    noisy = clean + 20 * noise
    assert gain(clean, noisy, model, GaussianNoise(20), method, channel_axis=0) > 1


@two_methods
def test_correlated_noise_whose_level_varies(method):
    clean = photograph(72)[..., 1]
    unit = noise_of(KERNELS["blur"], clean.shape)
    camera = PoissonGaussianNoise(2, 5)
    noisy = clean + np.sqrt(2 * clean + 25) * unit
    noise = CorrelatedNoise.from_kernel(camera, KERNELS["blur"])
    assert gain(clean, noisy, noise, camera, method) > 0.8
    levels = np.broadcast_to(np.linspace(5, 35, 72), clean.shape)
    noise = CorrelatedNoise.from_kernel(levels, KERNELS["blur"])
    noisy = clean + levels * unit
    assert gain(clean, noisy, noise, GaussianNoise(levels), method) > 0.8


@methods
@pytest.mark.filterwarnings("error")
def test_noise_that_cancels_in_colours_or_at_the_coarse_scale(method):
    """What is left of it must not be divided by."""
    clean = np.moveaxis(photograph(40), -1, 0)
    same = 20 * np.random.default_rng(0).normal(size=clean.shape[1:])
    result = nlridge.denoise(
        clean + same,
        noise=CorrelatedNoise(20, np.ones((3, 3, 1, 1))),
        method=method,
        channel_axis=0,
    )
    assert np.isfinite(result).all()
    assert psnr(result, clean) > psnr(clean + same, clean) + 2
    stripes = 20 * (-1.0) ** np.arange(40)[:, None] + 2 * same / 20
    noise = CorrelatedNoise.waves(20, period=(2, np.inf), white=0.01)
    result = nlridge.denoise(clean[1] + stripes, noise=noise, method=method)
    assert np.isfinite(result).all()
    assert psnr(result, clean[1]) > psnr(clean[1] + stripes, clean[1])


@methods
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("correlation", [[[0.9, 1, 0.9]], [[-1, 1, -1]], np.ones((5, 5))])
def test_a_correlation_that_no_noise_has_does_no_harm(correlation, method):
    noisy, _ = scene("gray", (30, 33))
    result = nlridge.denoise(noisy, noise=CorrelatedNoise(20, correlation), method=method)
    assert np.isfinite(result).all()
    assert np.abs(result - noisy).max() < 10 * 20


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (5, 9), (17, 40)])
@methods
def test_images_of_any_shape(method, shape):
    noise = CorrelatedNoise.from_kernel(10, KERNELS["blur"])
    noisy = 100 + 10 * noise_of(KERNELS["blur"], shape)
    result = nlridge.denoise(noisy, noise=noise, method=method)
    assert result.shape == shape
    assert np.std(result - 100) <= 1.01 * np.std(noisy - 100)


def test_missing_pixels_and_a_mask():
    clean = photograph(64)[..., 1]
    noisy = clean + 20 * noise_of(KERNELS["blur"], clean.shape)
    gone = np.random.default_rng(0).random(clean.shape) < 0.05
    noise = CorrelatedNoise.from_kernel(20, KERNELS["blur"])
    whole = nlridge.denoise(noisy, noise=noise)
    masked = nlridge.denoise(np.where(gone, np.nan, noisy), noise=noise)
    assert np.array_equal(np.isnan(masked), gone)
    assert psnr(masked[~gone], clean[~gone]) > psnr(whole[~gone], clean[~gone]) - 0.3


# The filter on the image.


@pytest.mark.parametrize("name", ["blur", "pink"])
def test_a_filter_makes_noise_of_short_correlation_white(name):
    distance = np.hypot(*np.mgrid[-4:5, -4:5])
    kernel = np.exp(-(distance**2)) if name == "blur" else 1 / (1 + distance) ** 2
    correlation = CorrelatedNoise.from_kernel(1, kernel).correlation
    filters = filters_of(np.stack([correlation, 4 * correlation]))
    noise = np.random.default_rng(0).normal(size=(2, 300, 300))
    power = np.abs(np.fft.fft2(kernel / np.sqrt(np.sum(kernel**2)), (300, 300)))
    coloured = np.fft.ifft2(np.fft.fft2(noise) * power).real * np.array([1, 2])[:, None, None]
    white = filtered(coloured.astype(np.float32), filters.whiten)
    for plane in white:
        assert np.std(plane) == pytest.approx(1, rel=0.03)
        for shift in ((0, 1), (1, 0), (1, 1), (0, 2), (3, 1)):
            assert abs(np.mean(plane * np.roll(plane, shift, (0, 1)))) < 0.2
    back = filtered(white, filters.colour)
    assert np.std(back - coloured) < 0.1 * np.std(coloured)


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

"""Models of correlated noise: their correlation, their words, and what is refused."""

import pickle
from functools import partial

import numpy as np
import pytest
from correlated_images import KERNELS, blurred_with, correlation_of, noise_of
from images import photograph

import nlridge
from nlridge import CorrelatedNoise, GaussianNoise, PoissonGaussianNoise


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
    np.testing.assert_array_equal(
        nlridge.denoise_to_disk(image, tmp_path / "half.npy", noise=half, method="fast"), result
    )
    # A strength of 1 / share removes all, and treats the noise as no stronger than it is.
    np.testing.assert_array_equal(run(image, noise=half, strength=2), run(image, noise=whole))
    np.testing.assert_array_equal(
        run(image, noise=half, strength=3), run(image, noise=whole, strength=1.5)
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

"""NL-means as a custom family: two small functions outside the package.

    python examples/nl_means.py    measure its speed, with and without the kernel

NL-means averages patches, weighted by their similarity.  That is f_Θ(Y) = YΘ, as in NL-Ridge, with a Θ that
does not minimise a risk, and without a second step.
"""

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

import nlridge
from nlridge.core.kernels import kernel, padded, patch_variance


@dataclass(frozen=True)
class NLMeans(nlridge.Family):
    """The family of NL-means.

    Parameters
    ----------
    bandwidth : float
        The weight of a patch falls to 1/e where its squared distance exceeds the 2σ² of the noise by
        (bandwidth σ)².
    compiled : bool
        Whether the kernel is used, or the formula alone.
    """

    bandwidth: float = 0.7
    compiled: bool = True

    @property
    def pilot(self):
        return nlridge.Estimator(
            formula=partial(average, bandwidth=self.bandwidth),
            kernel=average_kernel if self.compiled else None,
            parameters=lambda n, m: [self.bandwidth],
        )


def average(Y, X, noise, bandwidth):
    """The formula: Θ_kj ~ exp(-max(d_kj² - 2 σ², 0) / (h σ)²).

    d_kj² is the mean squared difference of two patches, and h the bandwidth.  Where the variance differs between
    patches, the sum of both variances takes the place of 2 σ².
    """
    n = Y.shape[-2]
    patch_variances = noise.in_patches(Y) / n
    both_variances = patch_variances[..., :, None] + patch_variances[..., None, :]
    squares = np.sum(Y**2, axis=-2)
    distances = (squares[..., :, None] + squares[..., None, :] - 2 * Y.mT @ Y) / n
    excess = np.maximum(distances - both_variances, 0)
    theta = np.exp(-excess / (bandwidth**2 * both_variances / 2))
    theta /= theta.sum(axis=-2, keepdims=True)
    return Y @ theta, 1 / np.sum(theta**2, axis=-2)


@kernel
def average_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """The same for a single group: patch j is Y[j * size : j * size + n]."""
    size = padded(n)
    h = parameters[0]
    pixels = np.empty(n * m, np.float32)
    for j in range(m):
        for i in range(n):
            pixels[i * m + j] = Y[j * size + i]
    distances = np.empty(m, np.float32)
    theta = np.empty(m * m, np.float32)
    for j in range(m):
        # With the patches in the inner loop, the compiler computes several distances at a time.
        for k in range(j + 1):
            distances[k] = 0
        for i in range(n):
            pixel = pixels[i * m + j]
            for k in range(j + 1):
                distances[k] += (pixels[i * m + k] - pixel) * (pixels[i * m + k] - pixel)
        for k in range(j + 1):
            both_variances = patch_variance(variance, j, n) + patch_variance(variance, k, n)
            excess = max(distances[k] / np.float32(n) - both_variances, np.float32(0))
            theta[j * m + k] = theta[k * m + j] = np.exp(-2 * excess / (h * h * both_variances))
    for j in range(m):
        total = squares = np.float32(0)
        for i in range(n):
            denoised[j * size + i] = 0
        for k in range(m):
            share = theta[j * m + k]
            total += share
            squares += share * share
            for i in range(n):
                denoised[j * size + i] += share * Y[k * size + i]
        for i in range(n):
            denoised[j * size + i] /= total
        weights[j] = total * total / squares


SETTINGS = nlridge.Step(patch_size=7, group_size=32, stride=4, window=21)


def main():
    from skimage import data
    from skimage.restoration import denoise_nl_means

    truth = data.camera().astype(np.float32)
    sigma = 25.0
    noisy = truth + np.random.default_rng(0).normal(0, sigma, truth.shape).astype(np.float32)
    family, plain = NLMeans(), NLMeans(compiled=False)
    methods = {
        "as a family, compiled": lambda: nlridge.denoise(
            noisy, sigma, method=nlridge.Recipe(family, SETTINGS)
        ),
        "as a family, formula only": lambda: nlridge.denoise(
            noisy, sigma, method=nlridge.Recipe(plain, SETTINGS)
        ),
        "scikit-image": lambda: denoise_nl_means(noisy, 7, 10, h=0.6 * sigma, sigma=sigma),
    }
    nlridge.denoise(noisy[:64, :64], sigma, method=nlridge.Recipe(family, SETTINGS))  # compile
    nlridge.denoise(noisy[:64, :64], sigma, method=nlridge.Recipe(plain, SETTINGS))
    print(f"NL-means, {truth.shape[0]} x {truth.shape[1]}, sigma {sigma:g}")
    for name, method in methods.items():
        start = time.perf_counter()
        clean = method()
        seconds = time.perf_counter() - start
        error = np.mean((np.clip(clean, 0, 255) - truth) ** 2)
        print(f"  {name:26s} {seconds:7.3f} s {10 * np.log10(255**2 / error):7.2f} dB")


if __name__ == "__main__":
    main()

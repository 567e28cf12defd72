"""NL-means as a family of one's own: two small functions outside the package.

    python examples/nl_means.py    time it, with and without its kernel

NL-means averages patches with weights from their similarity.  That is f_Θ(Y) = YΘ, like NL-Ridge, with a
Θ that is not the minimiser of anything; there is one step only.
"""

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

import nlridge
from nlridge.kernels import kernel, padded, patch_variance


@dataclass(frozen=True)
class NLMeans(nlridge.Family):
    """A patch counts e^-1 as much where d² is (bandwidth σ)² more than the 2σ² of noise."""

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
    """Θ_kj ~ exp(-max(d_kj² - 2 σ², 0) / (h σ)²), where d_kj² is the mean squared difference of two patches.

    2 σ² is the sum of the variances of both patches, where they differ.
    """
    n = Y.shape[-2]
    of_patches = noise.in_patches(Y) / n
    of_both = of_patches[..., :, None] + of_patches[..., None, :]
    squares = np.sum(Y**2, axis=-2)
    distances = (squares[..., :, None] + squares[..., None, :] - 2 * Y.mT @ Y) / n
    excess = np.maximum(distances - of_both, 0)
    theta = np.exp(-excess / (bandwidth**2 * of_both / 2))
    theta /= theta.sum(axis=-2, keepdims=True)
    return Y @ theta, 1 / np.sum(theta**2, axis=-2)


@kernel
def average_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """The same for one group: patch j is Y[j * size : j * size + n]."""
    size = padded(n)
    h = parameters[0]
    theta = np.empty(m * m, np.float32)
    for j in range(m):
        for k in range(j + 1):
            distance = np.float32(0)
            for i in range(n):
                difference = Y[j * size + i] - Y[k * size + i]
                distance += difference * difference
            of_both = patch_variance(variance, j, n) + patch_variance(variance, k, n)
            excess = max(distance / np.float32(n) - of_both, np.float32(0))
            theta[j * m + k] = theta[k * m + j] = np.exp(-2 * excess / (h * h * of_both))
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

"""The paper in float64, slow and plain; it shares nothing with the package."""

import numpy as np
from scipy.fft import dctn, idctn


def settings_of(step, sigma=0.0):
    """The settings of a step, as functions of this file take them; `nearness` needs the level of the noise."""
    cost = step.nearness * (sigma / 32) ** 2
    return step.patch_size, step.group_size, step.stride, step.window, step.every, cost


def references(length, patch, stride, start=0):
    """Positions of reference patches along one axis: the grid, and the first and the last position."""
    return sorted({0, *range(start, length - patch + 1, stride), length - patch})


def similar(guide, y, x, patch, group, window, every=1, gap=0, cost=0.0):
    """Corners of the patches in the window around (y, x) that are most similar to the patch there, the nearest first.

    The patch itself comes first, with those that cover the gap between it and the next reference patch, if there is one.
    A patch r pixels away counts as farther by `cost` r² for each pixel that is compared. Ties go to the first in reading order.
    """
    height, width = guide.shape[-2:]
    radius = window // 2
    reference = guide[..., y : y + patch : every, x : x + patch : every]
    candidates = [
        (i, j)
        for i in range(max(0, y - radius), min(height - patch, y + radius) + 1)
        for j in range(max(0, x - radius), min(width - patch, x + radius) + 1)
    ]

    def distance(corner):
        i, j = corner
        if i - y in (0, max(gap, 0)) and j - x in (0, max(gap, 0)):
            return -1.0
        difference = guide[..., i : i + patch : every, j : j + patch : every] - reference
        return np.sum(difference**2 + cost * ((i - y) ** 2 + (j - x) ** 2))

    return sorted(candidates, key=lambda corner: (distance(corner), corner))[:group]


def group_matrix(image, corners, patch):
    """The n x m matrix whose columns are the patches."""
    return np.stack([image[i : i + patch, j : j + patch].ravel() for i, j in corners], axis=1)


def step(noisy, guide, estimate, patch, group, stride, window, every=1, cost=0.0):
    """One step: for each reference patch, group, denoise and put back.

    estimate(Y, X) returns the denoised patches and their weights.
    """
    total, weight = np.zeros(noisy.shape), np.zeros(noisy.shape)
    for y in references(noisy.shape[0], patch, stride):
        for x in references(noisy.shape[1], patch, stride):
            corners = similar(guide, y, x, patch, group, window, every, stride - patch, cost)
            Y, X = group_matrix(noisy, corners, patch), group_matrix(guide, corners, patch)
            denoised, weights = estimate(Y, X)
            for k, (i, j) in enumerate(corners):
                column = denoised[:, k].reshape(patch, patch)
                total[i : i + patch, j : j + patch] += weights[k] * column
                weight[i : i + patch, j : j + patch] += weights[k]
    return total / weight


def two_steps(noisy, estimates, first, second):
    """Both steps; `first` and `second` are (patch, group, stride, window, every, cost)."""
    noisy = np.asarray(noisy, np.float64)
    pilot = step(noisy, noisy, estimates[0], *first)
    return step(noisy, pilot, estimates[1], *second)


# NL-Ridge.


def theta_pilot(Y, sigma, alpha):
    """Proposition 2.2, for noise whose variance is taken for (1 + alpha) sigma²."""
    n, m = Y.shape
    D = n * sigma**2
    return np.eye(m) - (1 + alpha) * D * np.linalg.inv(Y.T @ Y + alpha * D * np.eye(m))


def theta_refined(X, sigma):
    """Proposition 2.3, with the patches X of the pilot in place of the truth."""
    n, m = X.shape
    return np.linalg.inv(X.T @ X + n * sigma**2 * np.eye(m)) @ X.T @ X


def nl_ridge(sigma, alpha=0.05):
    def combine(Y, theta):
        left = sigma**2 * np.clip(np.sum(theta**2, axis=0), 1 / Y.shape[1], 1)
        return Y @ theta, 1 / left

    return (
        lambda Y, X: combine(Y, theta_pilot(Y, sigma, alpha)),
        lambda Y, X: combine(Y, theta_refined(X, sigma)),
    )


# NL-Bayes.


def nl_bayes(sigma, alpha=0.1):
    def combine(Y, theta, mean):
        n, m = Y.shape
        beta = (np.eye(n) - theta) @ mean
        return theta @ Y + np.outer(beta, np.ones(m)), np.full(m, 1 / sigma**2)

    def pilot(Y, X):
        C = np.cov(Y, bias=True)
        n = len(Y)
        theta = (C - sigma**2 * np.eye(n)) @ np.linalg.inv(C + alpha * sigma**2 * np.eye(n))
        return combine(Y, theta, Y.mean(axis=1))

    def refine(Y, X):
        C = np.cov(X, bias=True)
        theta = C @ np.linalg.inv(C + sigma**2 * np.eye(len(Y)))
        return combine(Y, theta, X.mean(axis=1))

    return pilot, refine


# BM3D, with the DCT in all three directions.


def bm3d(sigma, threshold=2.7):
    def spectrum(Y):
        patch = round(len(Y) ** 0.5)
        return dctn(Y.reshape(patch, patch, -1), norm="ortho")

    def combine(Y, theta):
        denoised = idctn(theta * spectrum(Y), norm="ortho").reshape(Y.shape)
        left = sigma**2 * max(np.sum(theta**2), 1) / Y.size
        return denoised, np.full(Y.shape[1], 1 / left)

    def pilot(Y, X):
        return combine(Y, (np.abs(spectrum(Y)) >= threshold * sigma).astype(float))

    def refine(Y, X):
        power = spectrum(X) ** 2
        return combine(Y, power / (sigma**2 + power))

    return pilot, refine


# The two-sided family, in rounds.


def two_sided(kappa, smooth=0.025):
    """Patches and pixels combined: estimate(Z, X, sigma), where sigma is the noise that is left."""

    def estimate(Z, X, sigma):
        n, m = X.shape
        mean, guide = Z.mean(axis=1, keepdims=True), X.mean(axis=1, keepdims=True)
        Z, X = Z - mean, X - guide
        a, b = np.sum((guide - plane(guide)) ** 2), smooth * n * sigma**2 / m
        mean = plane(mean) + a**4 / (a**4 + b**4) * (mean - plane(mean))
        D = kappa * n * sigma**2
        inverse = np.linalg.inv(X @ X.T + D * np.eye(n))
        G = inverse @ X
        norms = np.sum(X * G, axis=0) - D * np.sum(G**2, axis=0) + 1 / m
        denoised = mean + (np.eye(n) - D * inverse) @ (Z @ X.T) @ G
        return denoised, 1 / (sigma**2 * np.clip(norms, 1 / m, 1))

    return estimate


def plane(patch):
    """The plane nearest to a column of pixels; one for each of two planes of color, if their number is no square."""
    planes = 1 if round(len(patch) ** 0.5) ** 2 == len(patch) else 2
    side = round((len(patch) / planes) ** 0.5)
    y, x = np.mgrid[:side, :side].reshape(2, -1)
    basis = np.stack([np.ones(side**2), x, y], axis=1)
    return np.concatenate(
        [basis @ np.linalg.lstsq(basis, part)[0] for part in np.split(patch, planes)]
    )


def rounds(noisy, pilot, sigma, estimate, settings, count, keep, blend, kaiser=0.0):
    """The second step, on an image with less and less noise.

    Every other round searches for groups, each time around other reference patches. `settings` are those of the first
    two rounds and of the later ones, both as (patch, group, stride, window, every, cost). Pixels of patches are weighted
    by a Kaiser window.
    """
    partly, result = noisy, pilot
    corners = {}
    of_pixels = {patch: np.outer(*2 * [np.kaiser(patch, kaiser)]) for patch, *_ in settings}
    for i in range(count):
        tau = keep * (1 - (i + 1) / count)
        patch, group, stride, window, every, cost = settings[min(i // 2, 1)]
        if i % 2 == 0:
            guide = blend * result + (1 - blend) * partly
            start = stride // 2 if i % 4 == 2 else 0
            corners = {
                (y, x): similar(guide, y, x, patch, group, window, every, stride - patch, cost)
                for y in references(noisy.shape[0], patch, stride, start)
                for x in references(noisy.shape[1], patch, stride, start)
            }
        sums = np.zeros((3, *noisy.shape))
        for group_corners in corners.values():
            Y, Z, X = (
                group_matrix(image, group_corners, patch) for image in (noisy, partly, result)
            )
            t = max(1 - np.std(Y - Z) / sigma, tau + 1e-6)
            denoised, weights = estimate(Z, X, sigma * t)
            left = (1 - tau / t) * denoised + tau / t * Z
            for k, (y, x) in enumerate(group_corners):
                here = np.s_[y : y + patch, x : x + patch]
                weight = weights[k] * of_pixels[patch]
                sums[0][here] += weight * denoised[:, k].reshape(patch, patch)
                sums[1][here] += weight * left[:, k].reshape(patch, patch)
                sums[2][here] += weight
        result, partly = sums[0] / sums[2], sums[1] / sums[2]
    return result

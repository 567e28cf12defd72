"""NL-Ridge in float64, straight from the paper: slow, plain, and nothing shared with the package."""

import numpy as np


def references(length, patch, stride):
    """Positions of reference patches along one axis: the grid, and the last position."""
    return sorted({*range(0, length - patch + 1, stride), length - patch})


def similar(guide, y, x, patch, group, window):
    """Corners of the patches in the window of (y, x) that are nearest to the one there, in reading order.

    The patch itself comes first; of equals, the first in reading order.
    """
    height, width = guide.shape
    radius = window // 2
    reference = guide[y : y + patch, x : x + patch]
    candidates = [
        (i, j)
        for i in range(max(0, y - radius), min(height - patch, y + radius) + 1)
        for j in range(max(0, x - radius), min(width - patch, x + radius) + 1)
    ]

    def distance(corner):
        i, j = corner
        if corner == (y, x):
            return -1.0
        return np.sum((guide[i : i + patch, j : j + patch] - reference) ** 2)

    nearest = sorted(candidates, key=lambda corner: (distance(corner), corner))[:group]
    return sorted(nearest)


def group_matrix(image, corners, patch):
    """The n x m matrix whose columns are the patches."""
    return np.stack([image[i : i + patch, j : j + patch].ravel() for i, j in corners], axis=1)


def theta_pilot(Y, sigma, alpha):
    """Proposition 2.2, for noise that is alpha sigma² stronger in thought."""
    n, m = Y.shape
    D = n * sigma**2
    return np.eye(m) - (1 + alpha) * D * np.linalg.inv(Y.T @ Y + alpha * D * np.eye(m))


def theta_refined(X, sigma):
    """Proposition 2.3, with the pilot's patches X for the truth."""
    n, m = X.shape
    return np.linalg.inv(X.T @ X + n * sigma**2 * np.eye(m)) @ X.T @ X


def step(noisy, guide, theta, patch, group, stride, window):
    """One step: for each reference patch, group, denoise and put back; theta(Y, X) gives the weights."""
    total, weight = np.zeros(noisy.shape), np.zeros(noisy.shape)
    for y in references(noisy.shape[0], patch, stride):
        for x in references(noisy.shape[1], patch, stride):
            corners = similar(guide, y, x, patch, group, window)
            Y, X = group_matrix(noisy, corners, patch), group_matrix(guide, corners, patch)
            weights = theta(Y, X)
            denoised = Y @ weights
            for k, (i, j) in enumerate(corners):
                w = 1 / np.clip(np.sum(weights[:, k] ** 2), 1 / len(corners), 1)
                total[i : i + patch, j : j + patch] += w * denoised[:, k].reshape(patch, patch)
                weight[i : i + patch, j : j + patch] += w
    return total / weight


def nl_ridge(noisy, sigma, first, second, alpha=0.05):
    """Both steps; `first` and `second` are (patch, group, stride, window)."""
    noisy = np.asarray(noisy, np.float64)
    pilot = step(noisy, noisy, lambda Y, X: theta_pilot(Y, sigma, alpha), *first)
    return step(noisy, pilot, lambda Y, X: theta_refined(X, sigma), *second)

"""The difference between SURE and the error that it estimates, for groups cut from an image.

The theory assumes that the group is given, and that the noise of its pixels is independent.  In an image, the
patches of a group overlap, so that they share noise, and they are selected by their noisy pixels.
"""

import numpy as np

from nlridge.core.families import GroupNoise, bayes, bm3d, ridge
from nlridge.core.families.family import squared_norm

from .progress import shown
from .results import record

SIGMA = 25.0
NOISE = GroupNoise(SIGMA**2)
WINDOW = 25


def add_arguments(parser):
    parser.add_argument(
        "--draws", type=int, default=400, help="number of draws of the noise (default: %(default)s)"
    )


def run(options):
    from skimage import data

    image = data.camera().astype(np.float64)
    print(
        f"\nmean of SURE minus the error, in % of the noise, sigma {SIGMA:g}, {options.draws} draws"
    )
    for name in FAMILIES:
        for situation, choices in SITUATIONS.items():
            values = biases(image, name, options.draws, **choices)
            error = values.std() / np.sqrt(len(values))
            print(f"  {name:6s} {situation:70s} {100 * values.mean():+7.2f} ± {100 * error:.2f}")
            bias = {name: 100 * values.mean(), f"{name}, error": 100 * error}
            record(
                options, "sure", {situation: {key: round(float(v), 3) for key, v in bias.items()}}
            )


# For each family: patch size, group size, f(Y, *parameters), SURE, and both minimisers.
def _ridge():
    return (
        (7, 18),
        lambda Y, theta: Y @ theta,
        lambda Y, theta: ridge.sure(Y, theta, NOISE),
        lambda Y: (ridge.minimise_sure(Y, NOISE),),
        lambda X: (ridge.minimise_risk(X, NOISE),),
    )


def _bayes():
    return (
        (5, 60),
        lambda Y, theta, beta: theta @ Y + beta[..., None],
        lambda Y, theta, beta: bayes.sure(Y, theta, beta, NOISE),
        lambda Y: bayes.minimise_sure(Y, NOISE),
        lambda X: bayes.minimise_risk(X, NOISE),
    )


def _bm3d():
    patch, m = 8, 16
    P, Q = bm3d.transforms(patch**2, m)
    return (
        (patch, m),
        lambda Y, theta: P.T @ (theta * (P @ Y @ Q)) @ Q.T,
        lambda Y, theta: bm3d.sure(Y, theta, NOISE, P, Q),
        lambda Y: (bm3d.keep_or_cancel(Y, NOISE, P, Q, np.sqrt(2)),),
        lambda X: (bm3d.minimise_risk(X, NOISE, P, Q),),
    )


FAMILIES = {"ridge": _ridge(), "bayes": _bayes(), "bm3d": _bm3d()}
SITUATIONS = {
    "optimal Θ, groups of the clean image, independent noise in each patch": {"own_noise": True},
    "optimal Θ, groups of the clean image, patches share pixels": {},
    "optimal Θ, groups of the noisy image": {"choose_noisy": True},
    "Θ of step 1, groups of the noisy image": {"choose_noisy": True, "step_1": True},
}


def biases(
    image, family, draws, *, own_noise=False, choose_noisy=False, step_1=False, references=16
):
    """(SURE - error) / (n m σ²) for each draw of the noise, averaged over some reference patches."""
    (patch, m), f, sure, minimise_sure, minimise_risk = FAMILIES[family]
    rng = np.random.default_rng(0)
    corners = rng.integers(WINDOW, np.array(image.shape) - WINDOW - patch, (references, 2))
    clean = _patches(image, corners, patch)
    known = _nearest(clean, m)
    differences = []
    for _ in shown(range(draws), family):
        noisy = _patches(image + rng.normal(0, SIGMA, image.shape), corners, patch)
        places = _nearest(noisy, m) if choose_noisy else known
        X, Y = (np.take_along_axis(p, places[..., None], axis=1).mT for p in (clean, noisy))
        if own_noise:
            Y = X + rng.normal(0, SIGMA, X.shape)
        parameters = minimise_sure(Y) if step_1 else minimise_risk(X)
        difference = sure(Y, *parameters) - squared_norm(f(Y, *parameters) - X)
        differences.append(difference.mean() / (X[0].size * SIGMA**2))
    return np.array(differences)


def _patches(image, corners, patch):
    """All patches of the window of each reference, the reference first: (references, candidates, n)."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (patch, patch))
    steps = np.arange(WINDOW) - WINDOW // 2
    steps = sorted(((i, j) for i in steps for j in steps), key=lambda s: s != (0, 0))
    ys, xs = (corners[:, None, k] + np.array(steps)[None, :, k] for k in (0, 1))
    return windows[ys, xs].reshape(*ys.shape, -1)


def _nearest(patches, m):
    distances = np.sum((patches - patches[:, :1]) ** 2, axis=-1)
    return np.argsort(distances, axis=-1, kind="stable")[:, :m]

"""Learn how much each piece of evidence for noise counts, from the simulated cameras of one half.

    python -m benchmarks.cameras.learning --data folder

writes `nlridge/noise/learned.py`. It is a logistic regression on the evidence and the products of every two numbers of it:
shots that denoising improves are noise, and those that it does not are texture. A shot counts as much as the square root
of what denoising changes. How often the decision is wrong is measured with the cameras and scenes of the other half.
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nlridge
from nlridge.noise import learned
from nlridge.noise.decision import Evidence, standardised
from nlridge.noise.estimation import channels_of
from nlridge.planning.blind import correlated_in, in_units_of_image, trial_run

from ..images import color
from ..progress import shown
from .shots import COUNTS, JUDGE, LEARN, shot

_WITHOUT_NOISE = 7  # times as many shots as of each camera
_WHITE = ("white", "photons", "sky")  # whose noise is not correlated
_BETTER = 0.05  # dB; what is improved less is not noise
_MOST, _LEAST = 4.0, 0.05  # what a shot may count, in dB or in changes of 255
_RIDGE = 2.0  # the weight of the squares of the weights


class Example(NamedTuple):
    """A shot whose noise, if it has any, is not white."""

    evidence: Evidence
    has_noise: bool
    """Whether denoising improves it."""
    stake: float
    """How much denoising changes it."""


def example(data, name):
    """Measure a shot; None if its noise is white."""
    half, kind, seed = name
    taken = shot(kind, seed, data, half)
    noisy, truth = taken.noisy.squeeze(), taken.truth.squeeze().astype(float)
    planes = noisy[None] if noisy.ndim == 2 else np.moveaxis(noisy, -1, 0)
    found, unit = correlated_in(channels_of(planes, None), partial(trial_run, 1))
    if found is None or found.evidence is None:
        return None
    noise = in_units_of_image(found, found.base, unit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nlridge.NoiseWarning)
        clean = nlridge.denoise(
            noisy, noise=noise, method="fast", channel_axis=color(noisy), workers=1
        )
    if kind == "clean":
        changed = np.mean(np.square((clean - noisy.astype(float)) / taken.scale))
        return Example(found.evidence, False, min(changed, _MOST**2))
    before, after = (np.mean(np.square(image - truth)) for image in (noisy.astype(float), clean))
    gain = 10 * np.log10(before / after)
    return Example(found.evidence, bool(gain > _BETTER), min(abs(gain), _MOST))


def columns_of(evidence):
    """The columns of the regression: the standardised evidence, and the products of every two numbers of it."""
    first, second = np.triu_indices(evidence.shape[1])
    return np.column_stack([evidence, evidence[:, first] * evidence[:, second]])


def regression(columns, has_noise, stakes):
    """Weights and constant of a logistic regression, by Newton's method; shots with and without noise count the same."""
    totals = np.where(has_noise, np.sum(stakes * has_noise), np.sum(stakes * (1 - has_noise)))
    weights = len(columns) / 2 * stakes / totals
    rows = np.column_stack([columns, np.ones(len(columns))])
    ridge = np.diag([_RIDGE] * columns.shape[1] + [1e-6])
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (weights * (probability - has_noise)) + ridge @ found
        bend = (rows * (weights * probability * (1 - probability))[:, None]).T @ rows + ridge
        found -= np.linalg.solve(bend, slope)
    return found[:-1], found[-1]


def measured(half, options):
    """The evidence of the shots of a half, whether they have noise, and their stakes."""
    names = [
        (half, kind, seed)
        for kind in COUNTS
        if kind not in _WHITE
        for seed in range(
            min(COUNTS[kind], options.shots * (_WITHOUT_NOISE if kind == "clean" else 1))
        )
    ]
    # LibRaw's threads do not survive a fork.
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as processes:
        found = processes.map(partial(example, options.data), names, chunksize=4)
        examples = [one for one in shown(found, "shots") if one is not None]
    print(f"{len(examples)} of {len(names)} shots may have correlated noise")
    evidence, has_noise, stakes = zip(*examples, strict=True)
    return np.array(evidence, float), np.array(has_noise, float), np.array(stakes)


def table(name, values):
    numbers = ", ".join(f"{value:.4g}" for value in values)
    return f"{name} = np.array([{numbers}])\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder of test images")
    parser.add_argument(
        "--shots", type=int, default=110, help="most shots of each camera (default: 110)"
    )
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    evidence, has_noise, stakes = measured(LEARN, options)
    means, deviations = np.nanmean(evidence, axis=0), np.nanstd(evidence, axis=0)
    columns = columns_of(standardised(evidence, means, deviations))
    weights, constant = regression(columns, has_noise, np.sqrt(stakes) + _LEAST)
    count = len(Evidence._fields)
    products = np.zeros((count, count))
    products[np.triu_indices(count)] = weights[count:]
    print("least probability of noise: texture taken for noise, noise taken for texture")
    evidence, has_noise, _ = measured(JUDGE, options)
    columns = columns_of(standardised(evidence, means, deviations))
    probabilities = 1 / (1 + np.exp(-columns @ weights - constant))
    for limit in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        taken = probabilities >= limit
        wrong = np.mean(taken[has_noise == 0]), np.mean(~taken[has_noise == 1])
        print(f"  {limit}: {wrong[0]:.1%}, {wrong[1]:.1%}")
    rows = ",\n    ".join("[" + ", ".join(f"{x:.4g}" for x in row) + "]" for row in products)
    Path(learned.__file__).write_text(
        f'"""{learned.__doc__}"""\n\nimport numpy as np\n\n'
        "# One for each number of `decision.Evidence`, in its order.\n"
        + table("MEANS", means)
        + table("DEVIATIONS", deviations)
        + table("WEIGHTS", weights[:count])
        + f"CONSTANT = {constant:.4g}\n\n# Of every two of them.\n"
        + f"PRODUCTS = np.array([\n    {rows},\n])\n"
    )


if __name__ == "__main__":
    main()

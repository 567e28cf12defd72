"""Images of few photons are denoised several times, each time mixed with the last estimate.

The Anscombe transform stabilises Poisson noise only from about four photons per pixel on, and similar patches cannot be
recognised in an image of zeros and ones. A mixture of the image with an estimate has less noise at the same signal: with
a share λ of the image, as little as if there were 1 / λ² times as many photons [1]_. The first estimate is that of an
image of half the size or less, whose pixels receive more photons each.

.. [1] L. Azzari and A. Foi, "Variance stabilization for noisy+estimate combination in iterative Poisson denoising",
   IEEE Signal Processing Letters 23(8), 2016.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm import pyramid
from ..algorithm.framework import Pyramid, RunPass, denoised
from ..algorithm.inputs import Image, PlaneNoise
from ..algorithm.settings import Recipe
from ..algorithm.tuning import Tuning
from ..noise import Noise
from ..noise.poisson import PoissonGaussianNoise
from .channels import Planes

# The photons per pixel that the image of each run seems to have, and those that the image of the first run has at least.
_SEEMING = (4.0, 8.0)
_ENOUGH = 3.0
_MOSTLY = 0.85  # a run with a larger share of the image is left out: it would change little
_SMOOTH = (np.outer((1, 4, 6, 4, 1), (1, 4, 6, 4, 1)) / 256).astype(np.float32)
_SMALLEST = 32  # shortest side of an image of reduced size
_MANY = 100.0  # with more photons per pixel, no mean changes by more than a fraction of a percent
# The result has the means of the noisy image over areas of so many photons, whose own noise is 0.8 %, or of
# fewer in a small image, whose own noise is at most 3 %.
_COUNTED, _COUNTED_LEAST = 16_000.0, 1000.0
_WIDE = 6  # these areas are at least 2^6 pixels wide, or half of it in a small image: their noise adds nothing visible


@dataclass(frozen=True)
class Run:
    """One of several runs over an image of few photons."""

    noise: PoissonGaussianNoise
    """The noise of the image of this run, in photons."""
    recipe: Recipe
    halvings: int = 0
    """How often the size of the image is halved."""
    share: float = 1.0
    """The share of the image in the mixture with the last estimate."""
    kept: int = 0
    """How often the size of the noisy image is halved until its pixels are means that the result has as well; or 0."""


def typical_photons(noise: Noise, sample: npt.NDArray[Any]) -> float:
    """The number of photons in the pixel that a typical photon arrives in; infinite for noise of another kind.

    A few bright spots on a black background have many photons in this sense. Read noise counts like the photons that
    would have the same variance.
    """
    if not isinstance(noise, PoissonGaussianNoise):
        return math.inf
    counts = np.clip(noise.photons(sample), -1e100, 1e100)  # they are squared
    mean, extra = float(counts.mean()), (noise.read_noise / noise.gain) ** 2
    if mean <= 0 or extra > max(_SEEMING):
        return math.inf
    return max(float(np.mean(counts**2)) - mean - extra, 0.0) / mean + extra


def run_settings(photons: float, shape: tuple[int, int]) -> list[tuple[int, float]]:
    """The number of halvings and the share of the image for each run; empty if there are many photons."""
    if photons > _MANY:
        return []
    shares = [math.sqrt(photons / seeming) for seeming in _SEEMING]
    shares = [share for share in shares if 0.01 < share < _MOSTLY]
    halvings = 0
    while (
        shares and 4**halvings * photons < _ENOUGH and min(shape) >= 2 ** (halvings + 1) * _SMALLEST
    ):
        halvings += 1
    return [(halvings, 1.0), *((0, share) for share in shares)]


def kept_means(photons: float, shape: tuple[int, int]) -> int:
    """How often the size of an image is halved until its pixels are means over many photons; 0 if it is too small."""
    wanted = math.ceil(math.log(_COUNTED / min(max(photons, 1e-3), _MANY), 4))
    # Still coarser images have too few pixels that are not at a border.
    halvings = min(max(wanted, _WIDE), int(math.log2(max(min(shape) / 4, 1))))
    return halvings if halvings >= _WIDE - 1 and 4**halvings * photons >= _COUNTED_LEAST else 0


def halved(shape: tuple[int, int], times: int) -> tuple[int, int]:
    """The shape of an image whose size is halved a number of times."""
    for _ in range(times):
        shape = pyramid.coarser_shape(shape)
    return shape


def denoised_in_runs(
    counts: Image,
    planes: Planes,
    noise: PlaneNoise,
    runs: Sequence[Run],
    engine: RunPass,
    tuning: Tuning,
    *,
    each: Callable[..., Image] = lambda function, *images: function(*images),
    scales: Pyramid = pyramid,
    renewed: Callable[[Image], Image] | None = None,
) -> Iterator[Image]:
    """Yield the pilot and the result of the last run, as stabilised planes.

    Parameters
    ----------
    counts
        The channels of the planes, in photons.
    noise
        The noise of the stabilised planes.
    each
        Applies a function to the pixels of one or several images of the same shape.
    renewed
        Returns the counts with missing pixels taken from an estimate.
    """
    estimate = counts
    for run in runs:
        sizes = [counts]
        for _ in range(run.halvings):
            sizes.append(scales.coarser(sizes[-1]))
        stable = each(
            partial(_stabilised, run, planes), sizes[-1], *([] if run is runs[0] else [estimate])
        )
        steps = denoised(stable, noise, run.recipe, engine, tuning, scales=scales)
        if run is runs[-1]:
            for step in steps:
                if run.kept == 0:
                    yield step
                    continue
                # Skewed noise makes means too dark, and where details are lost, so does the transform.
                estimate = each(partial(_restored, run, planes), step)
                estimate = scales.with_coarse(estimate, scales.coarser(counts), run.kept, math.inf)
                yield each(partial(_expected, run, planes), estimate)
            return
        *_, result = steps
        estimate = each(partial(_restored, run, planes), result)
        for image in sizes[-2::-1]:
            # The coarse image alone, without finer structures. Its pixels would show along oblique edges, like the teeth
            # of a zipper, and later runs would keep them.
            estimate = scales.with_coarse(0.0 * image, estimate, 1, math.inf)
            estimate = scales.filtered(estimate, np.stack([_SMOOTH] * len(planes.channels)))
        if renewed is not None:
            counts = renewed(estimate)


def _stabilised(run: Run, planes: Planes, counts: Image, estimate: Image | None = None) -> Image:
    if estimate is not None:
        counts = run.share * counts + (1 - run.share) * np.maximum(estimate, 0)
    return planes.product(run.noise.stabilise(counts).astype(np.float32))


def _restored(run: Run, planes: Planes, image: Image) -> Image:
    return run.noise.restore(planes.back(image)).astype(np.float32)


def _expected(run: Run, planes: Planes, estimate: Image) -> Image:
    return planes.product(run.noise.expected(estimate).astype(np.float32))

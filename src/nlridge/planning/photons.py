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

import numpy as np

from ..core.algorithm import pyramid
from ..core.algorithm.framework import denoised
from ..core.algorithm.images import Images
from ..core.algorithm.inputs import Image, PlaneNoise
from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..core.arrays import applied, is_tensor
from ..noise import Noise
from ..noise.poisson import PoissonGaussianNoise
from ..types import Pixels
from .channels import Planes

# The photons per pixel that would have as little noise as the image of each run, and the fewest of the first run.
_EQUIVALENT_PHOTONS = (4.0, 8.0)
_MIN_PHOTONS = 3.0
_LARGEST_SHARE = 0.85  # a run with a larger share of the image is left out: it would change little
# Removes what has a period of two pixels. Wider filters lose thin lines.
_SMOOTH = (np.outer((1, 2, 1), (1, 2, 1)) / 16).astype(np.float32)
_MIN_SIDE = 32  # shortest side of an image of reduced size
_PHOTONS_OF_BRIGHT_IMAGES = 100.0  # above it, no mean changes by more than a fraction of a percent
# The result has the means of the noisy image over areas of _AREA_PHOTONS, whose own noise is 0.8 %, or at least
# _MIN_AREA_PHOTONS in a small image, whose own noise is at most 3 %.
_AREA_PHOTONS, _MIN_AREA_PHOTONS = 16_000.0, 1000.0
# These areas are at least 2^6 pixels wide, or half of that in a small image, so that their noise adds nothing visible.
_AREA_HALVINGS = 6


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
    """The number of halvings after which the pixels of the noisy image are means that the result keeps; 0 for none."""


def typical_photons(noise: Noise, sample: Pixels) -> float:
    """The number of photons in the pixel of a typical photon; infinite for other kinds of noise.

    A few bright spots on a black background have many photons in this sense. Read noise counts like photons of the same
    variance.
    """
    if not isinstance(noise, PoissonGaussianNoise):
        return math.inf
    counts = np.clip(noise.photons(sample), -1e100, 1e100)  # they are squared
    mean, extra = float(counts.mean()), (noise.read_noise / noise.gain) ** 2
    if mean <= 0 or extra > max(_EQUIVALENT_PHOTONS):
        return math.inf
    return max(float(np.mean(counts**2)) - mean - extra, 0.0) / mean + extra


def run_settings(photons: float, shape: tuple[int, int]) -> list[tuple[int, float]]:
    """The number of halvings and the share of the image for each run; empty if there are many photons."""
    if photons > _PHOTONS_OF_BRIGHT_IMAGES:
        return []
    shares = [math.sqrt(photons / seeming) for seeming in _EQUIVALENT_PHOTONS]
    shares = [share for share in shares if 0.01 < share < _LARGEST_SHARE]
    halvings = 0
    while (
        shares
        and 4**halvings * photons < _MIN_PHOTONS
        and min(shape) >= 2 ** (halvings + 1) * _MIN_SIDE
    ):
        halvings += 1
    return [(halvings, 1.0), *((0, share) for share in shares)]


def kept_means(photons: float, shape: tuple[int, int]) -> int:
    """The number of halvings after which the pixels of an image are means over many photons; 0 if it is too small."""
    wanted = math.ceil(
        math.log(_AREA_PHOTONS / min(max(photons, 1e-3), _PHOTONS_OF_BRIGHT_IMAGES), 4)
    )
    # Coarser images have too few pixels away from the border.
    halvings = min(max(wanted, _AREA_HALVINGS), int(math.log2(max(min(shape) / 4, 1))))
    return (
        halvings
        if halvings >= _AREA_HALVINGS - 1 and 4**halvings * photons >= _MIN_AREA_PHOTONS
        else 0
    )


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
    images: Images,
    tuning: Tuning,
    *,
    fill_from_estimate: Callable[[Image], Image] | None = None,
) -> Iterator[Image]:
    """Yield the pilot and the result of the last run, as stabilised planes.

    Parameters
    ----------
    counts
        The channels of the planes, in photons.
    noise
        The noise of the stabilised planes.
    fill_from_estimate
        Returns the counts with missing pixels taken from an estimate.
    """
    estimate = counts
    for run in runs:
        sizes = [counts]
        for _ in range(run.halvings):
            sizes.append(images.coarser(sizes[-1]))
        stable = images.each(
            partial(_stabilised, run, planes), sizes[-1], *([] if run is runs[0] else [estimate])
        )
        steps = denoised(stable, noise, run.recipe, images, tuning)
        if run is runs[-1]:
            for step in steps:
                if run.kept == 0:
                    yield step
                    continue
                # Skewed noise makes means too dark, and so does the transform where details are lost.
                estimate = images.each(partial(_restored, run, planes), step)
                estimate = images.with_coarse(estimate, images.coarser(counts), run.kept, math.inf)
                yield images.each(partial(_expected, run, planes), estimate)
            return
        *_, result = steps
        estimate = images.each(partial(_restored, run, planes), result)
        for image in sizes[-2::-1]:
            # The coarse image alone, interpolated without finer structures. Otherwise its pixels would show as jagged
            # oblique edges, which later runs would keep.
            estimate = images.with_coarse(0.0 * image, estimate, 1, math.inf)
            estimate = images.filtered(estimate, np.stack([_SMOOTH] * len(planes.channels)))
        if fill_from_estimate is not None:
            counts = fill_from_estimate(estimate)


def _stabilised(run: Run, planes: Planes, counts: Image, estimate: Image | None = None) -> Image:
    if estimate is not None:
        counts = run.share * counts + (1 - run.share) * estimate.clip(0)
    return planes.product(_converted(run.noise.stabilise, counts))


def _restored(run: Run, planes: Planes, image: Image) -> Image:
    return _converted(run.noise.restore, planes.back(image))


def _expected(run: Run, planes: Planes, estimate: Image) -> Image:
    return planes.product(_converted(run.noise.expected, estimate))


def _converted(function: Callable[[Image], Image], image: Image) -> Image:
    """function(image), of the same type as the image."""
    result = applied(function, image)
    return result if is_tensor(image) else result.astype(np.float32)

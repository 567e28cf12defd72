"""Convert pixels to stabilised float32 planes and back, for whole images or some of their rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..arrays import Each, do_all
from ..noise.poisson import PoissonGaussianNoise
from ..patches.matching import BRIGHT
from .channels import Image, Planes
from .plan import Plan, float_type

Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def stabilised(
    plan: Plan,
    channels: Iterable[int],
    pixels: Pixels,
    missing: Mask | None = None,
    filled: Mask | None = None,
    each: Each = map,
) -> Image:
    """Stabilise and scale the given channels; the others are 0.

    `missing` pixels have no value. Pixels to be `filled` in from their neighbours are NaN (see `fill`). `each` converts
    some rows at a time: `map`, or a function like it that uses several threads.
    """
    noisy = np.zeros(pixels.shape, np.float32)
    for channel in channels:
        scale = plan.scales[channel]

        def stabilise(rows: slice, channel: int = channel, scale: float = scale) -> None:
            part = pixels[channel, rows]
            if missing is not None:
                part = np.where(missing[channel, rows], 0, part)
            stable = plan.noise.stabilise(part)
            with np.errstate(over="ignore"):  # checked below
                np.multiply(
                    stable, scale, out=noisy[channel, rows], dtype=np.float64, casting="unsafe"
                )

        do_all(each(stabilise, _some_rows(noisy[channel])))
        if filled is not None:
            noisy[channel, filled[channel]] = 0
        largest = float(max(abs(noisy[channel].max()), abs(noisy[channel].min())))
        if not largest < BRIGHT:
            raise ValueError(
                f"sigma is {plan.levels[channel]:.4g}; expected at least 1e-12 of the image's "
                f"largest value, {largest / scale:.4g}"
            )
        if filled is not None:
            noisy[channel, filled[channel]] = np.nan
    return noisy


def counts_of(
    plan: Plan, channels: Sequence[int], pixels: Pixels, filled: Mask | None = None
) -> Image:
    """Some channels of an image of few photons, in photons; `filled` is as for `stabilised`."""
    noise = cast(PoissonGaussianNoise, plan.noise)  # no other noise is planned in runs
    counts = np.zeros((len(channels), *pixels.shape[1:]), np.float32)
    for k, channel in enumerate(channels):
        for rows in _some_rows(counts[k]):
            part = pixels[channel, rows]
            if filled is not None:
                part = np.where(filled[channel, rows], 0, part)
            counts[k, rows] = np.minimum(noise.photons(part), BRIGHT)
        if filled is not None:
            counts[k, filled[channel]] = np.nan
    return counts


def renewed(planes: Planes, noisy: Image, filled: Mask, pilot: Image) -> Image:
    """The noisy planes of the second step: `filled` pixels take their values from the pilot.

    `noisy` and `filled` have only the channels of these planes.
    """
    return planes.product(np.where(filled, planes.back(pilot), noisy))


def with_estimate(counts: Image, filled: Mask, estimate: Image) -> Image:
    """The counts, with the values of an estimate where pixels were filled in."""
    return np.where(filled, estimate, counts)


def restored(
    plan: Plan,
    pixels: Pixels,
    images: Sequence[Image],
    missing: Mask | None = None,
    each: Each = map,
) -> npt.NDArray[np.floating[Any]]:
    """Convert denoised planes to the result that the caller receives, in the units of the image and in `float_type`.

    Channels that were not denoised, and missing pixels, keep the values of `pixels`. `each` is as for `stabilised`.
    """
    result = np.empty(pixels.shape, float_type(pixels.dtype))
    result[...] = pixels
    largest = min(float(np.finfo(result.dtype).max), np.finfo(np.float64).max)
    for planes, image in zip(plan.planes, images, strict=True):
        for channel, stable in zip(planes.channels, planes.back(image), strict=True):

            def restore(rows: slice, channel: int = channel, stable: Image = stable) -> None:
                with np.errstate(over="ignore"):
                    values = np.divide(stable[rows], plan.scales[channel], dtype=np.float64)
                values = plan.result_noise.restore(values)
                if plan.share < 1:
                    with np.errstate(invalid="ignore"):  # missing pixels may be NaN
                        values = pixels[channel, rows] + plan.share * (
                            values - pixels[channel, rows]
                        )
                # A result may be slightly larger than the largest pixel, and would overflow near the dtype's limit.
                values = np.clip(values, -largest, largest)
                valid = True if missing is None else ~missing[channel, rows]
                np.copyto(result[channel, rows], values, casting="same_kind", where=valid)

            do_all(each(restore, _some_rows(stable)))
    return result


def _some_rows(plane: Pixels) -> Iterator[slice]:
    """Yield slices of some rows each, so few that their conversion to float64 stays in the cache of a core."""
    rows = max(1, 2**16 // plane.shape[1])
    for top in range(0, plane.shape[0], rows):
        yield slice(top, top + rows)

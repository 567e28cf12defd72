"""Mosaics: images of a sensor behind a Bayer filter, before they are developed.

A mosaic is denoised as an image of half the size with four channels, one for each place in the pattern. Their noise is
independent, and grows with the signal in the same way; developing an image would make it correlated and hard to model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import number
from ..errors import ArgumentError
from ..noise import Noise
from ..types import Array, Mask, Pixels

PATTERNS = ("RGGB", "BGGR", "GRBG", "GBRG")
_PLACES = ((0, 0), (0, 1), (1, 0), (1, 1))
_AROUND = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
_BESIDE = [(-1, 0), (1, 0), (0, -1), (0, 1)]
# A pixel is defective if it differs from the nearest of its neighbours of the same color by this many standard
# deviations, while the pixels beside it, of other colors, differ from theirs by less than _NORMAL of them, or by less
# than a share of _SPREAD of its own difference: the image of a star is never confined to a single pixel.
_DEFECTIVE = 8.0
_NORMAL = 4.0
_SPREAD = 0.1


@dataclass(frozen=True)
class Mosaic:
    """The Bayer pattern and the levels of a raw image.

    Parameters
    ----------
    pattern : {"RGGB", "BGGR", "GRBG", "GBRG"}
        The colors of the first two pixels of the first row, and of the first two pixels of the second row.
    black_level : float or sequence of four floats, optional
        The value of a pixel that receives no light: one number, or one for each place in the pattern.
    white_level : float, optional
        The value at which pixels are saturated. Saturated areas are left unchanged, and ignored when the noise is
        estimated.

    See Also
    --------
    denoise_mosaic : Denoise a raw image.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> random = np.random.default_rng(0)
    >>> raw = 512 + random.poisson(50.0, (128, 128))
    >>> mosaic = nlridge.Mosaic("RGGB", black_level=512, white_level=16383)
    >>> denoised = nlridge.denoise_mosaic(raw, mosaic)
    >>> bool(np.std(denoised) < 0.3 * np.std(raw))
    True
    """

    pattern: str
    black_level: float | tuple[float, ...] = 0.0
    white_level: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or self.pattern not in PATTERNS:
            *first, last = map(repr, PATTERNS)
            raise ArgumentError("mosaic", self.pattern, f"{', '.join(first)} or {last}")
        given: Any = self.black_level
        if isinstance(given, Sequence | np.ndarray):
            if len(given) != 4:
                raise ArgumentError(
                    "black_level",
                    len(given),
                    "one, or four: one for each place in the pattern",
                    "has {value} numbers",
                )
            black: Any = tuple(number("black_level", value) for value in np.asarray(given).tolist())
        else:
            black = number("black_level", given)
        if not np.all(np.isfinite(black)):
            raise ArgumentError("black_level", given, "finite numbers")
        object.__setattr__(self, "black_level", black)
        if self.white_level is not None:
            white = number("white_level", self.white_level)
            if not np.max(black) < white < np.inf:
                raise ArgumentError(
                    "white_level", self.white_level, "a number above the black level"
                )
            object.__setattr__(self, "white_level", white)

    def planes(self, image: Pixels) -> Pixels:
        """The pixels of each place in the pattern, (..., 4, height, width), half as high and wide as the mosaic.

        If the mosaic has an odd number of rows or columns, it is extended by mirroring.
        """
        odd = [(0, 0)] * (image.ndim - 2) + [(0, length % 2) for length in image.shape[-2:]]
        whole = (
            np.pad(image, odd, "reflect")
            if any(length % 2 for length in image.shape[-2:])
            else image
        )
        return np.stack([whole[..., y::2, x::2] for y, x in _PLACES], axis=-3)

    def joined(self, planes: Pixels, shape: tuple[int, ...]) -> Pixels:
        """The mosaic of a given shape: the inverse of `planes`."""
        height, width = planes.shape[-2:]
        whole = np.empty((*planes.shape[:-3], 2 * height, 2 * width), planes.dtype)
        for k, (y, x) in enumerate(_PLACES):
            whole[..., y::2, x::2] = planes[..., k, :, :]
        return whole[..., : shape[-2], : shape[-1]]

    @property
    def extended(self) -> "Mosaic":
        """The pattern and levels of the mosaic if it had one more row above and one more column to the left."""
        black = self.black_level
        black = black[::-1] if isinstance(black, tuple) else black
        return Mosaic(self.pattern[::-1], black, self.white_level)

    @property
    def black_levels(self) -> Array:
        """The black level of each plane, (4, 1, 1)."""
        return np.broadcast_to(np.asarray(self.black_level, np.float64), 4).reshape(4, 1, 1)

    def saturated(self, planes: Pixels) -> Mask | None:
        """Which pixels of planes, from which no black level was subtracted, are saturated; None if none is."""
        if self.white_level is None:
            return None
        saturated = planes >= self.white_level
        return saturated if saturated.any() else None


def checked_mosaic(mosaic: Any) -> Mosaic:
    """Return the argument of `denoise`, which may be the pattern alone."""
    return mosaic if isinstance(mosaic, Mosaic) else Mosaic(mosaic)


def mostly(mask: Mask) -> Mask:
    """The pixels of (..., height, width) around which most pixels are marked, themselves included."""
    wide = np.pad(mask.astype(np.uint8), [(0, 0)] * (mask.ndim - 2) + [(1, 1)] * 2, "edge")
    rows = wide[..., :-2, :] + wide[..., 1:-1, :] + wide[..., 2:, :]
    return np.asarray(rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] >= 5)


def repair(planes: Array, noise: Noise) -> int:
    """Replace hot and dead pixels of (4, height, width) by the median of their neighbours, and return their number.

    `noise` is that of the planes. A defective pixel stands out among its neighbours of the same color, and those of
    other colors beside it do not.
    """
    _, height, width = planes.shape
    whole = Mosaic("RGGB").joined(planes, (2 * height, 2 * width))
    wide = np.pad(whole, 4, "symmetric" if min(whole.shape) < 5 else "reflect")
    level = float(np.median(noise.level))

    def deviation(values: Pixels) -> Pixels:
        return np.sqrt(noise.variance(values.astype(np.float64), np.full((1, 1), level)))

    def difference(y: Pixels, x: Pixels) -> Pixels:
        """The difference of pixels from the median of their neighbours of the same color."""
        around = np.stack([wide[y + 2 * dy, x + 2 * dx] for dy, dx in _AROUND])
        return np.asarray(wide[y, x] - np.median(around, axis=0))

    count = 0
    for k, (row, column) in enumerate(_PLACES):
        own = np.pad(planes[k], 1, "edge" if min(planes[k].shape) < 2 else "reflect")
        around = [own[1 + y : 1 + y + height, 1 + x : 1 + x + width] for y, x in _AROUND]
        plane = planes[k]
        for sign, nearest in ((1, np.maximum), (-1, np.minimum)):
            closest = around[0].copy()
            for other in around[1:]:
                nearest(closest, other, out=closest)
            above = sign * (plane - closest)
            ys, xs = np.nonzero(above > _DEFECTIVE * deviation(closest))
            if not len(ys):
                continue
            y, x = 2 * ys + row + 4, 2 * xs + column + 4
            beside = np.zeros(len(ys), bool)
            for dy, dx in _BESIDE:
                typical = deviation(wide[y + dy, x + dx][None])[0]
                most = np.maximum(_NORMAL * typical, _SPREAD * above[ys, xs])
                beside |= sign * difference(y + dy, x + dx) > most
            ys, xs, y, x = (values[~beside] for values in (ys, xs, y, x))
            planes[k, ys, xs] -= difference(y, x)
            count += len(ys)
    return count

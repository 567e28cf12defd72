"""How strong the noise of an image is, in plain words; the figures follow wherever noise is described.

What matters to the eye is the noise relative to the range from black to white. On a screen, a standard deviation of 1 of
255 is the step between two shades and hardly visible, 2.5 is visible in plain areas, 5 everywhere at actual size, and
from about 12 on, noise hides detail even in an image reduced to the size of the screen. The words change at these shares.

For photographs, the ISO speed at which cameras produce as much noise says more than a number. Photon noise grows with
the root of the ISO speed. A sensor of 24 x 36 mm with 24 million pixels counts about 60,000 electrons at ISO 100 before a
pixel is white. A medium gray then has a signal-to-noise ratio of about 100, a standard deviation of 0.5 of 255 on the
screen. White balance, the color matrix and sharpening raise it to 0.8. So it is 0.08 times the root of the ISO speed,
and 6.4 at ISO 6400. Smaller sensors have more noise; newer ones, and cameras that remove noise, have less: this is
accurate only to the next power of two. If a file states its ISO speed, the words name that instead.
"""

import math

import numpy as np
import numpy.typing as npt

from ... import PoissonGaussianNoise
from ...files import Layer, Picture
from ...files.camera_metadata import iso_of
from ...noise import Noise, level_of
from ...types import Pixels

_STRENGTHS = ((1 / 255, "very faint"), (2.5 / 255, "faint"), (5 / 255, "moderate"), (12 / 255, "strong"))  # fmt: skip
_STRONGEST = "very strong"
_AT_ISO_1 = 0.08 / 255  # share of the range
_SLOWEST, _FASTEST = 100, 102_400
# The formats of photographs. TIFF is used by microscopes as well; a photograph stored as TIFF states its exposure.
_OF_CAMERAS = ("bmp", "developed", "heif", "jpeg_xl", "pillow", "pillow_avif", "png", "raw")
# Raw pixels are linear. The tone curve of a screen, the root of 2.2, has this slope at a medium gray of 18 %.
_GRAY = 0.18
_SLOPE = _GRAY ** (1 / 2.2 - 1) / 2.2
# The level of the error of rounding to integers; noise of half a step or more makes it a third larger at least.
_OF_ROUNDING = 1.1 / math.sqrt(12)
_SAMPLE = 2**20  # pixels that the range is taken from


def plain_words(
    noise: Noise,
    level: float,
    ends: tuple[float, float],
    *,
    photograph: bool = False,
    iso: int | None = None,
    given: bool = False,
) -> str:
    """Return how strong noise is: "strong grain, about ISO 6400", or "faint noise, about 0.7% of the range".

    Parameters
    ----------
    noise, level
        The noise, and its standard deviation.
    ends
        Black and white, in the same units.
    photograph
        Whether the image is one, with black and white as on a screen.
    iso
        The ISO speed that the file states, if it does.
    given
        Whether the noise is known rather than estimated.
    """
    if not level > 0:
        return "no noise found"
    low, high = ends
    if not given:  # of noise that may be texture, only what is removed counts
        level *= _share_of(noise)
    share = level / (high - low) if high > low else math.inf
    strength = next((words for least, words in _STRENGTHS if share < least), _STRONGEST)
    doubt = "" if given or is_certain(noise) else ", or fine texture"
    if photograph:
        return f"{strength} grain{doubt}, {_speed(share) if iso is None else f'at ISO {iso}'}"
    if isinstance(noise, PoissonGaussianNoise):
        photons = (high - noise.black_level) / noise.gain
        figure = f"about {_rounded(photons)} photons in the brightest pixels"
    elif share < 1:
        figure = f"about {_rounded(100 * share)}% of the range"
    else:
        figure = "more than the range"
    return f"{strength} noise{doubt}, {figure}"


def is_certain(noise: Noise) -> bool:
    """Return whether noise that was estimated cannot be texture; see `CorrelatedNoise`."""
    return _share_of(noise) == 1


def _share_of(noise: Noise) -> float:
    return float(getattr(noise, "share", 1.0))


def _speed(share: float) -> str:
    """Return the ISO speed at which a camera makes as much noise, to the next power of two."""
    if share <= _AT_ISO_1 * math.sqrt(_SLOWEST):
        return f"about ISO {_SLOWEST} or less"
    if share >= _AT_ISO_1 * math.sqrt(_FASTEST):
        return f"about ISO {_FASTEST} or more"
    doublings = round(2 * math.log2(share / _AT_ISO_1) - math.log2(_SLOWEST))
    return f"about ISO {_SLOWEST * 2**doublings}"


def _rounded(figure: float) -> str:
    """Return a number with one digit, or two if the first is 1."""
    digits = 2 if f"{figure:e}"[0] == "1" else 1
    return f"{float(f'{figure:.{digits}g}'):,g}"


def words_for(
    picture: Picture, layer: Layer, frame: Pixels, noise: Noise, level: float, given: bool = False
) -> str:
    """Return how strong the noise of a frame of a picture is; `level` is its standard deviation."""
    if frame.dtype.kind in "ui" and 0 < level < _OF_ROUNDING and not given:
        return "no noise found but that of rounding"
    iso = iso_of(picture)
    if layer.mosaic is not None:
        white = layer.mosaic.white_level
        if picture.format == "raw" and white is not None:
            span = white - float(layer.mosaic.black_levels.mean())
            own = np.reshape(np.asarray(noise.level, np.float64), (-1, 1, 1))
            gray = np.full((own.size, 1, 1), _GRAY * span)
            seen = _SLOPE * level_of(noise, own, gray)
            return plain_words(noise, seen, (0.0, span), photograph=True, iso=iso, given=given)
    elif is_photograph(picture, layer):
        ends = (0.0, float(np.iinfo(layer.pixels.dtype).max))
        return plain_words(noise, level, ends, photograph=True, iso=iso, given=given)
    return plain_words(noise, level, ends_of(frame), given=given)


def is_photograph(picture: Picture, layer: Layer) -> bool:
    """Return whether a layer is a color image as cameras store them, in a file format of cameras."""
    return (
        layer.axes == "YXC"
        and layer.pixels.shape[-1] == 3
        and layer.pixels.dtype in (np.uint8, np.uint16)
        and (picture.format in _OF_CAMERAS or iso_of(picture) is not None)
    )


def ends_of(frame: Pixels) -> tuple[float, float]:
    """Return the darkest and the brightest value of an image, without a few outliers."""
    step = math.ceil(math.sqrt(frame.size / _SAMPLE)) or 1
    longest = sorted(frame.shape)[-2:]
    some = frame[tuple(slice(None, None, step if n in longest else 1) for n in frame.shape)]
    values = some[np.isfinite(some)].astype(np.float64)
    low, high = np.percentile(values, [0.1, 99.9]) if values.size else (0.0, 0.0)
    return float(low), float(high)


def level_in(
    noise: Noise,
    frame: Pixels,
    channel_axis: int | None = None,
    missing: npt.NDArray[np.bool_] | None = None,
) -> float:
    """Return the standard deviation of noise in an image of (height, width), perhaps with channels.

    `missing` pixels do not count; by default, they are those that are NaN.
    """
    planes = frame[None] if channel_axis is None else np.moveaxis(frame, channel_axis, 0)
    levels = np.reshape(np.asarray(noise.level, np.float64), (-1, 1, 1))
    if missing is None and planes.dtype.kind == "f":
        missing = np.isnan(planes)
    return level_of(noise, levels, planes, missing)

"""Estimate noise that is correlated from pixel to pixel, such as that of a developed photograph.

Demosaicking, sharpening, resizing and JPEG correlate the noise of a photograph, and its tone curve makes the level a
curve of the brightness. Both are measured in calm blocks of pixels (`calm`), and the level is chosen by a few trial runs on
a small part of the image (`trial`): at the right one, the result and what was removed are least alike.

How clearly they are so tells noise from the texture of an image without noise. So does what blocks have in common: noise is
the same in all of them, whereas blocks with more texture at low frequencies have more of it at higher ones, too. A field
of stars is no noise either, although its calm parts are alike: the faint stars in them are all brighter than the sky, and
noise is not so one-sided. Where it is not clear which of the two it is, so little is removed that it could not be seen if
it were texture. If it is noise, that is worth more than it seems: a half of the right change removes three quarters of the
error that all of it removes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from . import Array
from .blocks import Mask
from .calm import in_most_areas, measured_in
from .curve import CurveNoise, scaled
from .trial import Denoise, Part, best_level, neighbours_of, of_brightness, part_of

# The energies of blocks of noise begin abruptly: the calmest twentieth of them spans a ratio of about 1.8. Those of
# texture span more, and those of a regular pattern less than this.
_REGULAR = 1.4
_MOST_SPAN = 6.0  # of noise; if the energies of calm blocks span more, noise is no stronger than in the calmest of them
# The largest change that is made if it is not clear whether it is noise, as a share of the range of the image (rms).
_INVISIBLE = 1 / 350
# How much the likeness must fall, for each unit of the span and of the growth.
_NEED_SPAN, _NEED_GROWTH = 0.05, 0.9
# It is more likely noise than texture if the likeness falls by at least this share of that, the growth is no larger than
# this, and neighbours have at most this correlation: texture is smoother.
_LIKELY, _LITTLE_GROWTH, _ROUGH = 1 / 3, 0.45, 0.76
# Strong noise hides the growth that texture causes. So growth counts more if the level is above this share of the range:
# in proportion to the level, up to a factor.
_STRONG, _MOST_STRONG = 0.024, 2.0
# What is one-sided and grows is the faint part of the image: stars, or other spots. Noise may be one-sided, but then it is
# so everywhere, and does not grow. This is the least product of skewness and growth. What JPEG left of noise is not judged.
_ONE_SIDED = 0.15
# Noise is not this many times stronger at one brightness than at another: that is the texture of bright objects.
_MOST_UNEVEN = 16.0


class CorrelatedEstimate(NamedTuple):
    """The noise of an image whose noise is not white."""

    base: CurveNoise
    """The level of the noise as a curve of the value of a pixel, with a factor for each channel."""
    correlation: Array
    """Correlation of the stabilised noise, (channels, channels, 2 R + 1, 2 R + 1). Entry [c, d, R + y, R + x] is that
    between channel c of a pixel and channel d of the pixel y rows below and x columns to the right."""
    sure: bool
    """Whether this is clearly noise. Otherwise it may as well be the texture of an image without noise."""
    likely: bool
    """Whether this is more likely noise than texture."""
    regular: bool
    """Whether it is a regular pattern or the faint part of an image of spots, such as stars, which is not noise."""
    cautious: CurveNoise
    """The level if it is no more likely noise than texture: no higher than in the calmest areas."""
    invisible: float
    """The root mean square of the largest change that is not visible."""
    part: Part
    """The part of the image for trial runs."""

    def invisible_share(self, base: CurveNoise, denoise: Denoise) -> float:
        """How much of such noise can be removed without visible changes of the image: all of it at 1."""
        gray, base, correlation, variance = of_brightness(self.part, base, self.correlation)
        residual = (gray - denoise(gray, base, correlation))[0, self.part.counted]
        removed = math.sqrt(float(np.mean(residual**2)) / variance)  # as much of other colors
        return min(1.0, self.invisible / max(removed, 1e-300))


def correlated_noise_of(
    pixels: Sequence[Array], excluded: Sequence[Mask], clipped: Sequence[Mask], denoise: Denoise
) -> CorrelatedEstimate | None:
    """Estimate the noise of an image, given channel by channel, if it is correlated.

    `excluded` marks missing and saturated pixels of each channel, and `clipped` those of them that are clipped at the dark
    end. `denoise` is used for trial runs, on a few pixels of the brightness. Returns None if the noise is white, or if
    there are too few pixels to tell.
    """
    measured = measured_in(pixels, excluded, clipped)
    if measured is None:
        return None
    part = part_of(pixels, excluded)
    base, correlation = in_most_areas(measured)
    contrast = float(np.ptp(part.image))
    invisible = _INVISIBLE * contrast
    if not measured.sparse and measured.skewness * measured.growth > _ONE_SIDED:
        return CorrelatedEstimate(base, correlation, False, False, True, base, invisible, part)
    level = best_level(part, measured, denoise)
    strong = float(np.median(measured.base.sigmas)) / max(_STRONG * contrast, 1e-300)
    growth = max(measured.growth, 0.0) * min(max(strong, 1.0), _MOST_STRONG)
    needed = 1 + _NEED_SPAN * measured.span + _NEED_GROWTH * growth
    regular = measured.span < _REGULAR
    even = max(measured.base.sigmas) <= _MOST_UNEVEN * min(measured.base.sigmas)
    possible = not regular and even
    sure = possible and level.fall >= needed
    like_noise = growth <= _LITTLE_GROWTH and neighbours_of(measured.correlation) <= _ROUGH
    likely = sure or (possible and like_noise and level.fall - 1 >= _LIKELY * (needed - 1))
    calmest = math.sqrt(min(_MOST_SPAN / measured.span, 1.0))
    return CorrelatedEstimate(
        scaled(base, level.factor),
        correlation,
        sure,
        likely,
        regular,
        scaled(base, calmest * min(level.least, 1.0)),
        invisible,
        part,
    )

"""How probable it is that something is noise."""

import math

import numpy as np
import pytest
from correlated_images import KERNELS, noise_of

from nlridge.noise import learned
from nlridge.noise.calm import measured_in
from nlridge.noise.curve import CurveNoise
from nlridge.noise.decision import Evidence, evidence_of, probability_of_noise
from nlridge.noise.trial import Brightness, Level

TYPICAL = Evidence(*learned.MEANS)


def test_there_is_a_weight_for_each_piece_of_evidence():
    assert len(learned.WEIGHTS) == len(learned.MEANS) == len(Evidence._fields)
    assert np.all(learned.DEVIATIONS > 0)


def test_the_more_likeness_falls_and_the_less_texture_grows_the_more_probable_noise_is():
    falls = [TYPICAL._replace(fall=fall) for fall in (-4.0, -2.0, 0.0, 1.5)]
    assert np.all(np.diff([probability_of_noise(evidence) for evidence in falls]) > 0)
    growths = [TYPICAL._replace(growth=g, growth_and_level=-4 * g) for g in (0.0, 0.3, 0.8)]
    assert np.all(np.diff([probability_of_noise(evidence) for evidence in growths]) < 0)


def test_unknown_evidence_counts_as_typical():
    unknown = dict.fromkeys(("residual", "spread", "alike"), math.nan)
    assert probability_of_noise(TYPICAL._replace(**unknown)) == pytest.approx(
        probability_of_noise(TYPICAL)
    )


def test_extreme_evidence_has_a_probability():
    for value in (-1e6, 1e6):
        assert 0 <= probability_of_noise(Evidence(*[value] * len(Evidence._fields))) <= 1


def evidence_with(noise, counted=None):
    """The evidence if all of the noise is removed, and no more."""
    image = 100 + noise[None]
    none = np.zeros(image.shape, bool)
    measured = measured_in(image, none, none)
    assert measured is not None
    counted = np.ones(noise.shape, bool) if counted is None else counted
    base = CurveNoise(measured.base.values, measured.base.sigmas)
    brightness = Brightness(image, base, measured.correlation, 1.0, counted)
    return evidence_of(measured, brightness, Level(1.0, 1.0, 3.0), lambda _: image[0] - noise)


def test_noise_is_alike_all_over_the_image():
    noise = 8 * noise_of(KERNELS["blur"], (256, 256))
    y, x = np.mgrid[:256, :256]
    even, uneven = (
        evidence_with(noise * contrast)
        for contrast in (1.0, np.exp(np.sin(x / 50) * np.cos(y / 40)))
    )
    assert even.alike < 0.05 < uneven.alike
    assert even.spread < 0.5 < uneven.spread
    assert even.residual == pytest.approx(0, abs=0.4)


def test_tiles_of_one_value_and_those_that_do_not_count_are_no_evidence():
    noise = 8 * noise_of(KERNELS["blur"], (256, 256))
    whole = evidence_with(noise)
    flat = noise.copy()
    flat[:64] = 0  # a border
    assert evidence_with(flat).spread == pytest.approx(whole.spread, abs=0.1)
    damaged, counted = noise.copy(), np.ones(noise.shape, bool)
    damaged[:64, ::2] += 50
    counted[:64] = False
    assert evidence_with(damaged, counted).spread == pytest.approx(whole.spread, abs=0.1)
    assert math.isnan(evidence_with(noise, np.zeros(noise.shape, bool)).spread)

"""More strength never removes less."""

import numpy as np
import pytest
from skimage import data

import nlridge

STRENGTHS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1, 1.1, 1.3, 1.6, 2, 2.5, 2.9, 3, 3.1, 3.5, 4, 5, 7, 10)
KERNEL = np.outer([1, 2, 1], [1, 2, 1]) / 6
CURVE = nlridge.CurveNoise([0, 128, 255], [4, 12, 6])
CORRELATION = nlridge.CorrelatedNoise.from_kernel(10, KERNEL).correlation


def _white(shape):
    return np.random.default_rng(0).normal(size=shape)


def _blurred(shape):
    white = _white(shape)
    return sum(KERNEL[i, j] * np.roll(white, (i, j), (0, 1)) for i, j in np.ndindex(3, 3))


CASES = {
    "white": (nlridge.GaussianNoise(10), lambda x: x + 10 * _white(x.shape)),
    "correlated": (nlridge.CorrelatedNoise(10, CORRELATION), lambda x: x + 10 * _blurred(x.shape)),
    "half": (nlridge.CorrelatedNoise(10, CORRELATION, 0.5), lambda x: x + 10 * _blurred(x.shape)),
    "fifth": (nlridge.CorrelatedNoise(10, CORRELATION, 0.2), lambda x: x + 10 * _blurred(x.shape)),
    "curve": (CURVE, lambda x: x + CURVE.sigma_at(x) * _white(x.shape)),
    "correlated curve": (
        nlridge.CorrelatedNoise(CURVE, CORRELATION, 0.6),
        lambda x: x + CURVE.sigma_at(x) * _blurred(x.shape),
    ),
    "Poisson": (
        nlridge.PoissonGaussianNoise(4.0),
        lambda x: 4.0 * np.random.default_rng(0).poisson(x / 4),
    ),
    "few photons": (
        nlridge.PoissonGaussianNoise(80.0),
        lambda x: 80.0 * np.random.default_rng(0).poisson(x / 80),
    ),
}


@pytest.mark.parametrize("method", ["fast", "standard"])
@pytest.mark.parametrize("case", CASES)
def test_more_strength_never_removes_less(case, method):
    noise, noisy = CASES[case]
    image = noisy(data.camera()[100:180, 150:230].astype(float))
    removed = [
        float(np.std(nlridge.denoise(image, noise=noise, method=method, strength=s) - image))
        for s in STRENGTHS
    ]
    assert removed[0] < 0.5 * removed[STRENGTHS.index(1)]
    assert np.diff(removed).min() >= -1e-3 * removed[-1]


@pytest.mark.parametrize("name", ["grass", "gravel", "camera"])
def test_more_strength_never_removes_less_of_what_may_be_texture(name):
    """White noise is removed in any case, what may be texture as well only with more strength."""
    image = getattr(data, name)()[:160, :160]
    removed = [
        float(np.std(nlridge.denoise(image, method="fast", strength=s) - image)) for s in STRENGTHS
    ]
    assert np.diff(removed).min() >= -1e-3 * removed[-1]

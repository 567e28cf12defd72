"""Channels that are constant, or nearly so, have no noise, and do not hide that of the others."""

import numpy as np
import pytest

import nlridge
from nlridge.noise.estimation import changing_channels

SIGMA = 6.0
LENGTH = 96


def _colored(noise="white", frames=None):
    """Three channels, with noise."""
    y, x = np.mgrid[:LENGTH, :LENGTH]
    clean = np.stack([100 + 50 * np.sin(x / 9), 120 + 40 * np.cos(y / 11), 90 + 20 * np.sin(x / 7)])
    shape = clean.shape if frames is None else (frames, *clean.shape)
    drawn = np.random.default_rng(0).normal(0, SIGMA, shape)
    if noise == "correlated":
        drawn = sum(np.roll(drawn, (i, j), (-2, -1)) for i, j in np.ndindex(3, 3)) / 3
    return (clean + drawn).astype(np.float32)


def _constant(like):
    return np.full_like(like[..., :1, :, :], 0.7)


def _nearly_constant(like):
    channel = _constant(like)
    channel[..., 10:14, 20:30] = np.random.default_rng(0).uniform(0, 255, (4, 10))
    return channel


def _mask(like):
    """A third of it is transparent."""
    channel = _constant(like)
    channel[..., :32, :] = 255
    return channel


def _soft_mask(like):
    """Its edges are soft, as those of text: 6 % of its pixels are in between."""
    channel = _mask(like)
    channel[..., 32:36, :] = np.linspace(255, 0, 6)[1:-1, None]
    return channel


EXTRA = [_constant, _nearly_constant, _mask, _soft_mask]


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("kind", ["auto", "gaussian", "correlated"])
def test_noise_of_the_others_is_the_same(extra, kind):
    image = _colored("correlated" if kind == "correlated" else "white")
    alone = nlridge.estimate_noise(image, channel_axis=0, kind=kind)
    both = nlridge.estimate_noise(np.concatenate([image, extra(image)]), channel_axis=0, kind=kind)
    assert type(both) is type(alone)
    if kind == "correlated":
        base = alone.noise
        assert both.noise == nlridge.CurveNoise(base.values, base.sigmas, (*base.level, 1.0))
        np.testing.assert_array_equal(both.correlation[:3, :3], alone.correlation)
    else:
        np.testing.assert_array_equal(both.sigma, [alone.sigma] * 3 + [0])


def test_composite_of_two_colors():
    image = _colored()
    image[1] = 0
    noise = nlridge.estimate_noise(image, channel_axis=0)
    assert noise.sigma[0] == pytest.approx(SIGMA, rel=0.1)
    clean = nlridge.denoise(image, channel_axis=0)
    assert np.all(clean[1] == 0)
    assert np.std(image[0] - clean[0]) > 0.8 * SIGMA


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("how", ["array", "given", "poisson", "stack", "video", "dask", "tensor"])
def test_it_is_returned_as_it_is(extra, how):
    image = _colored(frames=3 if how in ("stack", "video") else None)
    image = np.concatenate([image, extra(image)], axis=-3)
    arguments = {"channel_axis": image.ndim - 3, "method": "fast"}
    if how == "given":
        arguments["sigma"] = SIGMA
    elif how == "poisson":
        arguments["noise"] = nlridge.PoissonGaussianNoise(0.3)
    elif how in ("stack", "video"):
        arguments["stack_axis" if how == "stack" else "time_axis"] = 0
    given = image
    if how == "dask":
        given = pytest.importorskip("dask.array").from_array(image, chunks=(4, 48, 48))
    elif how == "tensor":
        given = pytest.importorskip("torch").tensor(image)
    clean = np.asarray(nlridge.denoise(given, **arguments))
    np.testing.assert_array_equal(clean[..., 3, :, :], image[..., 3, :, :])
    assert np.std((image - clean)[..., :3, :, :]) > 0.7 * SIGMA


def test_images_of_very_few_photons_are_not_nearly_constant():
    counts = np.random.default_rng(0).poisson(0.003, (3, 64, 64))
    assert changing_channels(counts).all()
    counts[1] = 0
    assert changing_channels(counts).tolist() == [True, False, True]

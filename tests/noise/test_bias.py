"""Local means of the result are those of the noisy image, in dark and bright areas, clipped or not."""

import numpy as np
import pytest
from benchmarks.bias import MODELS, chart, largest_bias

import nlridge
from nlridge.noise.unbiased import restoring

WITH_CURVES = [name for name in MODELS if "curve" in name and "correlated" not in name]
NODES = np.linspace(-6, 6, 2001)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("level", [2, 10, 30, 60])
@pytest.mark.parametrize("model", WITH_CURVES)
def test_the_inverse_of_a_curve_has_no_bias(model, level, clipped):
    noise = MODELS[model](chart(), level, np.random.default_rng(0))[1]
    truths = np.linspace(0, 255, 103)
    sigma = noise.sigma_at(truths)
    low, high = (0, 255) if clipped else (-np.inf, np.inf)
    pixels = np.clip(truths[:, None] + sigma[:, None] * NODES, low, high)
    restored = restoring(noise, 1.0, low, high).restore(noise.stabilise(pixels) @ WEIGHTS)
    assert np.max(np.abs(restored - pixels @ WEIGHTS) / sigma) < 0.02
    if not clipped:
        alone = noise.restore(noise.stabilise(pixels) @ WEIGHTS)
        np.testing.assert_allclose(restored, alone, atol=1e-9 * level)


@pytest.mark.parametrize("photons", [0.0, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("read_noise", [1.0, 3.0])
def test_the_inverse_of_clipped_photon_noise_has_no_bias(photons, read_noise):
    """Read noise is often clipped at the black level."""
    noise = nlridge.PoissonGaussianNoise(2.0, 2.0 * read_noise, 10.0)
    random = np.random.default_rng(0)
    counts = random.poisson(photons, 400_000) + random.normal(0, read_noise, 400_000)
    pixels = np.clip(10 + 2 * counts, 10, 10 + 2 * 35)
    mean = noise.stabilise(pixels).mean()
    error = restoring(noise, 1.0, 10, 80).restore(np.array([mean]))[0] - pixels.mean()
    assert abs(error) < 0.01 * 2 * np.sqrt(photons + read_noise**2)


def test_the_level_of_a_channel_counts():
    noise = nlridge.CurveNoise([0, 100], [2, 30], [0.5, 2.0])
    for level in noise.level:
        pixels = 50 + level * noise.sigma_at(50) * NODES
        mean = noise.stabilise(pixels) @ WEIGHTS
        restored = restoring(noise, level, -np.inf, np.inf).restore(np.array([mean]))[0]
        assert restored == pytest.approx(50, abs=0.02 * level * noise.sigma_at(50))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("level", [20, 60])
@pytest.mark.parametrize("model", MODELS)
def test_local_means_stay_those_of_the_noisy_image(model, level, stored):
    if level == 60 and ("correlated" in model or (model == "curve with a peak" and not stored)):
        # What is left of noise this strong is curved by the inverse as well.
        assert largest_bias(model, level, stored) < 0.3
    else:
        assert largest_bias(model, level, stored) < 0.1


def _clipped_image(*shape):
    noise = nlridge.CurveNoise([0, 100, 255], [8, 40, 20])
    clean = np.broadcast_to(np.linspace(5, 250, shape[-1]), shape)
    pixels = clean + noise.sigma_at(clean) * np.random.default_rng(0).normal(size=shape)
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8), noise


def test_tensors_use_the_same_inverse():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    image, noise = _clipped_image(96, 128)
    expected = nlridge.denoise(image, noise=noise, method="fast")
    tensor = nlridge.denoise(torch.as_tensor(image), noise=noise, method="fast")
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_all_ways_use_the_same_inverse(tmp_path):
    image, noise = _clipped_image(96, 128)
    expected = nlridge.denoise(image, noise=noise, method="fast")
    options = {"noise": noise, "method": "fast"}
    out = tmp_path / "out.npy"
    nlridge.denoise_to_disk(image, out, tile=64, **options)
    np.testing.assert_array_equal(np.load(out), expected)
    prepared = nlridge.prepare(image, **options)
    part = prepared.denoise(region=np.s_[10:40, 20:90])
    np.testing.assert_array_equal(part, expected[10:40, 20:90])


def test_frames_keep_their_means():
    frames, noise = _clipped_image(4, 96, 128)
    clean = nlridge.denoise(frames, noise=noise, method="fast", time_axis=0)
    change = (clean.mean(axis=1) - frames.mean(axis=1)).reshape(4, 8, 16).mean(axis=(0, 2))
    assert np.abs(change).max() < 0.05 * 20


def test_missing_pixels_do_not_count_as_the_ends_of_the_range():
    image, noise = _clipped_image(64, 96)
    pixels = image.astype(np.float32)
    pixels[:8, :8] = np.nan
    mask = np.zeros(pixels.shape, bool)
    mask[20:24, 20:24] = True
    spoilt = np.where(mask, -1e6, pixels)
    options = {"noise": noise, "method": "fast", "data_range": 255, "mask": mask}
    result, other = (nlridge.denoise(image, **options) for image in (spoilt, pixels))
    np.testing.assert_array_equal(result[~mask], other[~mask])

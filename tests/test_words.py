"""What nlridge is told and what it says: kinds of noise, warnings, and what was found and removed."""

import numpy as np
import pytest

from nlridge import denoise, denoise_with_details, estimate_noise, estimate_quality


def photons(height=96, width=96):
    """Counts of photons: noise that grows with the signal."""
    y, x = np.mgrid[:height, :width]
    truth = 60 + 50 * np.sin(x / 15) * np.cos(y / 20)
    return np.random.default_rng(0).poisson(truth).astype(np.float32)


# The kind of noise to estimate.


@pytest.mark.parametrize("kind", ["auto", "gaussian", "poisson"])
def test_all_functions_take_the_same_kinds_of_noise(kind):
    image = photons(160, 160)
    model = estimate_noise(image, kind=kind)
    expected = denoise(image, noise=model, method="fast")
    details = denoise_with_details(image, noise=kind, method="fast")
    assert details.noise == model
    assert not details.noise_given
    assert denoise_with_details(image, noise=model, method="fast").noise_given
    np.testing.assert_array_equal(details.image, expected)
    np.testing.assert_array_equal(denoise(image, noise=kind, method="fast"), expected)
    estimated = estimate_quality(image, noise=kind, method="fast")
    given = estimate_quality(image, noise=model, method="fast")
    assert estimated.psnr == given.psnr
    assert estimated.standard_error > given.standard_error


def test_large_images_take_the_same_kinds_of_noise(tmp_path):
    da = pytest.importorskip("dask.array")
    image = photons(160, 160)
    expected = denoise(image, noise=estimate_noise(image, kind="gaussian"), method="fast")
    options = {"noise": "gaussian", "method": "fast"}
    np.testing.assert_array_equal(denoise(image, **options, out=tmp_path / "a.npy"), expected)
    np.testing.assert_array_equal(denoise(da.from_array(image), **options).compute(), expected)


def test_tensors_take_the_same_kinds_of_noise():
    torch = pytest.importorskip("torch")
    image = photons(64, 64)
    sigma = estimate_noise(image, kind="gaussian").sigma
    for needs_gradient in (False, True):
        tensor = torch.tensor(image, requires_grad=needs_gradient)
        result = denoise(tensor, noise="gaussian", method="fast")
        assert torch.equal(result, denoise(tensor, sigma, method="fast"))


def test_unknown_kinds_of_noise():
    expected = "'loud'; expected 'auto', 'gaussian', 'poisson' or 'correlated'"
    with pytest.raises(ValueError, match=f"noise is {expected}"):
        denoise(np.zeros((9, 9)), noise="loud")
    with pytest.raises(ValueError, match=f"kind is {expected}"):
        estimate_noise(np.zeros((9, 9)), kind="loud")
    with pytest.raises(ValueError, match="sigma is given and noise is 'poisson'; expected at most"):
        denoise(np.zeros((9, 9)), 1, noise="poisson")

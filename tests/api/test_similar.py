"""`denoise_frames(similar=...)`: similar patches are searched for in other images than those that are denoised."""

import numpy as np
import pytest
from images import psnr
from moving_scenes import scene

import nlridge
from nlridge import CorrelatedNoise
from nlridge.files.video.pixels import Parts, luma_of

COUNT = 9


def chroma_and_luma():
    """Weak chroma that follows the structure of a luma, and that luma, with noise."""
    luma = scene(COUNT, (64, 80))
    chroma = 128 + 0.2 * (np.stack([luma, -luma], axis=1) - 128)
    rng = np.random.default_rng(3)
    return chroma, chroma + rng.normal(0, 15, chroma.shape), luma + rng.normal(0, 10, luma.shape)


def results(noisy, sigma=15, **options):
    options = {"channel_axis": 0, "method": "fast"} | options
    return np.stack(list(nlridge.denoise_frames(noisy, sigma, **options)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fast", "standard", "best"])
def test_chroma_gains_by_the_patches_of_the_luma(method):
    clean, noisy, luma = chroma_and_luma()
    own = results(noisy, method=method)
    by_luma = results(noisy, method=method, similar=luma)
    assert psnr(by_luma, clean) > psnr(own, clean) + 0.2


def test_the_unit_of_the_images_hardly_matters():
    """Only their order of similarity does: to the bit for a power of two."""
    _, noisy, luma = chroma_and_luma()
    expected = results(noisy, similar=luma)
    np.testing.assert_array_equal(results(noisy, similar=(4 * image for image in luma)), expected)
    np.testing.assert_array_equal(results(noisy, similar=luma, workers=2), expected)


def test_correlated_noise():
    clean, noisy, luma = chroma_and_luma()
    noise = noisy - clean
    noisy = clean + (noise + np.roll(noise, 1, axis=-1)) / 2**0.5
    model = CorrelatedNoise(15, [[0.5, 1, 0.5]])
    own = results(noisy, None, noise=model)
    by_luma = results(noisy, None, noise=model, similar=luma)
    assert psnr(by_luma, clean) > psnr(own, clean) > psnr(noisy, clean) + 2


def test_pixels_that_are_missing_in_the_images():
    _, noisy, luma = chroma_and_luma()
    luma[4, 10:20, 10:20] = np.nan
    masked = np.ma.masked_invalid(luma)
    expected = results(noisy, similar=luma)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(results(noisy, similar=masked), expected)


def test_images_that_do_not_fit():
    _, noisy, luma = chroma_and_luma()
    with pytest.raises(ValueError, match="similar has fewer; expected one image for each frame"):
        results(noisy, similar=luma[:-1])
    with pytest.raises(
        ValueError, match=r"similar has the shape \(64, 79\); expected .*\(64, 80\)"
    ):
        results(noisy, similar=luma[..., :-1])
    with pytest.raises(TypeError, match="similar is 3; expected an iterable of arrays"):
        results(noisy, similar=3)


@pytest.mark.parametrize("shrink", [(1, 1), (2, 2), (1, 2)])
def test_luma_at_the_size_of_chroma(shrink):
    rows, columns = shrink
    luma = np.arange(35, dtype=np.uint8).reshape(5, 7)
    small = luma_of((luma, None), Parts(((0,), (1, 2)), 8, shrink))
    assert small.shape == (-(-5 // rows), -(-7 // columns))
    assert small[0, 0] == luma[:rows, :columns].mean()
    assert small[-1, -1] == luma[4 - 4 % rows :, 6 - 6 % columns :].mean()

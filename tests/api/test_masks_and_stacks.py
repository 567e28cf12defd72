"""Missing pixels and stacks: what is missing has no influence, and each image of a stack is denoised as if alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from images import NOISY, psnr, truth

import nlridge
from nlridge import denoise

# Missing pixels.


def test_missing_pixels_are_returned_unchanged_and_have_no_influence():
    noisy = truth() + np.random.default_rng(0).normal(0, 15, (128, 128))
    gone = np.random.default_rng(1).random(noisy.shape) < 0.05
    nan = np.where(gone, np.nan, noisy)
    result = denoise(nan, 15)
    np.testing.assert_array_equal(np.isnan(result), gone)
    for junk in (0.0, 1e6, -1e6):
        spoilt = np.where(gone, junk, noisy)
        masked = denoise(spoilt, 15, mask=gone)
        np.testing.assert_array_equal(masked[~gone], result[~gone])
        np.testing.assert_array_equal(masked[gone], junk)
    np.testing.assert_array_equal(denoise(np.ma.array(noisy, mask=gone), 15)[~gone], result[~gone])


@pytest.mark.parametrize("method", nlridge.method_names())
def test_missing_pixels_cost_little(method):
    clean = truth()
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    gone = np.random.default_rng(1).random(clean.shape) < 0.05
    whole = denoise(noisy, 20, method=method)
    part = denoise(np.where(gone, np.nan, noisy), 20, method=method)
    assert psnr(part[~gone], clean[~gone]) > psnr(whole[~gone], clean[~gone]) - 0.2


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    share=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_missing_pixels_of_any_mask_stay_missing(height, width, share, seed):
    rng = np.random.default_rng(seed)
    image = rng.normal(100, 10, (height, width))
    image[rng.random(image.shape) < share] = np.nan
    if np.isnan(image).all():
        with pytest.raises(ValueError, match="image has no valid pixels"):
            denoise(image, 10)
        return
    for sigma in (10, None):
        result = denoise(image, sigma)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(image))


def test_masked_pixels_may_have_any_value():
    image, gone = NOISY.copy(), np.zeros(NOISY.shape, bool)
    gone[3:5, 4:9] = True
    expected = denoise(image, 10, mask=gone)[~gone]
    for junk in (np.inf, -np.inf, np.nan, 1e300, -1e300):
        image[gone] = junk
        details = nlridge.denoise_with_details(image, 10, mask=gone)
        np.testing.assert_array_equal(details.image[~gone], expected)
        np.testing.assert_array_equal(details.image[gone], image[gone])
        assert not details.residual[gone].any()


def test_holes_do_not_spread():
    clean = truth()
    noisy = clean + np.random.default_rng(0).normal(0, 15, clean.shape)
    noisy[40:80, 30:90] = np.nan
    there = np.isfinite(noisy)
    result = denoise(noisy)
    assert psnr(result[there], clean[there]) > 39


# Stacks.


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_stack_is_denoised_image_by_image(axis):
    rng = np.random.default_rng(0)
    frames = [(NOISY + rng.normal(0, s, NOISY.shape)).astype(np.float32) for s in (1, 10, 30)]
    frames[2][3, 4] = np.nan
    stack = np.stack(frames, axis=axis)
    for options in ({}, {"sigma": 10}):
        result = denoise(stack, stack_axis=axis, **options)
        assert result.shape == stack.shape
        assert result.dtype == np.float32
        for frame, clean in zip(frames, np.moveaxis(result, axis, 0), strict=True):
            np.testing.assert_array_equal(clean, denoise(frame, **options))


def test_a_stack_with_masks_and_an_empty_frame():
    stack = np.stack([NOISY, NOISY, np.full_like(NOISY, np.nan)])
    mask = np.zeros(NOISY.shape, bool)
    mask[5:8, 5:8] = True
    result = denoise(stack, 10, stack_axis=0, mask=mask)
    np.testing.assert_array_equal(result[0], denoise(NOISY, 10, mask=mask))
    assert np.isnan(result[2]).all()
    lying = np.ma.array(np.moveaxis(stack, 0, 2), mask=False)
    np.testing.assert_array_equal(denoise(lying, 10, stack_axis=2, mask=mask)[..., 0], result[0])
    one = np.zeros(stack.shape, bool)
    one[1] = mask
    np.testing.assert_array_equal(denoise(stack, 10, stack_axis=0, mask=one)[0], denoise(NOISY, 10))


def test_a_bad_frame_is_found_before_the_first_is_denoised():
    stack = np.stack([NOISY] * 3)
    stack[2, 3, 4] = np.inf
    seen = []
    with pytest.raises(ValueError, match="image has 1 infinite pixels"):
        denoise(stack, 10, stack_axis=0, progress=lambda *done: seen.append(done))
    sigma = np.full(stack.shape, 10.0)
    sigma[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="sigma is not finite in 1 pixels"):
        denoise(np.stack([NOISY] * 3), sigma, stack_axis=0, progress=lambda *d: seen.append(d))
    assert seen == []


def test_progress_of_a_stack_is_one_count():
    seen = []
    denoise(np.stack([NOISY] * 3), 10, stack_axis=0, progress=lambda *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("sigma", [10, None])
def test_frames_that_are_denoised_at_the_same_time_are_as_alone(workers, sigma):
    stack = np.stack([(1 + 0.1 * k) * NOISY for k in range(4)])
    seen = []
    result = denoise(
        stack, sigma, stack_axis=0, workers=workers, progress=lambda *done: seen.append(done)
    )
    for frame, denoised in zip(stack, result, strict=True):
        np.testing.assert_array_equal(denoised, denoise(frame, sigma))
    assert seen == [(k + 1, 4) for k in range(4)]


def test_a_stack_can_be_interrupted():
    def interrupt(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        denoise(np.stack([NOISY] * 9), 10, stack_axis=0, workers=2, progress=interrupt)

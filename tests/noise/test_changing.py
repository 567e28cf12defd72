"""Correlated noise differs from frame to frame; texture moves with the scene."""

import numpy as np
import pytest
from scipy import ndimage

import nlridge
from nlridge.noise.changing import share_that_changes

SIZE = 96
LEVEL = 8.0


def grain(seed, size=SIZE):
    """Noise of a standard deviation of LEVEL that is correlated over a few pixels."""
    filtered = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(size, size)), 0.9)
    return LEVEL * filtered / filtered.std()


def scene():
    y, x = np.mgrid[:SIZE, :SIZE]
    return 90 + 0.4 * x + 60 * (np.hypot(y - 40, x - 50) < 25)


def share(before, after, missing=None):
    gone = np.zeros((1, *before.shape), bool) if missing is None else missing[None]
    return share_that_changes(before[None], after[None], gone)


def moving_texture(frames):
    """A window that moves over a surface, by up to 4 pixels from frame to frame."""
    surface = 100 + grain(0, SIZE + 60)
    return [surface[3 * k : 3 * k + SIZE, 4 * k : 4 * k + SIZE] for k in range(frames)]


@pytest.mark.parametrize("texture", [0, 0.5, 1, 2])
def test_the_share_of_noise_in_what_texture_and_noise_have_in_common(texture):
    surface = texture * grain(0)
    measured = share(*(scene() + surface + grain(seed) for seed in (1, 2)))
    assert measured == pytest.approx(1 / (1 + texture**2), abs=0.12)


def test_texture_is_followed():
    assert share(*moving_texture(2)) < 0.01


def test_missing_pixels_have_no_influence():
    before, after = (scene() + grain(seed) for seed in (1, 2))
    missing = np.zeros(before.shape, bool)
    missing[:10, :10] = True
    spoiled = np.where(missing, np.nan, after)
    assert share(before, spoiled, missing) == pytest.approx(share(before, after), abs=0.1)
    assert share(before, after, ~missing) is None


def test_frames_that_are_too_small_tell_nothing():
    assert share(grain(1)[:40, :40], grain(2)[:40, :40]) is None


@pytest.mark.parametrize("stream", [False, True])
def test_moving_texture_stays_and_noise_goes(stream):
    def denoised(frames):
        if stream:
            return np.array(list(nlridge.denoise_frames(iter(frames), method="fast")))
        return nlridge.denoise(np.array(frames), time_axis=0, method="fast")

    texture = np.array(moving_texture(5))
    assert np.std(texture[0] - nlridge.denoise(texture[0], method="fast")) > LEVEL / 2
    assert np.std(texture - denoised(texture)) < 0.02 * LEVEL

    noisy = [scene() + grain(seed) for seed in range(5)]
    assert np.sqrt(np.mean(np.square(denoised(noisy) - scene()))) < 0.6 * LEVEL


def test_texture_is_removed_if_it_is_said_to_be_noise():
    texture = np.array(moving_texture(5))
    clean = nlridge.denoise(texture, noise="correlated", time_axis=0, method="fast")
    assert np.std(texture - clean) > LEVEL / 2

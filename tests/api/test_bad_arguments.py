"""Bad arguments of `denoise`: each gets one sentence."""

from dataclasses import dataclass

import numpy as np
import pytest
from images import NOISY

import nlridge
from nlridge import Step, denoise


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (7, ValueError, r"image has shape \(\); expected two dimensions$"),
        (np.zeros(5), ValueError, r"image has shape \(5,\); expected two dimensions"),
        (np.zeros((4, 5, 3)), ValueError, r"image has shape \(4, 5, 3\); expected two dimensions; pass channel_axis=-1 for a color image, time_axis=0 for a video, depth_axis=0 for a volume, or stack_axis=0"),
        (np.zeros((0, 5)), ValueError, r"image has shape \(0, 5\); expected at least one pixel"),
        (np.zeros((5, 5), complex), TypeError, "image has dtype complex128; expected integers or floats"),
        (np.zeros((5, 5), object), TypeError, "image has dtype object; expected integers or floats"),
        (np.zeros((5, 5), bool), TypeError, "image has dtype bool; expected integers or floats"),
        ("photo.png", TypeError, "image is 'photo.png'; expected an array, such as numpy.asarray"),
        (np.full((5, 5), np.nan), ValueError, "image has no valid pixels; expected at least one"),
        (np.array([[1, np.inf]]), ValueError, "image has 1 infinite pixels; expected finite values, or NaN for missing pixels"),
        (np.full((5, 5), 1e301), ValueError, r"image has values up to 1e\+301; expected none larger than 1e\+300"),
        (np.full((5, 5), 1e14), ValueError, "sigma is 10; expected at least 1e-12 of the image's largest"),
    ],
)  # fmt: skip
def test_bad_images(image, error, message):
    with pytest.raises(error, match=message):
        denoise(image, 10)


@pytest.mark.parametrize(
    ("sigma", "error", "message"),
    [
        (0, ValueError, "sigma is 0; expected a positive number"),
        (-1.5, ValueError, "sigma is -1.5; expected a positive number"),
        (np.nan, ValueError, "sigma is nan; expected a positive number"),
        (np.inf, ValueError, "sigma is inf; expected a positive number"),
        ([10, 10], ValueError, "sigma has 2 numbers; expected one, or one for each channel, and channel_axis"),
        (NOISY[1:], ValueError, r"sigma has shape \(23, 30\); expected a number, one for each channel, or \(24, 30\)"),
        (NOISY - 100, ValueError, r"sigma is negative in \d+ pixels; expected 0 or more"),
        (np.where(NOISY > 120, np.nan, 1.0), ValueError, r"sigma is not finite in \d+ pixels that are not missing"),
        (np.zeros((24, 30)), ValueError, r"sigma has shape \(24, 30\) and no positive value; expected at least one"),
        ([], ValueError, r"sigma has shape \(0,\) and no positive value"),
        ([[1, 2], [3]], TypeError, r"sigma is \[\[1, 2\], \[3\]\]; expected a number or an array of numbers"),
        (["1", "2"], TypeError, "sigma has dtype <U1; expected numbers"),
        ("10", TypeError, "sigma is '10'; expected a positive number"),
        (NOISY * 1j, TypeError, "sigma has dtype complex128; expected numbers"),
        ("ten", TypeError, "sigma is 'ten'; expected a positive number"),
        (10**400, ValueError, r"sigma is 10{75} \.\.\.; expected a positive number between 1e-300 and 1e\+300$"),
        (1e-301, ValueError, r"sigma is 1e-301; expected a positive number between 1e-300 and 1e\+300"),
        (-np.ones(50), ValueError, r"sigma has shape \(50,\) and no positive value"),
        (np.linspace(-1, 1, 50), ValueError, r"^sigma is array\(\[-1\. , [^\n]* \.\.\.; expected non-negative numbers below 1e300$"),
    ],
)  # fmt: skip
def test_bad_sigma(sigma, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, sigma)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "bm4d"}, ValueError, "method is 'bm4d'; expected one of 'preview', 'fast', 'standard', 'best', 'nl-ridge', 'nl-bayes', 'bm3d', or a Recipe"),
        ({"method": 3}, TypeError, "method is 3; expected the name of a method, or a Recipe"),
        ({"data_range": 0}, ValueError, "data_range is 0; expected a positive number"),
        ({"strength": -1}, ValueError, "strength is -1; expected a positive number"),
        ({"strength": 10**400}, ValueError, r"strength is 10{75} \.\.\.; expected a positive number between"),
        ({"strength": 10**5000}, ValueError, "strength is of type int; expected a positive number between"),
        ({"workers": 10**5000 * -1}, ValueError, "workers is of type int; expected at least 1"),
        ({"strength": 1e25}, ValueError, r"strength is 1e\+25; expected a number from 0.01 to 100"),
        ({"mask": [[True], [True, False]]}, TypeError, "mask has dtype object; expected bool"),
        ({"noise": nlridge.GaussianNoise(3)}, ValueError, "sigma is given and noise is .*; expected at most one of them"),
        ({"mask": np.zeros((24, 30))}, TypeError, "mask has dtype float64; expected bool, True for missing pixels"),
        ({"mask": np.zeros((2, 3), bool)}, ValueError, r"mask has shape \(2, 3\); expected \(24, 30\)"),
        ({"stack_axis": 0}, ValueError, r"image has shape \(24, 30\); expected three dimensions for an image with stack_axis"),
        ({"workers": 0}, ValueError, "workers is 0; expected at least 1"),
        ({"workers": 1.5}, TypeError, "workers is 1.5; expected a whole number or None"),
        ({"progress": "yes"}, TypeError, "progress is 'yes'; expected True, False or a function"),
    ],
)  # fmt: skip
def test_bad_options(arguments, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, 10, **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"patch_size": 0}, ValueError, "patch_size is 0; expected a number from 1 to 64"),
        ({"patch_size": 65}, ValueError, "patch_size is 65; expected a number from 1 to 64"),
        ({"patch_size": 7.5}, TypeError, "patch_size is 7.5; expected a whole number"),
        (
            {"group_size": 0},
            ValueError,
            r"group_size is 0; expected a number from 1 to 2025 \(all patches",
        ),
        ({"group_size": 2026}, ValueError, "group_size is 2026; expected a number from 1 to 2025"),
        (
            {"stride": 15},
            ValueError,
            r"stride is 15; expected a number from 1 to 14 \(twice patch_size\)",
        ),
        (
            {"stride": 8, "group_size": 3},
            ValueError,
            r"stride is 8; expected a number from 1 to 7 \(patch_size\)",
        ),
        (
            {"stride": 10, "window": 5},
            ValueError,
            r"stride is 10; expected a number from 1 to 9 \(patch_size \+ window // 2\)",
        ),
        ({"window": 44}, ValueError, "window is 44; expected an odd number"),
        ({"window": 257}, ValueError, "window is 257; expected a number from 1 to 255"),
    ],
)
def test_bad_settings(changes, error, message):
    with pytest.raises(error, match=message):
        Step(**{"patch_size": 7, "group_size": 18, **changes})


@dataclass
class LevelOnly:
    level: object


@dataclass
class Unheard(LevelOnly):
    """A whole noise model, with a level that may be anything."""

    black_level = 0.0
    stabilise = restore = variance = staticmethod(lambda image, *_: image)


@pytest.mark.parametrize(
    ("noise", "error", "message"),
    [
        (10, TypeError, "noise is 10; expected a noise model such as nlridge.GaussianNoise"),
        (nlridge.GaussianNoise(0), ValueError, "expected a positive standard deviation"),
        (nlridge.GaussianNoise, TypeError, "noise is <class .*; expected a noise model such as"),
        (
            LevelOnly(10.0),
            TypeError,
            r"noise is LevelOnly\(level=10.0\); expected a noise model such as",
        ),
        (Unheard("loud"), TypeError, "noise has the level 'loud'; expected numbers"),
        (Unheard(np.inf), ValueError, "noise is Unheard.*; expected finite standard deviations"),
        (
            Unheard([1.0, np.nan]),
            ValueError,
            "noise is Unheard.*; expected finite standard deviations",
        ),
        (
            Unheard(-np.eye(4) + 1e-3),
            ValueError,
            "noise is Unheard.*; expected finite standard deviations",
        ),
    ],
)
def test_bad_noise(noise, error, message):
    with pytest.raises(error, match=message):
        denoise(NOISY, noise=noise)


def test_what_numpy_refuses_is_refused_in_one_sentence():
    class Device:
        def __array__(self, *args, **kwargs):
            raise RuntimeError("it is on another device")

    with pytest.raises(TypeError, match=r"image is of type Device, .*: it is on another device"):
        denoise(Device(), 10)
    with pytest.raises(TypeError, match="image is of type list, which NumPy cannot convert"):
        denoise([[1, 2], [3]], 10)


def test_a_stack_must_be_declared():
    with pytest.raises(
        ValueError,
        match="pass channel_axis=0 for a color image, time_axis=0 for a video, depth_axis=0 for a volume, "
        "or stack_axis=0 for a stack of images",
    ):
        denoise(np.zeros((3, 20, 20)), 10)
    for axis, error in ((3, ValueError), (-4, ValueError), (0.5, TypeError)):
        with pytest.raises(error, match=f"stack_axis is {axis}; expected a"):
            denoise(np.zeros((3, 20, 20)), 10, stack_axis=axis)

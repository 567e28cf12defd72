"""Calls in the words of other packages: each gets a sentence that says what to write instead."""

import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nlridge
from nlridge import denoise, denoise_frames, denoise_with_details, estimate_noise, estimate_sigma
from nlridge.planning.elsewhere import _INSTEAD

IMAGE = np.zeros((20, 24))


# Names of arguments.


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("h", "how much is removed depends on sigma, .* and on strength"),
        ("multichannel", "pass channel_axis=-1 for an image of shape"),
        ("sigma_psd", r"pass sigma if it is a number, and noise=nlridge\.CorrelatedNoise\.from_spectrum"),
        ("patch_distance", "it is part of the method: pass method="),
        ("fast_mode", 'pass method="fast"'),
        ("templateWindowSize", "it is part of the method: pass method="),
        ("hColor", "pass color, a factor on strength"),
        ("stage_arg", r"leave it out; .*denoise_with_details\(image\)\.pilot"),
        ("profile", 'pass method="fast", "standard", "best" or "bm3d"'),
        ("preserve_range", "leave it out, .* pass dtype to round and clip"),
        ("src", "pass the image as the first argument"),
        ("n_jobs", "pass workers"),
        ("sigma_random", "pass sigma, the standard deviation"),
        ("chan_axes", "pass channel_axis, the number of the axis"),
        ("batch_axes", "pass stack_axis, the number of the axis"),
        ("axes", "pass channel_axis, stack_axis, time_axis or depth_axis"),
        ("region", r"pass it to nlridge\.prepare\(image\)\.denoise\(region\)"),
        ("spacing", r"pass it to nlridge\.prepare\(image, depth_axis=0, spacing=spacing\)"),
        ("mosaic", r"use nlridge\.denoise_mosaic\(image, mosaic\)"),
        ("out", r"use nlridge\.denoise_to_disk\(image, out\)"),
        ("tile", r"it is for nlridge\.denoise_to_disk\(image, out, tile=tile\)"),
        ("client", r"it is for nlridge\.denoise_to_disk\(image, out, client=client\)"),
        ("colour", "did you mean 'color'"),
        ("channels_axis", "did you mean 'channel_axis'"),
    ],
)  # fmt: skip
def test_an_argument_of_another_package(name, advice):
    sentence = rf"^denoise\(\) got an unexpected keyword argument '{name}'; {advice}[^\n]*$"
    with pytest.raises(TypeError, match=sentence):
        denoise(IMAGE, **{name: 10})
    with pytest.raises(TypeError, match=sentence):  # before the image is missed
        denoise(**{name: 10})


@pytest.mark.parametrize(
    "function",
    [denoise, denoise_frames, denoise_with_details, estimate_noise, estimate_sigma, nlridge.estimate_quality],
)  # fmt: skip
def test_advice_names_arguments_that_the_function_has(function):
    known = inspect.signature(function).parameters
    for name, (argument, advice) in _INSTEAD.items():
        if name in known:
            continue
        sentence = f"; {advice}" if argument in known else ""
        with pytest.raises(TypeError) as caught:
            function(IMAGE, **{name: 1})
        assert (
            str(caught.value)
            .partition("'; did you mean")[0]
            .startswith(f"{function.__name__}() got an unexpected keyword argument '{name}")
        )
        assert str(caught.value).endswith(sentence)


def test_every_argument_that_takes_the_place_of_another_exists():
    known = inspect.signature(denoise).parameters
    assert {argument for argument, _ in _INSTEAD.values()} <= known.keys()


def test_an_argument_that_nobody_has_is_left_to_python():
    with pytest.raises(TypeError, match=r"denoise\(\) got an unexpected keyword argument 'qqq'$"):
        denoise(IMAGE, qqq=1)


def test_the_signature_and_the_docstring_are_those_of_the_function():
    parameters = inspect.signature(denoise).parameters
    assert list(parameters)[:3] == ["image", "sigma", "noise"]
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    assert denoise.__doc__.startswith("Remove noise from an image")
    assert denoise.__name__ == "denoise"


def test_the_module_for_pytorch_says_so_as_well():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(TypeError, match=r"^NLRidge\(\) got .* 'colour'; did you mean 'color'\?$"):
        nlridge.torch.NLRidge(colour=2)


# Files instead of pixels.


@pytest.mark.parametrize("path", ["photo.png", Path("photo.png")])
@pytest.mark.parametrize(
    "function",
    [
        denoise,
        denoise_with_details,
        estimate_noise,
        estimate_sigma,
        partial(nlridge.denoise_to_disk, out="clean.zarr"),
        nlridge.prepare,
        partial(denoise, time_axis=0),
        partial(nlridge.denoise_mosaic, mosaic="RGGB"),
        partial(estimate_noise, mosaic="RGGB"),
        lambda path: next(denoise_frames([path])),
    ],
)  # fmt: skip
def test_a_path_instead_of_an_image(function, path):
    message = (
        r"image is 'photo\.png'; expected an array, such as numpy\.asarray\(PIL\.Image\.open\('photo\.png'\)\), "
        r"or the command: nlridge denoise 'photo\.png'"
    )
    with pytest.raises(TypeError, match=message):
        function(path)


def test_a_path_names_what_reads_it():
    for name, reader in (("a.zarr", "zarr.open_array"), ("a.npy", "numpy.load"), ("a.TIF", "tifffile.imread")):  # fmt: skip
        with pytest.raises(TypeError, match=rf"such as {reader}\('{name}'\), or"):
            denoise(name)


def test_a_path_instead_of_frames():
    message = r"frames is 'clip\.mp4'; expected an iterable of arrays, or the command: nlridge denoise 'clip\.mp4'"
    for path in ("clip.mp4", Path("clip.mp4")):
        with pytest.raises(TypeError, match=message):
            denoise_frames(path)


# Axes.

FRAMES = "time_axis={0} for a video, depth_axis={0} for a volume, or stack_axis={0} for a stack of images$"


@pytest.mark.parametrize(
    ("shape", "given", "advice"),
    [
        ((64, 48, 3), {}, "channel_axis=-1 for a color image, " + FRAMES.format(0)),
        ((3, 64, 48), {}, "channel_axis=0 for a color image, " + FRAMES.format(0)),
        ((20, 64, 48), {}, "channel_axis for a color image, " + FRAMES.format(0)),
        ((10, 64, 48, 3), {}, "channel_axis=-1, and " + FRAMES.format(0)),
        ((10, 3, 64, 48), {}, "channel_axis=1, and " + FRAMES.format(0)),
        ((3, 10, 64, 48), {}, "channel_axis=0, and " + FRAMES.format(1)),
        ((10, 20, 64, 48), {}, "channel_axis, and " + FRAMES.format(0)),
        ((10, 64, 48, 3), {"channel_axis": -1}, FRAMES.format(0)),
        ((10, 64, 48, 3), {"stack_axis": np.int64(0)}, "channel_axis=-1 for a color image, time_axis=1 for a video, or"),
        ((10, 20, 64, 48), {"stack_axis": 0}, "channel_axis for a color image, time_axis=1 for a video, or depth_axis=1"),
        ((2, 10, 64, 48, 3), {}, "stack_axis, time_axis or depth_axis, and channel_axis for colors"),
    ],
)  # fmt: skip
def test_axes_to_pass(shape, given, advice):
    with pytest.raises(ValueError, match=rf"^image has shape \({shape[0]}, .*; pass {advice}"):
        denoise(np.zeros(shape), **given)


def test_the_axes_of_the_advice_are_accepted():
    for shape, axes in (((3, 10, 24, 20), (0, 1)), ((4, 24, 20, 3), (-1, 0)), ((4, 2, 24, 20), (1, 0))):  # fmt: skip
        for along in ("time_axis", "depth_axis", "stack_axis"):
            result = denoise(np.zeros(shape), 10, channel_axis=axes[0], **{along: axes[1]})
            assert result.shape == shape


def test_functions_for_one_image_ask_for_one():
    for function in (estimate_noise, estimate_sigma):
        with pytest.raises(ValueError, match=r"expected two dimensions; pass one image at a time$"):
            function(np.zeros((10, 64, 48, 3)))


@pytest.mark.parametrize(
    ("shape", "axis", "meant", "channels"),
    [
        ((64, 48, 3), 0, -1, "64 channels of 48 x 3 pixels"),
        ((64, 48, 4), 1, -1, "48 channels of 64 x 4 pixels"),
        ((64, 48, 1), 0, -1, "64 channels of 48 x 1 pixels"),
        ((3, 64, 48), -1, 0, "48 channels of 3 x 64 pixels"),
        ((3, 64, 48), 1, 0, "64 channels of 3 x 48 pixels"),
    ],
)
def test_the_height_of_a_color_image_is_no_channel_axis(shape, axis, meant, channels):
    """Neither for arrays nor for others."""
    message = (
        rf"channel_axis is {axis % 3}, which means {channels}; expected channel_axis={meant}, "
        rf"with the channels moved there if there are {shape[axis]} of them$"
    )
    image = np.zeros(shape)
    for function in (denoise, denoise_with_details, estimate_noise):
        with pytest.raises(ValueError, match=message):
            function(image, channel_axis=axis)
    stack = image[None]
    with pytest.raises(ValueError, match=f"expected channel_axis={meant if meant < 0 else 1},"):
        denoise(stack, stack_axis=0, channel_axis=axis if axis < 0 else axis + 1)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((30, 20, 200), -1),  # a hyperspectral image
        ((200, 30, 20), 0),
        ((20, 3, 64), -1),  # three columns of it, as the message asks for them
        ((64, 3, 20), 0),  # three rows of it
        ((9, 8, 3), 0),  # too small to tell
        ((8, 48, 3), 0),
    ],
)
def test_images_of_many_channels_are_accepted(shape, axis):
    assert denoise(np.zeros(shape), 10, channel_axis=axis).shape == shape

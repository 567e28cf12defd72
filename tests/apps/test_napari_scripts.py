"""The function for napari scripts, which needs no napari."""

import sys
import warnings

import numpy as np
import pytest

import nlridge
from nlridge.apps.napari import denoising
from nlridge.napari import denoise_image

RNG = np.random.default_rng(0)
STACK = 100 + RNG.normal(0, 5, (2, 3, 40, 48))


def test_images_along_other_axes_are_denoised_independently():
    result = denoise_image(STACK, method="fast")
    assert result.shape == STACK.shape
    for index in np.ndindex(2, 3):
        np.testing.assert_array_equal(result[index], nlridge.denoise(STACK[index], method="fast"))


@pytest.mark.parametrize(("axes", "axis"), [("STYX", "time_axis"), ("SZYX", "depth_axis"), ("ZTYX", "time_axis")])  # fmt: skip
def test_images_that_belong_together(axes, axis):
    result = denoise_image(STACK, method="fast", axes=axes)
    expected = [nlridge.denoise(one, method="fast", **{axis: 0}) for one in STACK]
    np.testing.assert_array_equal(result, expected)


def test_channels_at_any_axis():
    expected = nlridge.denoise(STACK[0], method="fast", channel_axis=0)
    np.testing.assert_array_equal(denoise_image(STACK[0], method="fast", axes="CYX"), expected)
    last = denoise_image(np.moveaxis(STACK[0], 0, -1), method="fast", axes="YXC")
    np.testing.assert_array_equal(np.moveaxis(last, -1, 0), expected)


def test_colors_keep_their_type_and_transparency():
    image = nlridge.to_dtype(np.moveaxis(np.stack([*STACK[0], STACK[1, 0]]), 0, -1), np.uint8)
    before = image.copy()
    result = denoise_image(image, method="fast", rgb=True)
    colors = nlridge.denoise(image[..., :3], method="fast", channel_axis=-1, dtype=np.uint8)
    np.testing.assert_array_equal(result[..., :3], colors)
    np.testing.assert_array_equal(result[..., 3], image[..., 3])
    np.testing.assert_array_equal(image, before)


def test_dask_arrays_stay_dask_arrays():
    da = pytest.importorskip("dask.array")
    result = denoise_image(da.from_array(STACK), method="fast")
    assert isinstance(result, da.Array)
    np.testing.assert_array_equal(result.compute(), denoise_image(STACK, method="fast"))


def test_warnings_are_issued(monkeypatch):
    """Only the widget of the plug-in, which shows them itself, collects them."""

    def doubtful(*arguments, **options):
        warnings.warn("doubtful", nlridge.NoiseWarning, stacklevel=2)
        return clean_picture(*arguments, **options)

    clean_picture = denoising.clean_picture
    monkeypatch.setattr(denoising, "clean_picture", doubtful)
    with pytest.warns(nlridge.NoiseWarning, match="doubtful"):
        denoise_image(STACK[0, 0], method="fast")
    task = denoising.Task(STACK[0, 0], {"method": "fast"})
    assert denoising.denoised(task, lambda _: None).words.endswith(" Doubtful.")


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ((40,), {}, "image has shape .*; expected at least 2 axes"),
        ((40, 48), {"rgb": True}, "image has shape .*; expected at least 3 axes"),
        ((9, 40, 48), {"axes": "YX"}, "axes is 'YX'; expected 3 letters that end in YX"),
        ((9, 40, 48), {"axes": "YXT"}, "axes is 'YXT'; expected 3 letters that end in YX"),
        ((2, 9, 40, 48), {"axes": "TTYX"}, "axes is 'TTYX'; expected 4 letters"),
        ((3, 40, 3), {"axes": "CYX", "rgb": True}, "with C as the last one for RGB"),
    ],
)
def test_axes_that_cannot_be(shape, arguments, message):
    with pytest.raises(nlridge.ArgumentError, match=message):
        denoise_image(np.zeros(shape), **arguments)


def test_annotations_are_those_of_napari():
    notes = denoise_image.__annotations__
    assert notes["image"] == notes["return"] == "napari.types.ImageData"
    assert sys.modules["nlridge.napari"].__all__ == ["denoise_image"]

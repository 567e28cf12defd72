"""`to_dtype`: back to the type that a file or another library expects."""

import numpy as np
import pytest
from PIL import Image

import nlridge
from nlridge import to_dtype


def test_a_color_result_goes_back_to_pillow():
    photo = np.random.default_rng(0).integers(90, 110, (32, 32, 3)).astype(np.uint8)
    clean = nlridge.denoise(photo, 5, channel_axis=-1, method="fast")
    with pytest.raises(TypeError):
        Image.fromarray(clean)
    picture = Image.fromarray(to_dtype(clean, photo.dtype))
    assert np.abs(np.asarray(picture) - clean).max() <= 0.5


def test_integers_are_clipped_exactly_too():
    ends = np.array([np.iinfo(np.int64).min, -1, 2**53 + 1, np.iinfo(np.int64).max])
    np.testing.assert_array_equal(to_dtype(ends, np.uint64), [0, 0, 2**53 + 1, 2**63 - 1])
    np.testing.assert_array_equal(to_dtype(ends, np.uint8), [0, 0, 255, 255])
    np.testing.assert_array_equal(to_dtype(np.array([2**64 - 1], np.uint64), np.int8), [127])


def test_floats_beyond_a_narrower_type_stay_finite():
    narrow = to_dtype([1e300, -1e300, np.inf, np.nan, 1.5], np.float32)
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(narrow, np.array([most, -most, np.inf, np.nan, 1.5], np.float32))
    assert narrow.dtype == np.float32


def test_infinity_is_the_end_of_an_integer_type():
    np.testing.assert_array_equal(to_dtype([np.inf, -np.inf], np.int16), [32767, -32768])


@pytest.mark.parametrize("value", [3.7, np.float32(3.7)])
def test_a_single_number(value):
    assert to_dtype(value, np.uint8) == 4


@pytest.mark.parametrize(
    ("image", "dtype", "error", "sentence"),
    [
        ([1.0, np.nan], np.uint8, ValueError, "image has NaN pixels; expected numbers"),
        ([1.0], bool, TypeError, "dtype is of type bool; expected integers or floats"),
        ([1j], np.uint8, TypeError, "image is of type complex128; expected integers or floats"),
    ],
)
def test_what_cannot_be_converted(image, dtype, error, sentence):
    with pytest.raises(error, match=sentence):
        to_dtype(image, dtype)

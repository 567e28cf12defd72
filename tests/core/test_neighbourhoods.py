"""What surrounds a pixel: orders and sums."""

import numpy as np
import pytest

from nlridge.core.kernels.extremes import sort_nine, sums_around


def test_nine_are_sorted():
    image = np.random.default_rng(0).integers(0, 4, (40, 33)).astype(np.float64)  # with ties
    wide, ordered = np.pad(image, 1, "reflect"), np.empty((9, *image.shape))
    sort_nine(wide, ordered)
    around = np.lib.stride_tricks.sliding_window_view(wide, (3, 3)).reshape(*image.shape, 9)
    np.testing.assert_array_equal(ordered, np.moveaxis(np.sort(around, axis=-1), -1, 0))


@pytest.mark.parametrize("shape", [(40, 33), (3, 50), (50, 2), (1, 1)])
@pytest.mark.parametrize("reach", [1, 8])
def test_sums_are_those_of_squares(shape, reach):
    values = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    sums = np.empty(shape, np.int32)
    sums_around(values, reach, sums)
    squares = np.lib.stride_tricks.sliding_window_view(np.pad(values, reach), (2 * reach + 1,) * 2)
    np.testing.assert_array_equal(sums, squares.sum(axis=(2, 3)))

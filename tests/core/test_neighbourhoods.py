"""What surrounds a pixel: contrasts and sums."""

import numpy as np
import pytest

from nlridge.core.kernels.extremes import contrasts, in_deviations, limited, sums_around


def nine_around(image):
    """Each pixel and its eight neighbours, in increasing order."""
    wide = np.pad(image, 1, "reflect")
    around = np.lib.stride_tricks.sliding_window_view(wide, (3, 3)).reshape(*image.shape, 9)
    return wide, np.moveaxis(np.sort(around, axis=-1), -1, 0)


@pytest.mark.parametrize("values", [4, 1000])  # with ties, and hardly any
def test_contrasts_are_those_of_nine_in_order(values):
    image = np.random.default_rng(0).integers(0, values, (40, 33)).astype(np.float64)
    wide, ordered = nine_around(image)
    middle, jump, contrast, spread = np.empty((4, *image.shape))
    extreme = np.empty(image.shape, np.int8)
    contrasts(wide, middle, jump, contrast, spread, extreme)
    np.testing.assert_array_equal(middle, ordered[4])
    np.testing.assert_array_equal(contrast, ordered[8] - ordered[0])
    np.testing.assert_array_equal(spread, ordered[7] - ordered[1])
    steps = np.diff(ordered[1:-1], axis=0)
    steps[0][image > ordered[1]] = 0
    steps[-1][image < ordered[7]] = 0
    np.testing.assert_array_equal(jump, steps.max(axis=0))
    bright, dark = image >= ordered[7], image <= ordered[1]
    np.testing.assert_array_equal(extreme, bright.astype(int) - dark)


def test_contrasts_are_divided_by_the_noise():
    rng = np.random.default_rng(0)
    values, deviation = rng.normal(0, 4, (40, 33)), rng.uniform(0.5, 2, (40, 33))
    wide, _ = nine_around(values)
    middle, jump, contrast, spread = np.empty((4, *values.shape))
    extreme = np.empty(values.shape, np.int8)
    contrasts(wide, middle, jump, contrast, spread, extreme)
    before = jump.copy()
    distance, extremes = np.empty((2, *values.shape))
    steps = np.empty(values.shape, np.int32)
    in_deviations(
        values, middle, deviation, contrast, spread, extreme, 0.5, 1.5, 64,
        jump, distance, extremes, steps,
    )  # fmt: skip
    sharp = before + 2 * deviation > 0.5 * contrast
    assert 0.1 < sharp.mean() < 0.9
    np.testing.assert_array_equal(jump, np.where(sharp, before / deviation, 0))
    np.testing.assert_array_equal(distance, np.abs(values - middle) / deviation)
    np.testing.assert_array_equal(steps, (64 * (spread / deviation)).astype(int))
    np.testing.assert_array_equal(extremes, np.where(distance > 1.5, extreme * distance, 0))
    rows, columns = rng.integers(3, 9, 40), rng.integers(3, 9, 33)
    mean = steps / (64 * np.multiply.outer(rows, columns)) / 0.2
    result = np.empty(values.shape, np.int32)
    limited(distance, steps, rows, columns, 0.2, 64, result)
    assert 0.1 < np.mean(distance < 3 * mean) < 0.9
    np.testing.assert_array_equal(result, (64 * np.minimum(distance, 3 * mean)).astype(int))


@pytest.mark.parametrize("shape", [(40, 33), (3, 50), (50, 2), (1, 1)])
@pytest.mark.parametrize("reach", [1, 8])
def test_sums_are_those_of_squares(shape, reach):
    values = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    sums = np.empty(shape, np.int32)
    sums_around(values, reach, sums)
    squares = np.lib.stride_tricks.sliding_window_view(np.pad(values, reach), (2 * reach + 1,) * 2)
    np.testing.assert_array_equal(sums, squares.sum(axis=(2, 3)))

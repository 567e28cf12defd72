"""Matching, gathering and aggregating patches, against the oracle and NumPy."""

import numpy as np
import oracle
import pytest
from groups import padded

from nlridge.core.kernels import linalg
from nlridge.core.kernels.compile import kernel
from nlridge.core.kernels.simd import LANES
from nlridge.core.patches import groups, matching


@kernel
def run_matching(
    image, row, plane, planes, corner, count, stride, patch, window, m, guess, out, places, kept, chosen
):  # fmt: skip
    matching.distances(image, row, plane, planes, corner, count, stride, patch, window, out)
    size = window * linalg.padded(window)
    for c in range(count):
        here = corner + c * stride
        first = here - (window // 2) * (row + 1)
        matching.nearest(
            out,
            c * size,
            window,
            linalg.padded(window),
            m,
            guess,
            first,
            row,
            here,
            places[c],
            kept,
            chosen,
        )


@kernel
def run_groups(
    image, row, plane, planes, places, m, patch, group, weights, mask, total, rest, weight
):
    groups.gather(image, row, plane, planes, places, m, patch, group)
    groups.aggregate_weights(weights, places, m, weight)
    before, share = group / np.float32(4), np.float32(0.5)
    groups.aggregate(
        group, before, weights, places, m, patch, mask, total, rest, share, row, plane, planes
    )


def matched(image, y, x, count, stride, patch, window, m, guess):
    """Corners found by the kernels for `count` references from (y, x) on, `stride` apart."""
    radius = window // 2
    image = np.atleast_3d(image.T).T  # (planes, height, width)
    frame = np.pad(
        image,
        ((0, 0), (radius, radius), (radius, radius + 2 * LANES)),
        constant_values=matching.FAR,
    )
    planes, height, width = frame.shape
    size = window * padded(window)
    out = np.empty(count * size, np.float32)
    kept = np.empty(size + LANES, np.float32)
    places = np.empty((count, size + LANES), np.intp)
    corner = (y + radius) * width + x + radius
    run_matching(
        frame.ravel(), width, height * width, planes, corner, count, stride, patch, window, m,
        np.float32(guess), out, places, kept, np.empty(m, np.intp),
    )  # fmt: skip
    corners = [divmod(int(p), width) for p in places[:, :m].ravel()]
    return np.array([(i - radius, j - radius) for i, j in corners]).reshape(count, m, 2)


@pytest.mark.parametrize("window", [1, 5, 21, 45, 67])
@pytest.mark.parametrize(("patch", "stride"), [(7, 4), (9, 4), (8, 4), (9, 6), (5, 5), (3, 1)])
def test_matching_is_that_of_the_paper(window, patch, stride):
    rng = np.random.default_rng(patch)
    image = rng.integers(0, 60, (50, 60)).astype(np.float32)  # integers: distances are exact
    m = min(40, (window // 2 + 1) ** 2)
    for y, x, count in ((0, 0, 3), (50 - patch, 60 - patch - stride, 2), (20, 24, 1)):
        corners = matched(image, y, x, count, stride, patch, window, m, 1000)
        for c in range(count):
            candidates = oracle.similar(image, y, x + c * stride, patch, m, window)
            m_there = min(m, len(candidates))
            np.testing.assert_array_equal(corners[c][:m_there], candidates)


@pytest.mark.parametrize("planes", [1, 2, 5])
def test_matching_compares_all_planes(planes):
    image = np.random.default_rng(planes).integers(0, 60, (planes, 40, 50)).astype(np.float32)
    corners = matched(image, 12, 8, 3, 4, 7, 21, 30, 1000)
    for c in range(3):
        np.testing.assert_array_equal(corners[c], oracle.similar(image, 12, 8 + 4 * c, 7, 30, 21))


@pytest.mark.parametrize("guess", [0, 1e-3, 7, 1e4, 1e20])
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_ties_go_to_the_first_position_whatever_the_guess(levels, guess):
    image = np.random.default_rng(0).integers(0, levels, (40, 40)).astype(np.float32)
    corners = matched(image, 16, 16, 2, 4, 4, 21, 30, guess)
    for c in range(2):
        np.testing.assert_array_equal(corners[c], oracle.similar(image, 16, 16 + 4 * c, 4, 30, 21))


@pytest.mark.parametrize("planes", [1, 2, 3])
@pytest.mark.parametrize("patch", [1, 3, 7, 8, 11, 16, 19])
@pytest.mark.parametrize("flat", [True, False])
def test_gather_and_aggregate(patch, planes, flat):
    rng = np.random.default_rng(patch)
    image = rng.normal(size=(planes, 60, 60 + 2 * LANES)).astype(np.float32)
    width = image.shape[2]
    corners = rng.integers(0, 60 - patch + 1, (13, 2))
    weights = rng.uniform(0.5, 2, 16).astype(np.float32)
    n = planes * patch * patch
    size = padded(n)
    group = np.zeros(padded(13) * size + LANES, np.float32)
    window = np.ones(patch, np.float32) if flat else rng.uniform(0.2, 1, patch).astype(np.float32)
    mask = np.pad(window, (0, padded(patch) - patch))
    total, rest, weight = np.zeros_like(image), np.zeros_like(image), np.zeros_like(image[0])
    places = (corners[:, 0] * width + corners[:, 1]).astype(np.intp)
    run_groups(
        image.reshape(-1), width, image[0].size, planes, places, 13, patch, group, weights, mask,
        total.reshape(-1), rest.reshape(-1), weight.reshape(-1),
    )  # fmt: skip

    expected = np.zeros(image.shape)
    rows = group[: padded(13) * size].reshape(-1, size)
    for j, (y, x) in enumerate(corners):
        inside = np.s_[:, y : y + patch, x : x + patch]
        np.testing.assert_array_equal(rows[j, :n], image[inside].ravel())
        expected[inside] += weights[j] * np.outer(window, window) * 3 / 4 * image[inside]
    assert not rows[13:].any()
    np.testing.assert_allclose(total, expected, atol=1e-5)
    np.testing.assert_allclose(rest, expected / 2, atol=1e-5)

    everywhere = np.empty((60, 60))
    corner_of_all = weight[:60, :60].copy()
    corner_of_all += 1e-3  # pixels that no patch covers would be 0 / 0
    normalised = total[:, :60, :60].copy()
    groups.normalise(normalised, corner_of_all, window)
    for y in range(60):
        for x in range(60):
            block = corner_of_all[max(0, y - patch + 1) : y + 1, max(0, x - patch + 1) : x + 1]
            rows, columns = (window[: len(side)][::-1] for side in (block, block.T))
            everywhere[y, x] = rows @ block @ columns
    np.testing.assert_allclose(normalised, total[:, :60, :60] / everywhere, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 3e38, -1e20])
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("variance", [1.0, 0.0, -1.0, np.inf, np.nan])
@pytest.mark.parametrize(("every", "nearness"), [(1, 0.0), (2, 0.0), (1, 0.3)])
def test_matching_stays_within_the_window_for_any_pixels(junk, share, variance, every, nearness):
    side, patch, window, size = 48, 5, 9, 30
    random = np.random.default_rng(0)
    image = random.normal(size=(side, side + 2 * LANES)).astype(np.float32)
    image[random.random(image.shape) < share] = junk
    ys = xs = np.arange(8, 32, 4)
    places = np.full(len(ys) * len(xs) * size, -(2**60), np.intp)
    sizes = np.full(len(ys) * len(xs), size)
    row = image.shape[1]
    matching.match(
        image.reshape(-1), row, image.size, 1, ys, xs, 4, patch, every, window,
        np.array([variance], np.float32), np.float32(nearness), sizes, size, places,
    )  # fmt: skip
    y, x = np.divmod(places.reshape(len(ys), len(xs), size), row)
    assert np.all(np.abs(y - ys[:, None, None]) <= window // 2)
    assert np.all(np.abs(x - xs[:, None]) <= window // 2)

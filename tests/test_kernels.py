"""The building blocks against NumPy: small matrices, matching, groups."""

import os
import subprocess
import sys

import numpy as np
import oracle
import pytest

from nlridge.engines.block import _match
from nlridge.kernels import linalg
from nlridge.kernels.compile import kernel
from nlridge.kernels.simd import LANES
from nlridge.patches import groups, matching
from nlridge.progress import progress_reporter


def padded(size):
    return -(-size // LANES) * LANES


@kernel
def run_product(C, A, a_row, a_column, B, rows, columns, length):
    linalg.product(C, 0, columns, A, 0, a_row, a_column, B, 0, columns, rows, columns, length)


@kernel
def run_gram(Q, X, side, length):
    linalg.gram(Q, X, side, length)


@kernel
def run_invert(Q, side):
    linalg.invert(Q, side)


@kernel
def run_transposed(target, source, rows, columns):
    linalg.transposed(target, source, rows, columns)


@kernel
def run_matching(
    image, row, plane, planes, corner, count, stride, patch, window, m, guess, out, places, kept, chosen
):  # fmt: skip
    matching.distances(image, row, plane, planes, corner, count, stride, patch, window, out)
    size = window * linalg.padded(window)
    for c in range(count):
        here = corner + c * stride
        matching.nearest(out, c * size, window, m, guess, row, here, places[c], kept, chosen)


@kernel
def run_groups(image, row, plane, planes, places, m, patch, group, weights, mask, total, weight):
    groups.gather(image, row, plane, planes, places, m, patch, group)
    groups.aggregate_weights(weights, places, m, weight)
    groups.aggregate(group, weights, places, m, patch, mask, total, row, plane, planes)


@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("rows", "length"), [(8, 1), (16, 33), (24, 90)])
def test_product(vectors, rows, length):
    rng = np.random.default_rng(vectors)
    A = rng.normal(size=(rows, length)).astype(np.float32)
    B = rng.normal(size=(length, vectors * LANES)).astype(np.float32)
    for factor, a_row, a_column in ((A, length, 1), (A.T, 1, rows)):
        C = np.full((rows, vectors * LANES), np.nan, np.float32)
        run_product(
            C.ravel(), np.ascontiguousarray(factor).ravel(), a_row, a_column, B.ravel(),
            rows, vectors * LANES, length,
        )  # fmt: skip
        np.testing.assert_allclose(C, A.astype(float) @ B, atol=1e-4)


@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 6])
def test_gram_and_invert(blocks):
    side = blocks * LANES
    X = np.random.default_rng(blocks).normal(1, 1, size=(side // 2, side)).astype(np.float32)
    Q = np.zeros((side, side), np.float32)
    run_gram(Q.reshape(-1), X.ravel(), side, len(X))
    exact = X.astype(float).T @ X
    np.testing.assert_allclose(np.triu(Q), np.triu(exact), rtol=1e-5, atol=1e-3)
    Q += 10 * np.eye(side, dtype=np.float32)
    run_invert(Q.reshape(-1), side)
    np.testing.assert_allclose(Q, np.linalg.inv(exact + 10 * np.eye(side)), atol=2e-6)


def test_transposed():
    source = np.arange(2 * LANES * 3 * LANES, dtype=np.float32).reshape(2 * LANES, 3 * LANES)
    target = np.empty((3 * LANES, 2 * LANES), np.float32)
    run_transposed(target.reshape(-1), source.reshape(-1), 2 * LANES, 3 * LANES)
    np.testing.assert_array_equal(target, source.T)


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
    found = [divmod(int(p), width) for p in places[:, :m].ravel()]
    return np.array([(i - radius, j - radius) for i, j in found]).reshape(count, m, 2)


@pytest.mark.parametrize("window", [1, 5, 21, 45, 67])
@pytest.mark.parametrize(("patch", "stride"), [(7, 4), (9, 4), (8, 4), (9, 6), (5, 5), (3, 1)])
def test_matching_is_that_of_the_paper(window, patch, stride):
    rng = np.random.default_rng(patch)
    image = rng.integers(0, 60, (50, 60)).astype(np.float32)  # integers: distances are exact
    m = min(40, (window // 2 + 1) ** 2)
    for y, x, count in ((0, 0, 3), (50 - patch, 60 - patch - stride, 2), (20, 24, 1)):
        found = matched(image, y, x, count, stride, patch, window, m, 1000)
        for c in range(count):
            candidates = oracle.similar(image, y, x + c * stride, patch, m, window)
            m_there = min(m, len(candidates))
            np.testing.assert_array_equal(found[c][:m_there], candidates)


@pytest.mark.parametrize("planes", [1, 2, 5])
def test_matching_compares_all_planes(planes):
    image = np.random.default_rng(planes).integers(0, 60, (planes, 40, 50)).astype(np.float32)
    found = matched(image, 12, 8, 3, 4, 7, 21, 30, 1000)
    for c in range(3):
        np.testing.assert_array_equal(found[c], oracle.similar(image, 12, 8 + 4 * c, 7, 30, 21))


@pytest.mark.parametrize("guess", [0, 1e-3, 7, 1e4, 1e20])
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_ties_go_to_the_first_position_whatever_the_guess(levels, guess):
    image = np.random.default_rng(0).integers(0, levels, (40, 40)).astype(np.float32)
    found = matched(image, 16, 16, 2, 4, 4, 21, 30, guess)
    for c in range(2):
        np.testing.assert_array_equal(found[c], oracle.similar(image, 16, 16 + 4 * c, 4, 30, 21))


@pytest.mark.parametrize("planes", [1, 2, 3])
@pytest.mark.parametrize("patch", [1, 3, 7, 8, 11, 16, 19])
def test_gather_and_aggregate(patch, planes):
    rng = np.random.default_rng(patch)
    image = rng.normal(size=(planes, 60, 60 + 2 * LANES)).astype(np.float32)
    width = image.shape[2]
    corners = rng.integers(0, 60 - patch + 1, (13, 2))
    weights = rng.uniform(0.5, 2, 16).astype(np.float32)
    n = planes * patch * patch
    size = padded(n)
    group = np.zeros(padded(13) * size + LANES, np.float32)
    mask = (np.arange(padded(patch)) < patch).astype(np.float32)
    total, weight = np.zeros_like(image), np.zeros_like(image[0])
    places = (corners[:, 0] * width + corners[:, 1]).astype(np.intp)
    run_groups(
        image.reshape(-1), width, image[0].size, planes, places, 13, patch, group, weights, mask,
        total.reshape(-1), weight.reshape(-1),
    )  # fmt: skip

    expected = np.zeros(image.shape)
    rows = group[: padded(13) * size].reshape(-1, size)
    for j, (y, x) in enumerate(corners):
        inside = np.s_[:, y : y + patch, x : x + patch]
        np.testing.assert_array_equal(rows[j, :n], image[inside].ravel())
        expected[inside] += weights[j] * image[inside]
    assert not rows[13:].any()
    np.testing.assert_allclose(total, expected, atol=1e-5)

    everywhere = np.empty((60, 60))
    corner_of_all = weight[:60, :60].copy()
    corner_of_all += 1e-3  # pixels that no patch covers would be 0 / 0
    normalised = total[:, :60, :60].copy()
    groups.normalise(normalised, corner_of_all, patch)
    for y in range(60):
        for x in range(60):
            block = corner_of_all[max(0, y - patch + 1) : y + 1, max(0, x - patch + 1) : x + 1]
            everywhere[y, x] = block.sum()
    np.testing.assert_allclose(normalised, total[:, :60, :60] / everywhere, rtol=1e-4, atol=1e-6)


# What is kept on disk.

TINY = """
from nlridge.kernels.compile import announcing, kernel

@kernel
def twice(x):
    return 2 * x

with announcing(lambda: print("compiled", end=" ")):
    print(twice(21.0))
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Runs a program with a small kernel, in a process of its own; and the folder of its cache."""
    folder = tmp_path_factory.mktemp("tiny")
    program = folder / "tiny.py"
    program.write_text(TINY)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}

    def run():
        command = [sys.executable, program]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert run().stdout == "compiled 42.0\n"
    assert run().stdout == "42.0\n"
    return run, folder / "cache"


@pytest.mark.parametrize(
    ("kind", "damage"),
    [("nbi", "cut short"), ("nbi", "garbage"), ("nbc", "empty"), ("nbc", "one bit")],
)
def test_a_damaged_file_of_the_cache_is_compiled_again(tiny, kind, damage):
    run, cache = tiny
    (file,) = cache.rglob(f"*.{kind}")
    data = file.read_bytes()
    middle = len(data) // 2
    damaged = {
        "empty": b"",
        "cut short": data[:middle],
        "one bit": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "garbage": b"\x93garbage" * 500,
    }[damage]
    file.write_bytes(damaged)
    again = run()
    assert (again.stdout, again.stderr) == ("compiled 42.0\n", "")
    assert run().stdout == "42.0\n"  # and it is kept


def test_a_cache_that_cannot_be_written_does_not_stop_the_program(tiny):
    run, cache = tiny
    (file,) = cache.rglob("*.nbi")
    file.unlink()
    file.mkdir()
    done = run()
    file.rmdir()
    assert done.stdout == "compiled 42.0\n"
    assert "RuntimeWarning: nlridge cannot save its compiled kernels" in done.stderr


SAID = "nlridge is compiling for this CPU; this takes a few seconds and happens only once"


def test_a_library_that_compiles_logs_it_once(tmp_path):
    """Also where warnings are errors; what others compile is none of our business."""
    program = tmp_path / "program.py"
    program.write_text("""
import numba
from nlridge.kernels.compile import kernel

@numba.njit
def thrice(x):
    return 3 * x

@kernel
def twice(x):
    return 2 * x

thrice(1)
print("theirs", flush=True)
twice(1.0), twice(1)
print("ours", flush=True)
""")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error", program]
    first, second = (
        subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    )
    assert first.stdout == f"theirs\n{SAID}\nours\n"
    assert second.stdout == "theirs\nours\n"


def test_a_progress_bar_says_that_it_compiles(capsys):
    with progress_reporter(True, 2, "block") as tick:

        @kernel
        def twice(x):
            return 2 * x

        twice(1.0)
        assert "compiling for this CPU, once" in capsys.readouterr().err
        tick()
    assert SAID not in capsys.readouterr().err


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 3e38, -1e20])
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("variance", [1.0, 0.0, -1.0, np.inf, np.nan])
def test_matching_stays_within_the_window_whatever_the_numbers(junk, share, variance):
    side, patch, window, size = 48, 5, 9, 30
    random = np.random.default_rng(0)
    image = random.normal(size=(side, side + 2 * LANES)).astype(np.float32)
    image[random.random(image.shape) < share] = junk
    ys = xs = np.arange(8, 32, 4)
    places = np.full(len(ys) * len(xs) * size, -(2**60), np.intp)
    sizes = np.full(len(ys) * len(xs), size)
    row = image.shape[1]
    _match(
        image.reshape(-1), row, image.size, 1, ys, xs, 4, patch, window, np.float32(variance),
        sizes, size, places,
    )  # fmt: skip
    y, x = np.divmod(places.reshape(len(ys), len(xs), size), row)
    assert np.all(np.abs(y - ys[:, None, None]) <= window // 2)
    assert np.all(np.abs(x - xs[:, None]) <= window // 2)

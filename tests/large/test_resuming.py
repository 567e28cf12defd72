"""Runs that are stopped are resumed, and never with the work of another run."""

import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from groups import Custom
from large_images import GIVEN, Stopped, kept, kills, noisy, stops_at

import nlridge
from nlridge import progress
from nlridge.large import resume

zarr = pytest.importorskip("zarr")


PROGRAM = """
import os, sys, signal
import numpy as np
import nlridge
from nlridge.large import frames

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(function, calls):
    def call(*arguments):
        nonlocal calls
        calls -= 1
        if calls == 0:
            die()
        return function(*arguments)
    return call

def torn(frame, rows, pixels, workers):
    if rows.start:
        write(frame, range(rows.start, rows.start + 10), pixels[:, :10], workers)
        die()
    write(frame, rows, pixels, workers)

how, folder = sys.argv[1:]
if how == "while a file is written":
    os.replace = dying(os.replace, 6)
if how == "while a tile is written":
    write, frames.Frame.write = frames.Frame.write, torn
nlridge.denoise_to_disk(
    np.load(folder + "/in.npy", mmap_mode="r"), folder + "/out.zarr", 20, data_range=255, tile=64,
    progress=dying(lambda *_: None, 7 if how == "in between" else -1),
)
"""


@pytest.mark.slow
@kills
@pytest.mark.parametrize(
    "how", ["in between", "while a file is written", "while a tile is written"]
)
def test_a_run_that_is_killed_is_resumed(how, tmp_path):
    image = noisy(157, 140)
    np.save(tmp_path / "in.npy", image)
    killed = subprocess.run([sys.executable, "-c", PROGRAM, how, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.zarr.part", "in.npy"]
    before = {path: path.stat().st_mtime_ns for path in kept(tmp_path)}
    assert before
    seen = []

    def look(done, total):
        for path in kept(tmp_path):
            assert before.get(path, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
        seen.append((done, total))

    memory = np.load(tmp_path / "in.npy", mmap_mode="r")
    out = nlridge.denoise_to_disk(memory, tmp_path / "out.zarr", **GIVEN, tile=64, progress=look)
    assert seen[-1][0] == seen[-1][1]
    assert np.array_equal(out[:], nlridge.denoise(image, **GIVEN))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.zarr"]


def test_a_run_with_other_settings_starts_again(tmp_path):
    stop = stops_at(6)
    image, out = noisy(157, 140), tmp_path / "out.npy"
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(image, out, **GIVEN, tile=64, progress=stop)
    other = nlridge.denoise_to_disk(image, out, 30, data_range=255, tile=64)
    assert np.array_equal(other[:], nlridge.denoise(image, 30, data_range=255))


def is_resumed(before, after, folder, between=lambda: None):
    """Whether a run with one recipe, which was stopped, is resumed with another; the result is right in any case."""
    image = noisy(157, 140)
    given = {**GIVEN, "out": folder / "out.npy", "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(image, **given, method=before, progress=stops_at(6))
    between()
    counts = []
    result = nlridge.denoise_to_disk(
        image, **given, method=after, progress=lambda done, total: counts.append(done)
    )
    assert np.array_equal(result, nlridge.denoise(image, **GIVEN, method=after))
    return counts != list(range(1, counts[-1] + 1))  # what was done before is counted at once


STEPS = nlridge.Step(6, 16, 5, 15), nlridge.Step(6, 16, 5, 15)


def test_a_run_is_resumed_with_an_equal_family(tmp_path):
    before, after = (
        nlridge.Recipe(nlridge.core.families.Ridge(0.1, 1.0), *STEPS) for _ in range(2)
    )
    assert before is not after
    assert is_resumed(before, after, tmp_path)


@pytest.mark.parametrize(
    "family",
    [
        nlridge.core.families.Ridge(0.2, 1.0),
        nlridge.core.families.Ridge(0.1, 2.0),
        nlridge.core.families.TwoSided(0.1, 1.0),
        nlridge.core.families.BM3D(),
    ],
    ids=repr,
)
def test_a_run_is_not_resumed_with_another_family_or_other_options(family, tmp_path):
    before = nlridge.Recipe(nlridge.core.families.Ridge(0.1, 1.0), *STEPS)
    assert not is_resumed(before, replace(before, family=family), tmp_path)


FACTOR = 0.5


def weights_of(Y):
    return np.ones(Y.shape)[..., 0, :]


def with_factor(factor):
    return lambda Y, X, noise: (factor * Y, weights_of(Y))


def with_half_by_default(Y, X, noise, factor=0.5):
    return factor * Y, weights_of(Y)


def with_most_by_default(Y, X, noise, factor=0.9):
    return factor * Y, weights_of(Y)


def with_global(Y, X, noise):
    return FACTOR * Y, weights_of(Y)


@dataclass
class Multiply:
    factor: float

    def __call__(self, Y, X, noise):
        return self.factor * Y, weights_of(Y)


FORMULAS = {
    "constant": (
        lambda Y, X, noise: (0.5 * Y, weights_of(Y)),
        lambda Y, X, noise: (0.9 * Y, weights_of(Y)),
    ),
    "closure": (with_factor(0.5), with_factor(0.9)),
    "default": (with_half_by_default, with_most_by_default),
    "callable object": (Multiply(0.5), Multiply(0.9)),
    "global": (with_global, with_global),
}


@pytest.mark.parametrize("difference", FORMULAS)
def test_a_run_with_a_custom_formula_is_never_resumed(difference, tmp_path, monkeypatch):
    """Nothing shows whether code from outside the package is what it was: here it never is."""
    before, after = (
        nlridge.Recipe(Custom(nlridge.Estimator(formula)), STEPS[0])
        for formula in FORMULAS[difference]
    )
    change = partial(monkeypatch.setitem, globals(), "FACTOR", 0.9)
    assert not is_resumed(before, after, tmp_path, between=change)


def test_a_run_with_a_custom_transform_is_never_resumed(tmp_path):
    def rotated(size):
        return nlridge.core.families.bm3d.dct(size)[:, ::-1]

    recipe = nlridge.Recipe(nlridge.core.families.BM3D(patch_transform=rotated), *STEPS)
    assert not is_resumed(recipe, recipe, tmp_path)


def test_a_frame_that_has_changed_is_done_again(tmp_path):
    def stop(done, total):
        if done == 2 * total / 3:
            raise Stopped

    images, out = noisy(90, 80, 3), tmp_path / "out.npy"
    given = {**GIVEN, "method": "fast", "stack_axis": 0, "out": out, "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(images, **given, progress=stop)
    images[1] += 10
    result = nlridge.denoise_to_disk(images, **given)
    assert np.array_equal(result, nlridge.denoise(images, **GIVEN, method="fast", stack_axis=0))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_image_that_has_changed_in_one_row_is_done_again(dtype, tmp_path, monkeypatch):
    """All pixels count, not only the sample that the noise is estimated from."""
    from nlridge.large import frames

    monkeypatch.setattr(frames, "_SAMPLE_SIDE", 16)
    image, out = noisy(157, 140).astype(dtype), tmp_path / "out.npy"
    assert not any(30 in rows for rows in frames._sample_ranges(157))
    given = {**GIVEN, "method": "fast", "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(image, out, **given, progress=stops_at(6))
    image[30] += 5
    assert np.array_equal(nlridge.denoise_to_disk(image, out, **given), nlridge.denoise(image, **{**GIVEN, "method": "fast"}))  # fmt: skip


def test_an_image_that_changes_and_changes_back(tmp_path):
    """What was done for the other image in between is not taken for its own."""
    first, second, out = noisy(157, 140), noisy(157, 140, seed=1), tmp_path / "out.npy"
    given = {**GIVEN, "method": "fast", "tile": 64, "out": out}
    total = []
    nlridge.denoise_to_disk(first, **{**given, "out": tmp_path / "whole.npy"}, progress=lambda *t: total.append(t[1]))  # fmt: skip
    for image, stop in ((first, total[0] - 1), (second, total[0] - 1)):
        with pytest.raises(Stopped):
            nlridge.denoise_to_disk(image, **given, progress=stops_at(stop))
    assert np.array_equal(nlridge.denoise_to_disk(first, **given), np.load(tmp_path / "whole.npy"))


def test_progress_starts_at_what_is_done(tmp_path, capsys):
    """What was done before does not count for the time left."""
    image, given = noisy(157, 140), {**GIVEN, "method": "fast", "tile": 64, "out": tmp_path / "out.npy"}  # fmt: skip
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(image, **given, progress=stops_at(6))
    bars = []

    class Bar(progress.tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            bars.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "tqdm", Bar)
        nlridge.denoise_to_disk(image, **given, progress=True)
    (bar,) = bars
    assert bar.n == bar.total
    assert bar.initial >= 5
    assert "%" in capsys.readouterr().err


def test_the_folder_of_a_finished_run_is_removed(tmp_path):
    """It is left if the run is killed just after its result got its name."""
    image, out = noisy(90, 80), tmp_path / "out.zarr"
    given = {**GIVEN, "method": "fast", "tile": 64, "out": out}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume, "discard", lambda path: None)
        patch.setattr(resume.shutil, "rmtree", lambda path: None)
        nlridge.denoise_to_disk(image, **given)
    assert (tmp_path / ".out.zarr.part").exists()
    with pytest.raises(FileExistsError, match="which exists; expected a new name"):
        nlridge.denoise_to_disk(image, **given)
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


def test_two_runs_never_write_the_same_output(tmp_path):
    image, out = noisy(100, 90), tmp_path / "out.npy"

    def again(done, total):
        if done == 2:
            with pytest.raises(FileExistsError, match="in use by another process"):
                nlridge.denoise_to_disk(image, out, **GIVEN, method="fast", tile=64)

    nlridge.denoise_to_disk(image, out, **GIVEN, method="fast", tile=64, progress=again)


def test_a_run_with_a_noise_model_from_outside_is_never_resumed(tmp_path):
    class Own(nlridge.GaussianNoise):
        pass

    image, out = noisy(157, 140), tmp_path / "out.npy"
    given = {"noise": Own(20), "method": "fast", "data_range": 255, "out": out, "tile": 64}
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(image, **given, progress=stops_at(6))
    counts = []
    nlridge.denoise_to_disk(image, **given, progress=lambda done, total: counts.append(done))
    assert counts == list(range(1, counts[-1] + 1))


def test_a_run_is_not_resumed_if_the_metadata_of_the_input_have_changed(tmp_path):
    zarr = pytest.importorskip("zarr")
    pixels, out = noisy(157, 140), tmp_path / "out.zarr"
    given = {**GIVEN, "method": "fast", "out": out, "tile": 64}
    before = zarr.create_array(tmp_path / "a.zarr", data=pixels, attributes={"by": "one"})
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(before, **given, progress=stops_at(6))
    after = zarr.create_array(tmp_path / "b.zarr", data=pixels, attributes={"by": "another"})
    result = nlridge.denoise_to_disk(after, **given)
    assert dict(result.attrs) == {"by": "another"}
    assert np.array_equal(result[:], nlridge.denoise(pixels, **GIVEN, method="fast"))

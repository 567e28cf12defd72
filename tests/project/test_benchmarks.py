"""The benchmarks: nothing is measured twice, and tables say what is missing."""

import contextlib
import re
import subprocess
import sys
from argparse import Namespace

import numpy as np
import pytest
from benchmarks import against, correlated, guard, measuring, video
from benchmarks.clips import hard_clips, noise_of
from benchmarks.methods import denoiser, recipe
from benchmarks.published import BARBARA, TABLE_2
from benchmarks.quality import table

import nlridge


@pytest.fixture
def options(tmp_path):
    return Namespace(
        results=tmp_path, seeds=2, part=None, sigma=[15, 25], methods=["nl-ridge", "fast"]
    )


@pytest.fixture
def sets():
    image = np.tile(np.linspace(0, 255, 32), (32, 1)).astype(np.uint8)
    return {"set12": [(0, "a.png", image), (1, "b.png", image.T)]}


def test_measurements_are_not_repeated(options, sets, monkeypatch):
    calls = []

    def measure(method, noisy, sigma, image):
        calls.append(method)
        return 30.0 + len(calls) % 3, 0.5, 7.0

    monkeypatch.setattr(measuring, "_measure", measure)
    first = list(measuring.measured(options, ["noisy"], [15, 25], sets))
    assert len(first) == len(calls) == 2 * 2 * 2
    file = options.results / "images.csv"
    file.write_text(file.read_text()[:-9])  # a line that was cut off is measured again
    again = list(measuring.measured(options, ["noisy", "fast"], [15, 25], sets))
    assert calls[8:] == ["fast"] * 7 + ["noisy", "fast"]
    assert [row[:7] for row in again if row.method == "noisy"][:7] == [row[:7] for row in first][:7]
    monkeypatch.setattr(measuring, "_digest", lambda method: "other sources")
    assert len(list(measuring.measured(options, ["noisy"], [15], sets))) == 4
    assert len(calls) == 8 + 9 + 4


def test_the_table_has_measured_and_published_rows(options, sets):
    rows = list(measuring.measured(options, ["noisy", "nl-ridge", "fast"], options.sigma, sets))
    lines = table(rows, "set12", 2, options).splitlines()
    (line,) = [line for line in lines if line.startswith("| nl-ridge |")]
    assert "±" in line
    assert "| 32.46 / 30.00 |" in line
    assert any("DnCNN" in line and "32.86 / 30.44" in line for line in lines)
    assert "(6 of 8)" not in line
    partial = table(rows[:-6], "set12", 2, options)
    assert "of 4)" in partial


def test_published_values_of_networks_are_beside_the_measured_ones(options):
    options.methods = ["fast", "dip,iterations=3"]
    row = measuring.Row("", "set12", "a.png", 25.0, 0, "dip,iterations=3", 20.0, 1.0, 1.0)
    lines = table([row], "set12", 1, options).splitlines()
    (line,) = [line for line in lines if line.startswith("| dip,iterations=3 |")]
    assert "| 30.12 / 27.54 |" in line
    assert not any(line.startswith("| DIP |") for line in lines)


def test_names_of_methods_say_what_is_changed():
    changed = recipe("nl-ridge,p2=7,m1=30", 25)
    paper = nlridge.recipe("nl-ridge", 25)
    assert (changed.first.group_size, changed.second.patch_size) == (30, 7)
    assert changed.first.patch_size == paper.first.patch_size
    assert recipe("bm3d,threshold=none,steps=1", 25).second is None
    noisy = np.random.default_rng(0).normal(100, 20, (24, 24)).astype(np.float32)
    assert np.std(denoiser("nl-ridge,steps=3")(noisy, 20)) < 3
    assert denoiser("noisy")(noisy, 20) is noisy


def test_published_values_are_those_of_the_paper():
    assert TABLE_2["nl-ridge"]["urban100"] == {15: 32.53, 25: 29.90}
    assert TABLE_2["bm3d"]["bsd68"] == {15: 31.07, 25: 28.57}
    assert "urban100" not in TABLE_2["DIP"]
    assert (BARBARA["noisy"], BARBARA["nl-ridge"]) == (22.09, 32.06)


def test_measuring_shows_its_progress(options, sets, monkeypatch, capsys):
    monkeypatch.setattr(measuring, "_measure", lambda *_: (30.0, 0.5, 7.0))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    rows = list(measuring.measured(options, ["noisy", "fast"], [15, 25], sets))
    assert len(rows) == 16
    said = capsys.readouterr()
    assert "2 methods on images:" in said.err
    assert "/8 [" in said.err
    assert said.out == ""


@pytest.mark.usefixtures("one_torch_thread")
def test_the_benchmark_of_tensors_runs(capsys):
    from benchmarks import gpu

    with contextlib.suppress(SystemExit):
        gpu.main(["--size", "48", "--batch", "2", "--repeat", "1", "--device", "cpu"])
    printed = capsys.readouterr().out
    for name in nlridge.method_names():
        assert re.search(rf"{name} +[\d.]+ images/s +.* MB +[\d.]+ dB", printed)


@pytest.mark.parametrize("kind", correlated.KERNELS)
def test_correlated_noise_has_the_spectrum_that_is_passed_on(kind):
    image = np.zeros((80, 90))
    noise, spectra = zip(
        *(correlated.noisy_image(image, kind, 5, seed) for seed in range(100)), strict=True
    )
    assert np.std(noise) == pytest.approx(5, rel=0.05)
    measured = np.mean(np.abs(np.fft.fft2(noise)) ** 2, axis=0)
    strong = spectra[0] > spectra[0].mean()
    np.testing.assert_allclose(measured[strong] / spectra[0][strong], 1, atol=0.7)
    assert measured[strong].sum() == pytest.approx(spectra[0][strong].sum(), rel=0.05)


def test_the_benchmark_of_correlated_noise_runs_without_other_packages(capsys, monkeypatch):
    image = np.tile(np.linspace(0, 255, 40), (40, 1))
    monkeypatch.setattr(correlated, "_images", lambda options: [(0, image)])
    correlated.run(Namespace(correlated_sigma=[10], correlated_noise=["blur"], skip_slow=True))
    printed = capsys.readouterr().out
    assert "blur, sigma 10, mean of 1 images" in printed
    for name in ("standard", "best"):
        assert re.search(rf"{name} +[\d.]+ s +[\d.]+ x +[\d.]+ dB", printed)


def test_frames_that_are_repeated_share_their_noise():
    clips = hard_clips()
    assert {clip.shape[1:] for clip in clips.values()} == {(128, 160)}
    assert all(clip.min() >= 0 and clip.max() < 300 for clip in clips.values())
    assert len(clips["one frame"]) == 1
    for name, clip in clips.items():
        noise = noise_of(name, clip, 20)
        assert np.std(noise) == pytest.approx(20, rel=0.02)
        if "twice, same noise" in name:
            np.testing.assert_array_equal((clip + noise)[0], (clip + noise)[1])
        elif len(clip) > 1:
            assert "same" in name or not np.array_equal(noise[0], noise[1])


def test_the_benchmark_of_videos_runs_without_other_packages(tmp_path, capsys, monkeypatch):
    (tmp_path / "video").mkdir()
    (tmp_path / "volumes").mkdir()
    frames = np.random.default_rng(0).integers(90, 100, (3, 40, 48, 3), np.uint8)
    np.save(tmp_path / "video" / "a.npy", frames)
    np.save(tmp_path / "volumes" / "b.npy", frames[..., 0])
    clip = frames[..., 0].astype(float)
    monkeypatch.setattr(video, "hard_clips", lambda: {"three frames": clip})
    for package in ("cv2", "bm4d"):
        monkeypatch.setitem(sys.modules, package, None)
    options = Namespace(
        video=["clips", "volumes", "nasty", "memory"],
        video_sigma=[20],
        video_frames=2,
        video_method="fast",
        repeat=1,
        data=tmp_path,
        methods=None,
    )
    monkeypatch.setattr(video, "_STREAM", video._STREAM.replace("1080", "60").replace("1920", "70"))
    video.run(options)
    printed = capsys.readouterr().out
    for name in ("fast", "standard", "best", "standard, noise not given"):
        assert len(re.findall(rf"^\| {name} \| [\d.]+ \| [+-][\d.]+ \|", printed, re.M)) == 3
    assert printed.count("not installed") == 3
    assert re.search(r"best: least margin [+-][\d.]+ dB \(three frames\)", printed)
    assert re.search(r"peak memory \d+ MB after 50 frames, \d+ MB in the end", printed)
    options.video, options.methods = ["clips"], ["preview"]
    video.run(options)
    rows = re.findall(r"^\| ([a-z, ]+) \| [\d.]+ \| [+-]", capsys.readouterr().out, re.M)
    assert rows == ["preview", "frame by frame, standard"] * 2


def test_a_change_that_costs_time_is_found(tmp_path, monkeypatch, capsys):
    """A commit and the working tree, each with a package of its own, which takes a known time by its clock."""
    package = tmp_path / "src" / "nlridge" / "__init__.py"
    package.parent.mkdir(parents=True)
    program = """
import time
now = 0
time.perf_counter = time.process_time = lambda: now
def denoise(noisy, sigma, *, method, **options):
    global now
    now += {seconds}[method]
"""
    package.write_text(program.format(seconds={"fast": 0.05, "standard": 0.05, "best": 0.05}))
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "before"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    package.write_text(program.format(seconds={"fast": 0.01, "standard": 0.15, "best": 0.01}))
    monkeypatch.setattr(against, "HERE", tmp_path)
    slower = against.compare("HEAD", {"gray": np.zeros((8, 8))}, [25], 3)
    assert slower == ["standard, gray, sigma 25"]
    ratios = re.findall(r"[\d.]+ (?:slower )?\| ([\d.]+) \|$", capsys.readouterr().out, re.M)
    np.testing.assert_allclose(np.array(ratios, float), [0.2, 3, 0.2])
    with pytest.raises(SystemExit, match="no-such-commit"):
        against.compare("no-such-commit", {}, [25], 1)


def test_the_guard_compares_with_the_last_release(tmp_path, monkeypatch, capsys):
    def git(*command):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True)

    monkeypatch.setattr(against, "HERE", tmp_path)
    monkeypatch.setattr(guard, "check_out", lambda revision, folder: sys.exit(revision))
    options = Namespace(against=None, guard_methods=["fast"])

    def compared_with():
        with pytest.raises(SystemExit) as stopped:
            guard.run(options)
        return stopped.value.code

    git("init", "-q")
    git("commit", "-qm", "before", "--allow-empty")
    assert compared_with() == "HEAD"
    assert "there is no release yet" in capsys.readouterr().out
    git("tag", "v1.0")
    git("commit", "-qm", "after", "--allow-empty")
    git("tag", "pictures-2")  # of something else
    assert compared_with() == "v1.0"
    assert "no release" not in capsys.readouterr().out


def test_the_guard_finds_what_has_become_worse(tmp_path, monkeypatch, capsys):
    """Two packages: the later one is slower in one method, worse in another, and in its estimates of the noise."""
    package = tmp_path / "src" / "nlridge" / "__init__.py"
    package.parent.mkdir(parents=True)
    program = """
import time
from types import SimpleNamespace
import numpy as np
now = 0
time.process_time = lambda: now
def denoise(noisy, sigma, *, method, **options):
    global now
    now += {seconds}[method]
    return noisy * {factors}[method]
def estimate_noise(noisy, **options):
    return SimpleNamespace(sigma={sigma} * np.std(noisy))
"""
    good = {"fast": 1.0, "standard": 1.0, "best": 1.0}
    package.write_text(program.format(seconds=good, factors=good, sigma=0.1))
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "before"], ["tag", "v1"]):  # fmt: skip
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(against, "HERE", tmp_path)
    options = Namespace(against=None, guard_methods=list(good))
    guard.run(options)
    assert "v1 and the working tree" in capsys.readouterr().out
    package.write_text(program.format(seconds=good | {"standard": 1.06}, factors=good | {"best": 1.1}, sigma=1.0))  # fmt: skip
    with pytest.raises(SystemExit) as stopped:
        guard.run(options)
    words = str(stopped.value)
    assert words.startswith("worse than v1: ")
    assert "standard takes 6.0% more time" in words
    assert "best loses 2." in words
    assert "the error of estimated levels grows by 9." in words
    assert "fast" not in words

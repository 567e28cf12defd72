"""The studio after a change of strength, how long work goes on, and how strong the noise is in words."""

import io
import itertools
import re

import numpy as np
import pytest
from PIL import Image
from studio_client import Page, picture, png, serving

import nlridge
from nlridge.apps.cli import main
from nlridge.apps.studio import stages, work
from nlridge.apps.studio.images import Opened, result_key
from nlridge.apps.studio.limits import Limits
from nlridge.apps.studio.opening import opened
from nlridge.apps.studio.tasks import Pace, Task, work_after
from nlridge.core.engines import reuse


@pytest.mark.slow
def test_a_change_of_strength_repeats_neither_the_estimate_nor_the_first_step(
    tmp_path, monkeypatch
):
    measured, first_steps = [], []
    measure, run_pass = stages.measure, reuse.run_pass

    def noted_measure(*given, **options):
        measured.append(given)
        return measure(*given, **options)

    def noted_pass(inputs, step, *given, **options):
        first_steps.append(not step.is_second)
        return run_pass(inputs, step, *given, **options)

    monkeypatch.setattr(stages, "measure", noted_measure)
    monkeypatch.setattr(reuse, "run_pass", noted_pass)
    with serving(tmp_path) as running:
        page = Page(running.address)
        noisy = np.asarray(Image.open(io.BytesIO(png(96, 120))))
        image = page.open("a.png", png(96, 120))
        page.see(image)
        page.finished(image)
        before = sum(measured[k][0].shape[1:] == (96, 120) for k in range(len(measured)))
        assert any(first_steps)
        first_steps.clear()
        for strength in (1.4, 2.0, 1.0):
            revision = page.set(image, strength=strength)
            page.see(image)
            page.finished(image)
            status, pixels, headers = page.tile(image, revision=revision)
            assert (status, headers["x-state"]) == (200, "exact")
            expected = nlridge.to_dtype(nlridge.denoise(noisy, strength=strength), np.uint8)
            np.testing.assert_array_equal(pixels, expected)
        assert first_steps
        assert not any(first_steps)
        after = sum(measured[k][0].shape[1:] == (96, 120) for k in range(len(measured)))
        assert after == before == 1


def test_what_is_kept_counts_as_memory_and_is_forgotten_with_old_results(tmp_path):
    from nlridge.apps.studio.gallery import forget_old_results

    with serving(tmp_path) as running:
        page = Page(running.address)
        image = page.open("a.png", png(64, 64))
        page.see(image)
        page.finished(image)
        held = running.studio.gallery.get(image["id"])
        assert 0 < held.kept < held.nbytes
        forget_old_results(held)
        assert held.kept == 0


@pytest.mark.slow
def test_the_words_are_those_of_the_command_line(tmp_path, capsys):
    Image.fromarray(picture(64, 80, 3).astype(np.uint8)).save(tmp_path / "a.png")
    np.save(tmp_path / "b.npy", picture(64, 80))
    for name in ("a.png", "b.npy"):
        assert main(["noise", str(tmp_path / name)]) == 0
        said = capsys.readouterr().out
        with serving(tmp_path / "work", tmp_path / name) as running:
            page = Page(running.address)
            (image,) = page.get("/api/state")[1]["images"]
            page.see(image)
            noise = page.finished(image)["noise"]
        assert said.endswith(f"{name}: {noise['plain']}; {noise['words']}\n")
        assert ("grain, about ISO" in said) == (name == "a.png")


@pytest.mark.parametrize("after", [0.0, 3.0])
def test_the_time_left_follows_from_the_pace(monkeypatch, after):
    now = [50.0]
    monkeypatch.setattr("nlridge.apps.studio.tasks.time.monotonic", lambda: now[0])
    pace = Pace()
    now[0] += 0.5
    assert pace.left(0.5) is None  # too soon to tell
    now[0] += 9.5
    assert pace.left(0.01) is None
    assert pace.left(0.25, after) == pytest.approx(30 + 40 * after)
    left = []
    for done in np.linspace(0.1, 1, 10):
        now[0] = 50 + 40 * done
        left.append(pace.left(done, after))
    assert all(one - other == pytest.approx(4) for one, other in itertools.pairwise(left))
    assert left[-1] == pytest.approx(40 * after)


def test_the_work_after_a_task(tmp_path):
    """After the visible part follows the whole, and after a frame its others."""
    np.save(tmp_path / "a.npy", np.zeros((5, 512, 1024), np.float32))
    image: Opened = opened(tmp_path / "a.npy", "a.npy", tmp_path / "w", Limits())
    wanted, whole = image.wanted, (0, 0, 1024, 512)
    visible = Task("visible", image, wanted, 0, "standard", (0, 0, 256, 256))
    assert work_after(visible) == 5 * 8
    assert work_after(Task("whole", image, wanted, 0, "standard", whole)) == 4
    for frame in range(4):
        image.result(result_key(wanted.settings, "standard")).mark(frame, whole)
    assert work_after(Task("whole", image, wanted, 4, "standard", whole)) == 0
    assert work_after(Task("quick", image, wanted, 4, "fast", whole)) == 0


@pytest.mark.slow
def test_progress_says_how_long_it_will_take(tmp_path, monkeypatch):
    monkeypatch.setattr("nlridge.apps.studio.tasks._MIN_SECONDS", 0.0)
    monkeypatch.setattr(work, "_EVERY", 0.0)
    with serving(tmp_path) as running:
        page = Page(running.address)
        with page.events() as events:
            image = page.open("a.png", png(128, 128))
            page.see(image)
            page.finished(image)
            said = [event for event in list(events) if event["type"] == "progress"]
    exact = [event for event in said if re.search("standard", event["words"])]
    assert any("left" in event for event in exact)
    assert all(event["left"] >= 0 for event in exact if "left" in event)
    assert not any("left" in event for event in said if re.search("preview", event["words"]))

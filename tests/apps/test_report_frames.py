"""The report page of stacks, channels and clips, also in a real browser: which frames it shows."""

import base64
import io
import re
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from browsers import INSIDE, browser, keep, needs_browser, screenshot, set_split, shown, stage
from PIL import Image
from skimage import data

from nlridge.apps.cli import main
from nlridge.apps.jobs.filmstrip import FrameSample
from nlridge.apps.jobs.pictures import clean_file
from nlridge.apps.pages.report import clip_entry, page_at
from nlridge.apps.pages.report import entry as report_entry

# Stacks and channels.


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """A stack of 20 frames in two channels with names: frame k has the value 1000 k, and 500 more in the second."""
    folder = tmp_path_factory.mktemp("stack")
    rng = np.random.default_rng(0)
    frames = rng.normal(0, 20, (20, 2, 64, 80)) + 1000 * np.arange(1, 21)[:, None, None, None]
    frames[:, 1] += 500
    metadata = {"axes": "TCYX", "Channel": {"Name": ["DAPI", "<b>GFP</b>"]}}
    tifffile.imwrite(folder / "cells.ome.tif", frames.astype(np.uint16), metadata=metadata)
    words = ["denoise", str(folder / "cells.ome.tif"), "--sigma", "20", "--method", "fast", "--frames", "independent"]  # fmt: skip
    assert main([*words, "--quiet", "--report", str(folder / "report.html")]) == 0
    return folder


@pytest.mark.slow
def test_a_few_frames_and_all_channels_can_be_chosen(stack):
    page = (stack / "report.html").read_text("utf-8")
    choices = re.findall(r"<option>(.*?)</option>", page)
    assert choices[:8] == [f"{k} of 20" for k in (1, 4, 6, 9, 12, 15, 17, 20)]
    assert choices[8:] == ["DAPI", "&lt;b&gt;GFP&lt;/b&gt;"]
    assert page.count("data:image/webp") == 8 * 2 * 3


def test_channels_without_names_are_counted(tmp_path):
    np.save(tmp_path / "cube.npy", np.random.default_rng(0).normal(0, 9, (9, 40, 40)))
    words = ["denoise", str(tmp_path / "cube.npy"), "--channel-axis", "0", "--sigma", "9", "--quiet"]  # fmt: skip
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert re.findall(r"<option>(.*?)</option>", page) == [f"channel {k}" for k in (1, 3, 4, 6, 7, 9)]  # fmt: skip


@pytest.mark.slow
def test_a_large_stack_does_not_make_a_large_page(tmp_path):
    frames = np.random.default_rng(0).normal(1000, 50, (8, 600, 600)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "stack.tif", frames, photometric="minisblack")
    words = ["denoise", str(tmp_path / "stack.tif"), "--sigma", "50", "--method", "fast", "--quiet"]
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 0
    assert "the central 512 × 512 are shown" in (tmp_path / "r.html").read_text("utf-8")
    assert (tmp_path / "r.html").stat().st_size < 5e6


@needs_browser
def test_the_frame_and_the_channel_that_are_chosen_are_shown(stack):
    from selenium.webdriver.support.ui import Select

    with browser(1366, 900) as driver:
        driver.get((stack / "report.html").as_uri())
        frame, channel = (
            Select(driver.find_element("css selector", name)) for name in (".frame", ".channel")
        )
        set_split(driver, 0)
        seen = {}
        for k in (0, 7, 3):
            for name in ("DAPI", "<b>GFP</b>"):
                frame.select_by_index(k)
                channel.select_by_visible_text(name)
                seen[k, name] = shown(driver)[INSIDE].mean()
        keep("stack", screenshot(driver))
        for name in ("DAPI", "<b>GFP</b>"):  # black and white are the same in all frames
            assert seen[0, name] < 10
            assert seen[7, name] > 245
            assert seen[3, name] == pytest.approx(255 * 8 / 19, abs=8)
        assert driver.get_log("browser") == []


# Clips.


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("count", [1, 2, 11, 12, 13, 25, 100, 1201])
def test_a_sample_of_frames_is_even_and_starts_with_the_first(count, known):
    sample = FrameSample(count if known else None)
    read = []
    for number in range(count):
        frame = np.full((2, 3), number)
        if sample.wants(number):
            read.append(number)
        sample.add(number, frame, frame)
    numbers = [frame.number for frame in sample.frames]
    assert numbers[0] == 0
    assert min(count, 7) <= len(numbers) <= 12
    assert len(set(np.diff(numbers))) <= 1
    assert count - numbers[-1] <= max(1, numbers[-1] - numbers[-2] if len(numbers) > 1 else 1)
    assert [frame.after[0, 0] for frame in sample.frames] == numbers
    assert set(numbers) <= set(read)  # whoever asks in time has kept all of them


def test_a_sample_keeps_only_the_middle_of_large_frames():
    frame = np.random.default_rng(0).integers(0, 255, (1080, 1920, 3), np.uint8)
    sample = FrameSample()
    sample.add(0, frame, frame)
    (kept,) = sample.frames
    np.testing.assert_array_equal(kept.before, frame[284:796, 704:1216])
    assert kept.before.base is None  # the frame itself is not kept
    assert kept.thumbnail.shape == (135, 240, 3)


CLIP_OPTIONS = Namespace(
    sigma=20.0, noise=None, method="fast", strength=1.0, color=1.0, format=None, channel_axis=None, stack_axis=None, workers=1,
    frames="auto", codec=None, quality=None,
)  # fmt: skip
FACTS = {"noise": "Gaussian noise with a standard deviation of 20 (given)", "time": "1.00 s"}


def clip_of(count, height=120, width=160, known=True):
    """A sample of a clip in color: frame k is of brightness 40 + 4 k, and half as bright in the right half."""
    rng = np.random.default_rng(0)
    sample = FrameSample(count if known else None)
    for number in range(count):
        after = np.full((height, width, 3), 40 + 4 * number, np.uint8)
        after[:, width // 2 :] //= 2
        before = np.clip(after + rng.normal(0, 20, after.shape), 0, 255).astype(np.uint8)
        sample.add(number, before, after)
    return sample


def shows(address):
    """The image of a data URL."""
    picture = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    return np.asarray(picture.convert("RGB")).astype(float)


def test_a_clip_is_a_filmstrip(tmp_path):
    entry = clip_entry(Path("a<b>.mp4"), Path("out.mp4"), clip_of(30), 30, FACTS, CLIP_OPTIONS)
    assert entry.frames == [f"{k} of 30" for k in range(1, 31, 3)]
    assert len(entry.thumbnails) == len(entry.views) == 10
    for k, (thumbnail, view) in enumerate(zip(entry.thumbnails, entry.views, strict=True)):
        before, after, removed = map(shows, view.images)
        assert before.shape == after.shape == removed.shape == (120, 160, 3)
        assert after[:, :70].mean() == pytest.approx(40 + 12 * k, abs=3)
        assert shows(thumbnail)[:, :70].mean() == pytest.approx(40 + 12 * k, abs=3)
        assert np.std(before[:, :70]) > 10  # the noise is still there
        assert removed.mean() == pytest.approx(127.5, abs=6)
        assert view.captions[0] == f"frame {3 * k + 1} of 30"
    with page_at(tmp_path / "r.html") as add:
        add(entry)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<dt>frames</dt><dd>30 of 160 × 120 pixels, uint8</dd>" in page
    assert page.count('type="radio"') == 10
    assert page.count(" checked>") == 1
    assert "<option>" not in page
    assert "a<b>" not in page


def test_a_clip_of_one_frame_is_an_image():
    entry = clip_entry(Path("a.mp4"), Path("b.mp4"), clip_of(1), 1, FACTS, CLIP_OPTIONS)
    assert entry.frames == ["1 of 1"]
    assert entry.thumbnails == ()


def test_a_clip_without_frames_is_refused():
    with pytest.raises(ValueError, match="the clip has no frames; expected at least one to show"):
        clip_entry(Path("a.mp4"), Path("b.mp4"), FrameSample(), 0, FACTS, CLIP_OPTIONS)


@pytest.mark.slow
def test_a_long_clip_does_not_make_a_large_page(tmp_path):
    photo = data.astronaut()
    sample, rng = FrameSample(), np.random.default_rng(0)
    for number in range(12):
        after = np.tile(np.roll(photo, 9 * number, 1), (2, 3, 1))[:720, :1280]
        before = np.clip(after + rng.normal(0, 25, after.shape), 0, 255).astype(np.uint8)
        sample.add(number, before, after)
    with page_at(tmp_path / "r.html") as add:
        add(clip_entry(Path("a.mp4"), Path("b.mp4"), sample, 12, FACTS, CLIP_OPTIONS))
    assert "12 of 1280 × 720 pixels, uint8; the central 512 × 512 are shown" in (
        tmp_path / "r.html"
    ).read_text("utf-8")
    assert (tmp_path / "r.html").stat().st_size < 4e6


def test_frames_of_a_stack_that_belong_together_are_a_clip(tmp_path):
    """With a choice of channels, beside the filmstrip."""
    rng = np.random.default_rng(0)
    frames = rng.normal(0, 20, (20, 2, 64, 80)) + 1000 * np.arange(1, 21)[:, None, None, None]
    tifffile.imwrite(tmp_path / "a.tif", frames.astype(np.uint16), imagej=True, metadata={"axes": "TCYX"})  # fmt: skip
    result = clean_file(
        tmp_path / "a.tif", tmp_path / "b.tif", overwrite=False, axes=None, noise=None, frames="auto",
        progress=lambda share: None, sigma=20.0, method="fast", strength=1.0, workers=1,
    )  # fmt: skip
    entry = report_entry(tmp_path / "a.tif", tmp_path / "b.tif", result, CLIP_OPTIONS)
    assert len(entry.frames) == len(entry.thumbnails) == 12
    assert len(entry.views) == 24
    brightness = [shows(thumbnail).mean() for thumbnail in entry.thumbnails]
    assert np.all(np.diff(brightness) > 5)
    with page_at(tmp_path / "r.html") as add:
        add(entry)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert re.findall(r"<option>(.*?)</option>", page) == ["channel 1", "channel 2"]


@needs_browser
def test_the_frame_of_the_filmstrip_that_is_chosen_is_shown(tmp_path):
    from selenium.webdriver.common.keys import Keys

    with page_at(tmp_path / "r.html") as add:
        for name in ("first", "second"):
            add(clip_entry(Path(name), Path("b.mp4"), clip_of(30), 30, FACTS, CLIP_OPTIONS))
    with browser(1366, 900) as driver:
        driver.get((tmp_path / "r.html").as_uri())
        assert driver.title == "nlridge: 2 clips"

        def left():
            """The brightness of the left half of the stage."""
            return np.asarray(screenshot(driver, stage(driver)).resize((160, 120)))[40:-8, 8:70].mean()  # fmt: skip

        set_split(driver, 0)
        pictures = driver.find_elements("css selector", ".strip img")
        assert len(pictures) == 20
        assert left() == pytest.approx(40, abs=3)
        pictures[7].click()
        assert left() == pytest.approx(40 + 12 * 7, abs=3)
        caption = driver.find_element("css selector", "figcaption")
        assert caption.text == "frame 22 of 30"
        keep("clip", screenshot(driver))
        driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        assert left() == pytest.approx(40 + 12 * 8, abs=3)
        pictures[13].click()  # of the other clip
        assert left() == pytest.approx(40 + 12 * 8, abs=3)
        assert driver.get_log("browser") == []
    with browser(500, 900, dark=True) as driver:
        driver.get((tmp_path / "r.html").as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        keep("clip-telephone", screenshot(driver))

"""The report page, also in a real browser: Chromium, as Debian packages it."""

import base64
import hashlib
import html
import io
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from skimage import data

from nlridge.cli import main
from nlridge.jobs.filmstrip import FrameSample
from nlridge.jobs.pictures import clean_file
from nlridge.pages.report import clip_entry, page_at
from nlridge.pages.report import entry as report_entry

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="no browser: install Debian's chromium and chromium-driver to run this",
)


def _truth():
    """A photograph that noise does not clip."""
    return 70 + 0.45 * data.astronaut()[:180, 130:330].astype(float)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two pictures, cleaned, and the report about them."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    clean = _truth()
    noisy = np.clip(clean + rng.normal(0, 20, clean.shape), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(folder / "colour <&>.png")
    deep = (data.camera()[100:260, 150:350] + rng.normal(0, 12, (160, 200))) * 100
    tifffile.imwrite(folder / "deep.tif", np.clip(deep, 0, 65535).astype(np.uint16))
    words = [
        "denoise",
        str(folder),
        "-o",
        str(folder / "out"),
        "--report",
        str(folder / "report.html"),
    ]
    assert main([*words, "--quiet"]) == 0
    return folder


def test_the_page_stands_alone_and_says_what_was_done(folder):
    page = (folder / "report.html").read_text("utf-8")
    assert "http://" not in page
    assert "https://" not in page
    assert "colour &lt;&amp;&gt;.png" in page
    assert "colour <&>.png" not in page
    for words in ("Gaussian noise with a standard deviation of", "(estimated)", "standard, strength 1", "dB", "nlridge denoise", "200 × 160 pixels, uint16"):  # fmt: skip
        assert words in page


def test_the_gain_agrees_with_the_truth(folder):
    page = (folder / "report.html").read_text("utf-8")
    said, _, error = page.split("<dt>estimated gain</dt><dd>")[1].split()[:3]
    clean = _truth()
    before, after = (
        np.asarray(Image.open(folder / name)).astype(float)
        for name in ("colour <&>.png", "out/colour <&>.png")
    )
    gain = 10 * np.log10(np.mean((before - clean) ** 2) / np.mean((after - clean) ** 2))
    assert 0 < float(error) < 5
    assert float(said) == pytest.approx(gain, abs=2 * float(error))


def test_a_report_is_not_overwritten_either(folder, capsys):
    words = ["denoise", str(folder / "deep.tif"), "-o", str(folder / "again.tif")]
    assert main([*words, "--report", str(folder / "report.html")]) == 1
    assert (
        "report.html, which exists; expected a new name or --overwrite" in capsys.readouterr().err
    )
    assert not (folder / "again.tif").exists()


def test_a_large_image_is_shown_in_part(tmp_path):
    tifffile.imwrite(tmp_path / "wide.tif", np.zeros((40, 3000), np.uint8))
    words = ["denoise", str(tmp_path / "wide.tif"), "--sigma", "5", "--method", "fast", "--quiet"]
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "3000 × 40 pixels, uint8; the central 1024 × 40 are shown" in page


def test_constant_and_thin_and_odd_images(tmp_path):
    np.save(tmp_path / "huge.npy", np.full((20, 20), 2**64 - 1, np.uint64))
    np.save(tmp_path / "one.npy", np.zeros((1, 1)))
    np.save(tmp_path / "nan.npy", np.where(np.eye(30) > 0, np.nan, 7.0))
    tifffile.imwrite(tmp_path / "thin.tif", np.zeros((4, 900), np.uint8))
    words = ["denoise", str(tmp_path), "--quiet", "--report", str(tmp_path / "r.html")]
    assert main(words) == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.count("<article") == 4
    assert page.count("nothing was removed: before and after are the same") == 4
    assert page.count("estimated gain</dt><dd>none: there was no noise to remove") == 4


# In the browser.


def browser(width, height, dark=False):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--hide-scrollbars", "--force-device-scale-factor=1", f"--window-size={width},{height}",
    ):  # fmt: skip
        options.add_argument(argument)
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


@pytest.fixture(scope="module")
def page(folder):
    """The page on a laptop."""
    with browser(1366, 900) as driver:
        driver.get((folder / "report.html").as_uri())
        yield driver


def keep(name, picture):
    """Keep a screenshot for inspection if NLRIDGE_SCREENSHOTS names a folder."""
    folder = os.environ.get("NLRIDGE_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        picture.save(Path(folder) / f"{name}.png")


def screenshot(driver, element=None):
    shot = element.screenshot_as_png if element is not None else driver.get_screenshot_as_png()
    return Image.open(io.BytesIO(shot)).convert("RGB")


def embedded(driver, which):
    """An image of the first figure, as it is in the page."""
    address = driver.execute_script(
        f"return document.querySelector('.figure {which}').getAttribute('src')"
    )
    picture = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    return np.asarray(picture.convert("RGB")).astype(float)


def stage(driver, number=0):
    driver.execute_script("window.scrollTo(0, 0)")
    return driver.find_elements("css selector", ".figure .stage")[number]


def shown(driver, number=0):
    """What a stage shows, brought to the size of the image."""
    picture = screenshot(driver, stage(driver, number))
    return np.asarray(picture.resize((200, 180), Image.Resampling.BOX)).astype(float)


def set_split(driver, value):
    driver.execute_script(
        "const s = document.querySelector('.split'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input'))",
        value,
    )


INSIDE = np.s_[40:-8, 30:-30]  # without tags and the divider at the sides


@needs_browser
def test_the_page_opens_without_errors(page):
    assert page.title == "nlridge: 2 images"
    assert page.get_log("browser") == []
    keep("laptop", screenshot(page))


@needs_browser
def test_the_slider_shows_before_on_the_left_and_after_on_the_right(page):
    before, after = embedded(page, ".layer"), embedded(page, ".after")
    assert np.abs(before - after).mean() > 5
    for value, expected in ((100, before), (0, after)):
        set_split(page, value)
        assert np.abs(shown(page) - expected)[INSIDE].mean() < 4
    set_split(page, 50)
    seen = shown(page)
    assert np.abs(seen - before)[40:-8, 10:80].mean() < 4
    assert np.abs(seen - after)[40:-8, 120:-10].mean() < 4
    assert np.abs(seen - after)[40:-8, 10:80].mean() > 5
    assert np.abs(shown(page, 1) - embedded(page, "figure + figure .layer"))[INSIDE].mean() < 6


@needs_browser
def test_the_slider_can_be_dragged(page):
    from selenium.webdriver.common.action_chains import ActionChains

    set_split(page, 50)
    element = stage(page)
    ActionChains(page).move_to_element(element).click_and_hold().move_by_offset(
        100, 0
    ).release().perform()
    value = float(page.execute_script("return document.querySelector('.split').value"))
    assert value == pytest.approx(50 + 100 * 100 / element.size["width"], abs=1.5)
    before = embedded(page, ".layer")
    assert np.abs(shown(page) - before)[40:-8, 10:110].mean() < 4
    keep("dragged", screenshot(page))


@needs_browser
def test_the_slider_and_the_zoom_work_by_keyboard(page):
    from selenium.webdriver.common.keys import Keys

    set_split(page, 50)
    page.find_element("css selector", ".split").send_keys(Keys.ARROW_RIGHT * 10)
    assert float(page.execute_script("return document.querySelector('.split').value")) == 55
    transforms = "return [...document.querySelectorAll('.figure')].map(f => [...f.querySelectorAll('.layer')].map(l => l.style.transform))"
    whole = page.execute_script(transforms)
    stage(page).send_keys("+++")
    stage(page).send_keys(Keys.ARROW_RIGHT * 3)
    zoomed = page.execute_script(transforms)
    assert zoomed[0][0] != whole[0][0]
    assert len(set(zoomed[0])) == 1  # before, after and removed stay in step
    assert zoomed[1] == whole[1]  # the other figure is left alone
    keep("zoomed", screenshot(page))
    stage(page, 1).send_keys("0")
    assert page.execute_script(transforms) == whole


@needs_browser
def test_zoom_shows_the_same_part_of_both(page):
    set_split(page, 0)
    for button in page.find_elements("css selector", ".figure:first-of-type .zoom button")[1:2] * 3:
        button.click()
    scale = float(page.execute_script("return document.querySelector('.layer').style.transform.match(/scale\\(([^)]*)/)[1]"))  # fmt: skip
    x, y = page.execute_script("return document.querySelector('.layer').style.transform.match(/translate\\((.*)px, (.*)px/).slice(1)")  # fmt: skip
    element = stage(page)
    left, top = -float(x), -float(y)
    width, height = element.size["width"] / scale, element.size["height"] / scale
    after = embedded(page, ".after")
    box = (left, top, left + width, top + height)
    expected = Image.fromarray(after.astype(np.uint8)).resize(
        (200, 180), Image.Resampling.BOX, box=box
    )
    assert np.abs(shown(page) - np.asarray(expected).astype(float))[INSIDE].mean() < 6
    page.find_elements("css selector", ".figure:first-of-type .zoom button")[3].click()


@needs_browser
def test_on_a_phone_in_dark_mode(folder):
    with browser(500, 900, dark=True) as driver:
        driver.get((folder / "report.html").as_uri())
        assert driver.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches")
        wide = driver.execute_script(
            "return document.documentElement.scrollWidth - window.innerWidth"
        )
        assert wide <= 0  # nothing sticks out
        tops = driver.execute_script(
            "return [...document.querySelectorAll('.figure:first-of-type .stage')].map(s => s.getBoundingClientRect().top)"
        )
        assert tops[1] > tops[0] + 100  # one below the other
        picture = screenshot(driver)
        assert np.asarray(picture)[2, 2].max() < 40
        keep("telephone", picture)


# Its safety and its size.


def test_nothing_but_its_own_script_and_style_is_allowed(folder):
    page = (folder / "report.html").read_text("utf-8")
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    script, style = (page.split(f"<{tag}>")[1].split(f"</{tag}>")[0] for tag in ("script", "style"))
    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (style, script)
    ]
    assert policy.split("; ") == [
        "default-src 'none'",
        "img-src data:",
        f"style-src {digests[0]}",
        f"script-src {digests[1]}",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_a_large_page_is_small_enough(tmp_path):
    clean = np.kron(data.astronaut()[:440, :440].astype(float), np.ones((2, 2, 1)))
    noisy = np.clip(clean + np.random.default_rng(0).normal(0, 25, clean.shape), 0, 255)
    Image.fromarray(noisy.astype(np.uint8)).save(tmp_path / "a.png")
    words = ["denoise", str(tmp_path / "a.png"), "--sigma", "25", "--method", "fast", "--quiet"]
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").stat().st_size < 4e6  # 9 MB if all of it were kept
    page = (tmp_path / "r.html").read_text("utf-8")
    before, after, removed = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(part.split('"')[0])))).astype(float)
        for part in page.split("base64,")[1:4]
    )
    middle = np.s_[22:858, 22:858]
    written = np.asarray(Image.open(tmp_path / "a_denoised.png"))[middle]
    noisy = noisy.astype(np.uint8)[middle]
    np.testing.assert_array_equal(after, written)  # the result is shown as it is
    assert np.std(before - noisy) < 25 / 8  # and the rest as well as its noise deserves
    truth = noisy - written.astype(float)
    level = np.std(truth)
    error = (removed - 127.5) * 8 * level / 255 - truth
    assert np.median(np.abs(error)) < level / 4


def test_the_page_is_written_file_by_file(tmp_path, monkeypatch):
    """The part about a file is on the disk before the next file is read."""
    for k in range(3):
        np.save(tmp_path / f"{k}.npy", np.random.default_rng(k).normal(0, 9, (64, 64)))
    sizes = []

    def watched(*arguments, **options):
        parts = list((tmp_path / "page").glob(".*.part"))
        sizes.append(parts[0].stat().st_size if parts else 0)
        return clean_file(*arguments, **options)

    monkeypatch.setattr("nlridge.cli.denoising.clean_file", watched)
    words = ["denoise", str(tmp_path), "--sigma", "9", "--method", "fast", "--quiet"]
    assert main([*words, "--report", str(tmp_path / "page" / "r.html")]) == 0
    assert sizes[0] == 0
    assert 5000 < sizes[1] < sizes[2]
    assert [file.name for file in (tmp_path / "page").iterdir()] == ["r.html"]


def test_the_page_is_whole_after_an_interruption(tmp_path, monkeypatch):
    for k in range(3):
        np.save(tmp_path / f"{k}.npy", np.random.default_rng(k).normal(0, 9, (64, 64)))

    def interrupted(source, *arguments, **options):
        if source.name == "2.npy":
            raise KeyboardInterrupt
        return clean_file(source, *arguments, **options)

    monkeypatch.setattr("nlridge.cli.denoising.clean_file", interrupted)
    words = ["denoise", str(tmp_path), "--sigma", "9", "--method", "fast", "--quiet"]
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 130
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.count("<article") == 2
    assert page.endswith("</html>\n")


# The command that repeats a run.


@pytest.mark.skipif(os.name == "nt", reason="Windows has another shell, and other names")
@pytest.mark.parametrize(
    ("name", "output"),
    [("-a.npy", None), ("--sigma.npy", "-out"), ("it's\n\x1b[1m \udcff.npy", None), ("a b$HOME.npy", "-out")],
)  # fmt: skip
def test_the_command_in_the_page_repeats_the_run(tmp_path, monkeypatch, name, output):
    monkeypatch.chdir(tmp_path)
    np.save(Path(name), np.random.default_rng(0).normal(0, 9, (48, 48)))
    where = [] if output is None else [f"--output={output}"]
    words = ["denoise", "--method", "fast", "--sigma", "9", "--quiet", "--report", "r.html"]
    assert main([*words, *where, "--", name]) == 0
    page = Path("r.html").read_text("utf-8")
    command = html.unescape(page.split("<code>")[1].split("</code>")[0])
    (result,) = (file for file in tmp_path.rglob("*.npy") if file != tmp_path / name)
    before = result.read_bytes()
    result.unlink()
    program = f'nlridge() {{ "{sys.executable}" -m nlridge "$@"; }}; {command}'
    done = subprocess.run(["bash", "-c", program], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert result.read_bytes() == before


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


@needs_browser
def test_foreign_scripts_and_styles_do_nothing(folder, tmp_path):
    """As if markup had got into the page by a name."""
    page = (folder / "report.html").read_text("utf-8")
    evil = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\"><style>body { display: none }</style>"
    (tmp_path / "evil.html").write_text(page.replace("<h2>", f"<h2>{evil}", 1), "utf-8")
    with browser(800, 600) as driver:
        driver.get((tmp_path / "evil.html").as_uri())
        assert driver.title == "nlridge: 2 images"
        assert driver.find_element("css selector", "h1").is_displayed()
        assert len(driver.get_log("browser")) >= 3  # each is refused


# Clips.

CLIP_OPTIONS = Namespace(
    sigma=20.0, noise=None, method="fast", strength=1.0, colour=1.0, format=None, channel_axis=None, stack_axis=None, workers=1,
    frames="auto", codec=None, quality=None,
)  # fmt: skip
FACTS = {"noise": "Gaussian noise with a standard deviation of 20 (given)", "time": "1.00 s"}


def clip_of(count, height=120, width=160, known=True):
    """A sample of a clip in colour: frame k is of brightness 40 + 4 k, and half as bright in the right half."""
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

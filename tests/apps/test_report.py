"""The report page of single images, also in a real browser: what it says and shows, its safety and its size."""

import base64
import hashlib
import html
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
from browsers import INSIDE, browser, keep, needs_browser, screenshot, set_split, shown, stage
from PIL import Image
from skimage import data

import nlridge
from nlridge.api import quality
from nlridge.apps.cli import main
from nlridge.apps.jobs.pictures import clean_file
from nlridge.apps.pages import report


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
    Image.fromarray(noisy).save(folder / "color <&>.png")
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


@pytest.mark.slow
def test_the_page_stands_alone_and_says_what_was_done(folder):
    page = (folder / "report.html").read_text("utf-8")
    assert "http://" not in page
    assert "https://" not in page
    assert "color &lt;&amp;&gt;.png" in page
    assert "color <&>.png" not in page
    for words in ("Gaussian noise with a standard deviation of", "(estimated)", "standard, strength 1", "dB", "nlridge denoise", "200 × 160 pixels, uint16"):  # fmt: skip
        assert words in page


def test_the_gain_agrees_with_the_truth(folder):
    page = (folder / "report.html").read_text("utf-8")
    said, _, error = page.split("<dt>estimated gain</dt><dd>")[1].split()[:3]
    clean = _truth()
    before, after = (
        np.asarray(Image.open(folder / name)).astype(float)
        for name in ("color <&>.png", "out/color <&>.png")
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


@pytest.fixture(scope="module")
def page(folder):
    """The page on a laptop."""
    with browser(1366, 900) as driver:
        driver.get((folder / "report.html").as_uri())
        yield driver


@needs_browser
def test_the_page_opens_without_errors(page):
    assert page.title == "nlridge: 2 images"
    assert page.get_log("browser") == []
    keep("laptop", screenshot(page))


def embedded(driver, which):
    """An image of the first figure, as it is in the page."""
    address = driver.execute_script(
        f"return document.querySelector('.figure {which}').getAttribute('src')"
    )
    picture = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    return np.asarray(picture.convert("RGB")).astype(float)


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


@pytest.mark.slow
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

    monkeypatch.setattr("nlridge.apps.cli.denoising.clean_file", watched)
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

    monkeypatch.setattr("nlridge.apps.cli.denoising.clean_file", interrupted)
    words = ["denoise", str(tmp_path), "--sigma", "9", "--method", "fast", "--quiet"]
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 130
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.count("<article") == 2
    assert page.endswith("</html>\n")


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


# The command that repeats a run.


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_gain_of_a_large_image_is_that_of_its_middle(tmp_path, monkeypatch):
    """It was estimated from the whole image, which doubled the time."""
    y, x = np.mgrid[:320, :400]
    clean = 120 + 50 * np.sin(x / 21) * np.cos(y / 17)
    noisy = clean + np.random.default_rng(0).normal(0, 15, clean.shape)
    details = nlridge.denoise_with_details(noisy, 15, method="fast")
    options = {"channel_axis": None, "strength": 1.0, "color": 1.0, "workers": 1}
    whole = nlridge.estimate_quality(noisy, 15, method="fast")
    sizes = []
    denoise_frame = quality.denoise_frame

    def counted(frame, *arguments):
        sizes.append(frame.pixels.size)
        return denoise_frame(frame, *arguments)

    monkeypatch.setattr(quality, "denoise_frame", counted)
    middle, is_middle = report.quality_of_middle(noisy, details, **options)
    assert is_middle
    assert sizes == [192 * 192]  # the probe
    assert middle.gain == pytest.approx(whole.gain, abs=4 * middle.standard_error)
    file = tmp_path / "a.npy"
    np.save(file, noisy.astype(np.float32))
    words = [
        "denoise",
        str(file),
        "--sigma",
        "15",
        "--method",
        "fast",
        "--report",
        str(tmp_path / "r.html"),
    ]
    assert main(words) == 0
    assert " dB, in the middle of the image" in (tmp_path / "r.html").read_text("utf-8")


def test_the_time_that_is_printed_includes_the_report(tmp_path, monkeypatch, capsys):
    slow = report.entry

    def entry(*arguments):
        time.sleep(0.7)
        return slow(*arguments)

    monkeypatch.setattr(report, "entry", entry)
    file = tmp_path / "a.npy"
    np.save(file, np.random.default_rng(0).normal(100, 9, (32, 32)).astype(np.float32))
    words = ["denoise", str(file), "--sigma", "9", "--report", str(tmp_path / "r.html"), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] > 0.7

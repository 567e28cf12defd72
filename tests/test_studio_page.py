"""The page of the studio in a real browser: Chromium, as Debian packages it."""

import base64
import io
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
import tifffile
from browsers import browser, keep, needs_browser, screenshot
from PIL import Image
from skimage import data
from studio_client import serving

from nlridge.cli import main

pytestmark = needs_browser

NAME = "photo &lt;b&gt; & 1.png"


def _noisy(seed, *shape):
    """A part of a photograph with noise."""
    clean = data.camera()[60 : 60 + shape[0], 140 : 140 + shape[1]].astype(float)
    return clean + np.random.default_rng(seed).normal(0, 20, shape)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Images to open: in colour, of 16 bits, a stack, and no image at all."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    clean = 40 + 0.6 * data.astronaut()[20:108, 160:280].astype(float)
    noisy = np.clip(clean + rng.normal(0, 20, clean.shape), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(folder / NAME)
    tifffile.imwrite(folder / "deep.tif", np.clip(_noisy(1, 96, 120) * 50 + 500, 0, 65535).astype(np.uint16))  # fmt: skip
    frames = np.stack([[_noisy(k, 64, 80) * 20, _noisy(k, 64, 80) * 10] for k in range(4)])
    metadata = {"axes": "TCYX", "Channel": {"Name": ["DAPI", "<i>GFP</i>"]}}
    tifffile.imwrite(folder / "cells.ome.tif", frames.clip(0).astype(np.uint16), metadata=metadata)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
    return folder


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("work")) as running:
        yield running


@pytest.fixture(scope="module")
def page(studio, tmp_path_factory):
    """The page on a laptop. Tests follow each other as a person would."""
    with browser(1366, 1000) as driver:
        driver.downloads = tmp_path_factory.mktemp("downloads")
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(driver.downloads)})  # fmt: skip
        driver.get(studio.address)
        yield driver


def until(driver, condition, seconds=120):
    """Wait until an expression in JavaScript is true, and return its value."""
    end = time.monotonic() + seconds
    while True:
        value = driver.execute_script(f"return {condition}")
        if value or time.monotonic() > end:
            assert value, condition
            return value
        time.sleep(0.02)


def text(driver, name):
    return driver.execute_script("return document.getElementById(arguments[0]).textContent", name)


def set_value(driver, name, value):
    driver.execute_script(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true}))",
        name,
        value,
    )


def choose_view(driver, name):
    driver.execute_script(f"document.querySelector('[name=view][value={name}]').click()")


def open_files(driver, *paths):
    """Choose files, and wait for the first of them."""
    count = driver.execute_script("return document.querySelectorAll('#images .item').length")
    driver.find_element("id", "files").send_keys("\n".join(map(str, paths)))
    until(driver, f"document.querySelectorAll('#images .item').length === {count + len(paths)}")
    finished(driver)


def show(driver, name):
    """Show an open image."""
    driver.execute_script(
        "[...document.querySelectorAll('#images .item')].find(item => item.title === arguments[0]).click()", name
    )  # fmt: skip
    until(driver, "document.querySelector('#images [aria-current]') !== null")
    finished(driver)


def finished(driver, canvas="right"):
    """Wait until the pixels are those that will be saved."""
    until(driver, "document.getElementById('status').textContent.startsWith('Done')")
    if canvas:
        until(driver, f"document.getElementById('{canvas}').dataset.state === 'exact'")


def painted(driver, canvas):
    """The pixels of a canvas."""
    script = "return document.getElementById(arguments[0]).toDataURL('image/png')"
    address = driver.execute_script(script, canvas)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB"))  # fmt: skip


def image_on(driver, canvas, height, width):
    """The pixels of the image on a canvas, at its actual size, where all of it is visible."""
    driver.find_element("css selector", "[data-zoom=one]").click()
    finished(driver, canvas)
    seen = painted(driver, canvas)
    top, left = ((a - b) / 2 for a, b in zip(seen.shape, (height, width), strict=False))
    top, left = round(top + 1e-9), round(left + 1e-9)
    return seen[top : top + height, left : left + width]


def difference(one, other):
    return float(np.abs(one.astype(float) - other).mean())


def expected(path, **options):
    """The pixels that the command line writes."""
    target = path.with_name(f"expected-{'-'.join(map(str, options.values()))}{path.suffix}")
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    assert main(["denoise", str(path), "-o", str(target), "--quiet", "--overwrite", *words]) == 0
    return target


def quiet(driver):
    """Assert that the browser had nothing to complain about."""
    assert [entry["message"] for entry in driver.get_log("browser")] == []


# A person opens images.


def test_the_empty_page_invites(page):
    until(page, "!document.getElementById('welcome').hidden")
    assert page.title == "nlridge studio"
    assert "Nothing leaves this computer" in page.find_element("css selector", "header").text
    assert not page.find_element("id", "panel").is_displayed()
    keep("studio-empty", screenshot(page))
    quiet(page)


def test_a_dropped_image_is_seen_clean(page, files):
    content = base64.b64encode((files / NAME).read_bytes()).decode()
    page.execute_script(
        "const bytes = Uint8Array.from(atob(arguments[0]), (letter) => letter.charCodeAt(0));"
        "const files = new DataTransfer(); files.items.add(new File([bytes], arguments[1]));"
        "for (const kind of ['dragenter', 'dragover', 'drop'])"
        " document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: files, bubbles: true, cancelable: true}))",
        content,
        NAME,
    )
    until(page, "document.getElementById('name').textContent === arguments[0]".replace("arguments[0]", repr(NAME)))  # fmt: skip
    finished(page)
    keep("studio-image", screenshot(page))
    assert page.title == f"{NAME} · nlridge studio"
    assert text(page, "facts") == "120 × 88 · colour · uint8 · PNG"
    assert "standard deviation of" in text(page, "noise-words")
    assert "rms" in text(page, "removed")
    quiet(page)


def test_the_pixels_on_the_screen_are_those_of_the_command_line(page, files):
    noisy = np.asarray(Image.open(files / NAME))
    clean = np.asarray(Image.open(expected(files / NAME)))
    np.testing.assert_array_equal(image_on(page, "left", 88, 120), noisy)
    np.testing.assert_array_equal(image_on(page, "right", 88, 120), clean)


def test_a_download_is_what_the_command_line_writes(page, files):
    page.find_element("id", "download").click()
    until(page, "document.getElementById('saved').textContent.startsWith('Downloaded')")
    name = text(page, "saved").removeprefix("Downloaded as ").removesuffix(".")
    end = time.monotonic() + 10
    while not list(page.downloads.glob("*.png")) and time.monotonic() < end:
        time.sleep(0.05)
    (saved,) = page.downloads.glob("*.png")
    np.testing.assert_array_equal(np.asarray(Image.open(saved)), np.asarray(Image.open(expected(files / NAME))))  # fmt: skip
    assert name.endswith("_denoised.png")


def test_a_file_that_is_no_image_gets_a_sentence(page, files):
    page.find_element("id", "files").send_keys(str(files / "broken.png"))
    until(page, "!document.getElementById('error').hidden")
    message = page.find_element("id", "error")
    assert message.get_attribute("role") == "alert"
    assert message.text.startswith("broken.png: ")
    assert "the file is damaged" in message.text
    keep("studio-error", screenshot(page))
    page.find_element("css selector", "#error button").click()
    assert not message.is_displayed()
    page.get_log("browser")  # the refusal


# Looks at it.


def test_the_slider_moves(page):
    from selenium.webdriver.common.action_chains import ActionChains

    page.find_element("css selector", "[data-zoom=fit]").click()
    stage = page.find_element("css selector", ".stage")
    ActionChains(page).move_to_element(stage).click_and_hold().move_by_offset(120, 0).release().perform()  # fmt: skip
    value = float(page.execute_script("return document.querySelector('.split').value"))
    width = stage.size["width"]
    assert value == pytest.approx(50 + 100 * 120 / width, abs=1)
    seen = np.asarray(screenshot(page, stage)).astype(float)
    before, after = painted(page, "left"), painted(page, "right")
    edge = round(width * value / 100)
    middle = seen.shape[0] // 2
    rows = np.s_[middle - 150 : middle - 20]  # above the handle
    left, right = (rows, np.s_[20 : edge - 30]), (rows, np.s_[edge + 30 : -20])
    assert difference(seen[left], before[left]) < 0.5 < difference(seen[left], after[left])
    assert difference(seen[right], after[right]) < 0.5 < difference(seen[right], before[right])
    page.execute_script("const s = document.querySelector('.split'); s.value = 50; s.dispatchEvent(new Event('input'))")  # fmt: skip


def test_wheel_keys_buttons_and_double_click_zoom(page):
    from selenium.webdriver.common.action_chains import ActionChains

    def zoom():
        shown = page.execute_script("return document.querySelector('.zoom output').textContent")
        return int(shown.removesuffix(" %"))

    stage = page.find_element("css selector", ".stage")
    fit = zoom()
    ActionChains(page).scroll_from_origin(_at(stage, 100, 50), 0, -200).perform()
    assert zoom() == pytest.approx(fit * np.exp(200 / 300), rel=0.02)
    stage.send_keys("0")
    assert zoom() == fit
    stage.send_keys("1")
    assert zoom() == 100
    stage.send_keys("0++")
    assert zoom() == pytest.approx(fit * 2.25, rel=0.02)
    ActionChains(page).double_click(stage).perform()
    assert zoom() == fit
    ActionChains(page).double_click(stage).perform()
    assert zoom() == pytest.approx(max(200, 2 * fit), rel=0.02)
    for _ in range(12):
        page.find_element("css selector", "[data-zoom=in]").click()
    assert zoom() == 3200
    finished(page)
    keep("studio-pixels", screenshot(page))
    colours = painted(page, "left")[:, 40:-40].reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) < 1200  # squares of one colour each
    page.find_element("css selector", "[data-zoom=fit]").click()
    assert zoom() == fit


def _at(element, x, y):
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    return ScrollOrigin.from_element(element, x, y)


def test_side_by_side_removed_and_two_methods(page, files):
    noisy, clean = (np.asarray(Image.open(path)) for path in (files / NAME, expected(files / NAME)))
    choose_view(page, "side")
    finished(page, "second")
    keep("studio-side", screenshot(page))
    np.testing.assert_array_equal(image_on(page, "left", 88, 120), noisy)
    np.testing.assert_array_equal(image_on(page, "second", 88, 120), clean)
    choose_view(page, "removed")
    finished(page, "left")
    keep("studio-removed", screenshot(page))
    removed = image_on(page, "left", 88, 120).astype(float)
    assert removed.mean() == pytest.approx(128, abs=4)
    assert np.corrcoef(removed.ravel(), (noisy.astype(float) - clean).ravel())[0, 1] > 0.97
    choose_view(page, "side")
    set_value(page, "other", "fast")
    until(page, "document.getElementById('left-tag').textContent === 'fast'")
    finished(page, "left")
    finished(page, "second")
    keep("studio-methods", screenshot(page))
    fast = np.asarray(Image.open(expected(files / NAME, method="fast")))
    np.testing.assert_array_equal(image_on(page, "left", 88, 120), fast)
    np.testing.assert_array_equal(image_on(page, "second", 88, 120), clean)
    set_value(page, "other", "")
    choose_view(page, "slider")
    finished(page)
    quiet(page)


def test_while_a_key_is_held_the_original_is_shown(page):
    press = (
        "document.body.dispatchEvent(new KeyboardEvent(arguments[0], {key: 'b', bubbles: true}))"
    )
    page.execute_script(press, "keydown")
    assert not page.find_element("id", "right").is_displayed()
    assert text(page, "left-tag") == "before"
    page.execute_script(press, "keyup")
    assert page.find_element("id", "right").is_displayed()


# Adjusts it.


def test_fifty_quick_changes_leave_one_result_the_last(page, studio, files):
    page.execute_async_script(
        "const done = arguments[0], s = document.getElementById('strength');"
        "let k = 0; (function next() {"
        " s.value = 0.1 + 0.05 * k; s.dispatchEvent(new Event('input'));"
        " k += 1; if (k < 50) setTimeout(next, 4); else done(); })()"
    )
    assert text(page, "strength-value") == "× 2.55"
    until(page, "document.getElementById('right').dataset.state === 'exact' && document.getElementById('status').textContent.startsWith('Done')")  # fmt: skip
    clean = np.asarray(Image.open(expected(files / NAME, strength=2.55)))
    np.testing.assert_array_equal(image_on(page, "right", 88, 120), clean)
    (image,) = studio.studio.gallery
    assert image.wanted.settings.strength == 2.55
    page.find_element("id", "reset").click()
    assert text(page, "strength-value") == "× 1.00"
    finished(page)
    page.find_element("css selector", "[data-zoom=fit]").click()
    quiet(page)


def test_the_method_can_be_chosen(page, files):
    page.execute_script("document.querySelector('[name=method][value=bm3d]').click()")
    finished(page)
    clean = np.asarray(Image.open(expected(files / NAME, method="bm3d")))
    np.testing.assert_array_equal(image_on(page, "right", 88, 120), clean)
    assert text(page, "method-words")
    page.find_element("id", "reset").click()
    finished(page)


def test_the_noise_can_be_given_or_sampled(page, files):
    from selenium.webdriver.common.action_chains import ActionChains

    set_value(page, "noise-kind", "level")
    assert page.find_element("id", "level").is_displayed()
    set_value(page, "level", "33")
    until(page, "document.getElementById('noise-words').textContent.includes('33')")
    finished(page)
    clean = np.asarray(Image.open(expected(files / NAME, sigma=33)))
    np.testing.assert_array_equal(image_on(page, "right", 88, 120), clean)
    set_value(page, "noise-kind", "rectangle")
    sampler = page.find_element("id", "sampler")
    assert sampler.is_displayed()
    ActionChains(page).move_to_element_with_offset(sampler, -40, -30).click_and_hold().move_by_offset(50, 40).release().perform()  # fmt: skip
    assert not sampler.is_displayed()
    until(page, "!document.getElementById('noise-words').textContent.includes('33')")
    finished(page)
    assert page.find_element("id", "sample").is_displayed()
    keep("studio-sampled", screenshot(page))
    box = page.find_element("id", "sample").rect
    assert (box["width"], box["height"]) == pytest.approx((50, 40), abs=2)
    page.find_element("id", "reset").click()
    finished(page)
    assert not page.find_element("id", "sample").is_displayed()
    quiet(page)


def test_the_command_and_the_lines_that_do_the_same(page):
    def click(selector):  # what is below a result that comes and goes is moved by it
        page.execute_script("document.querySelector(arguments[0]).click()", selector)

    set_value(page, "strength", 1.5)
    click("#commands summary")
    until(page, "document.getElementById('shell').textContent.includes('--strength 1.5')")
    assert "strength=1.5" in text(page, "python")
    assert "nlridge denoise" in text(page, "shell")
    click("#copy-shell")
    until(page, "['Copied', 'Selected: press Ctrl+C'].includes(document.getElementById('copy-shell').textContent)")  # fmt: skip
    click("#commands summary")
    page.find_element("id", "reset").click()
    finished(page)


# Deep images and stacks.


def test_the_display_range_of_a_deep_image(page, files):
    open_files(page, files / "deep.tif")
    assert page.find_element("id", "range").is_displayed()
    finished(page)
    middle = image_on(page, "right", 96, 120).mean()
    set_value(page, "high-value", "30000")
    finished(page)
    assert image_on(page, "right", 96, 120).mean() < 0.7 * middle
    set_value(page, "low", "3000")
    finished(page)
    clean = tifffile.imread(expected(files / "deep.tif")).astype(float)
    shown = np.clip(np.rint((clean - 3000) * 255 / 27000), 0, 255)
    assert np.abs(image_on(page, "right", 96, 120)[..., 0] - shown).max() <= 1
    keep("studio-deep", screenshot(page))
    page.find_element("id", "auto").click()
    finished(page)
    assert image_on(page, "right", 96, 120).mean() == pytest.approx(middle, abs=0.01)
    assert not page.find_element("id", "colour").is_displayed()
    quiet(page)


def test_frames_and_channels_can_be_chosen(page, files):
    open_files(page, files / "cells.ome.tif")
    names = page.execute_script("return [...document.getElementById('channel').options].map(o => o.textContent)")  # fmt: skip
    assert names == ["DAPI", "<i>GFP</i>"]
    noisy = tifffile.imread(files / "cells.ome.tif").astype(float)
    low, high = (float(page.execute_script(f"return document.getElementById('{name}').value")) for name in ("low", "high"))  # fmt: skip
    for frame, channel in ((0, 0), (3, 0), (3, 1)):
        set_value(page, "frame", str(frame))
        set_value(page, "channel", str(channel))
        finished(page)
        shown = np.clip(np.rint((noisy[frame, channel] - low) * 255 / (high - low)), 0, 255)
        assert np.abs(image_on(page, "left", 64, 80)[..., 0] - shown).max() <= 1
    assert text(page, "frame-name") == "4 of 4"
    keep("studio-stack", screenshot(page))
    quiet(page)


def test_open_images_are_listed_and_can_be_closed(page):
    names = page.execute_script("return [...document.querySelectorAll('#images .item')].map(item => item.title)")  # fmt: skip
    assert names == [NAME, "deep.tif", "cells.ome.tif"]
    page.find_element("css selector", "#images [aria-label='Close cells.ome.tif']").click()
    until(page, "document.querySelectorAll('#images .item').length === 2")
    assert text(page, "name") == "deep.tif"
    show(page, NAME)
    assert text(page, "name") == NAME
    quiet(page)


# For everybody.


def test_every_control_has_a_name(page):
    page.execute_cdp_cmd("Accessibility.enable", {})
    nodes = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = ("button", "slider", "combobox", "radio", "spinbutton", "progressbar", "checkbox", "radiogroup", "link")  # fmt: skip
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in controls
    ]
    page.execute_cdp_cmd("Accessibility.disable", {})
    assert len(found) > 20
    assert [role for role, name in found if not name.strip()] == []
    assert ("slider", "Divider between before and after") in found
    assert ("slider", "Strength") in found


def test_everything_can_be_done_by_keys(page):
    from selenium.webdriver.common.keys import Keys

    page.execute_script("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")  # fmt: skip
    reached = {}
    for _ in range(60):
        page.switch_to.active_element.send_keys(Keys.TAB)
        number, name, outlined = page.execute_script(
            "const e = document.activeElement, shown = e.type === 'radio' ? e.nextElementSibling : e;"
            "return [[...document.querySelectorAll('*')].indexOf(e), e.id || e.className || e.name || e.dataset.zoom || '',"
            " getComputedStyle(shown).outlineStyle !== 'none' || e.classList.contains('split')]"
        )
        if number in reached:
            break
        reached[number] = name
        assert outlined or not name, name  # the focus is visible
    names = {name.split()[0] for name in reached.values() if name}
    assert names >= {"open", "item", "close", "view", "other", "split", "stage", "noise-kind", "method", "strength", "download"}  # fmt: skip
    page.find_element("css selector", "[name=view]:checked").send_keys(Keys.ARROW_RIGHT)
    assert page.find_element("id", "second-figure").is_displayed()
    page.find_element("css selector", "[name=view]:checked").send_keys(Keys.ARROW_LEFT)
    page.find_element("css selector", ".split").send_keys(Keys.ARROW_RIGHT * 4)
    assert float(page.execute_script("return document.querySelector('.split').value")) == 52
    page.find_element("id", "strength").send_keys(Keys.ARROW_RIGHT)
    assert text(page, "strength-value") == "× 1.05"
    set_value(page, "noise-kind", "rectangle")
    sampler = page.switch_to.active_element
    assert sampler.get_attribute("id") == "sampler"
    sampler.send_keys(Keys.ARROW_LEFT * 2 + Keys.SHIFT + Keys.ARROW_DOWN)
    sampler.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "noise-kind"
    finished(page)
    assert page.find_element("id", "sample").is_displayed()
    page.find_element("id", "reset").click()
    finished(page)


CONTRAST = """
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
function behind(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = parts(getComputedStyle(e).backgroundColor);
    if (colour.length < 4 || colour[3] > 0.5) return colour;
  }
  return [255, 255, 255];
}
return [...document.querySelectorAll("h1, h1 span, h2, h3, p, label, button, select, output, dd, dt, summary, .segments span, .item span")]
  .filter((e) => e.checkVisibility() && e.textContent.trim() && !e.disabled && !e.closest("#dropping, #sampler"))
  .map((e) => {
    const [one, other] = [parts(getComputedStyle(e).color), behind(e)].map(luminance).sort((a, b) => b - a);
    return [(one + 0.05) / (other + 0.05), `${e.tagName} ${e.id} ${e.textContent.slice(0, 20)}`];
  }).sort(([a], [b]) => a - b)[0];
"""


@contextmanager
def media(driver, **features):
    """What the person prefers, such as dark colours."""
    wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_by_day_and_by_night_the_words_can_be_read(page):
    ratio, where = page.execute_script(CONTRAST)
    assert ratio > 4.5, where
    with media(page, prefers_color_scheme="dark", prefers_reduced_motion="reduce"):
        time.sleep(0.3)  # colours change slowly
        ratio, where = page.execute_script(CONTRAST)
        assert ratio > 4.5, where
        assert np.asarray(screenshot(page))[2, 2].max() < 60
        keep("studio-dark", screenshot(page))
        assert page.execute_script("return getComputedStyle(document.body).transitionDuration") == "0s"  # fmt: skip


@contextmanager
def telephone(driver):
    """The same page on a telephone."""
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 5})  # fmt: skip
    try:
        yield driver
    finally:
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def touch(driver, kind, *points):
    fingers = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]
    driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})


def test_on_a_telephone_by_touch(page):
    with telephone(page) as driver:
        driver.refresh()
        until(driver, "!document.getElementById('easel').hidden")
        finished(driver)
        assert driver.execute_script("return innerWidth") == 390
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        keep("studio-telephone", screenshot(driver))
        box = driver.execute_script("return document.querySelector('.stage').getBoundingClientRect().toJSON()")  # fmt: skip
        assert box["height"] > 250
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        touch(driver, "touchStart", (x, y))
        touch(driver, "touchMove", (x - 90, y))
        touch(driver, "touchEnd")
        share = float(driver.execute_script("return document.querySelector('.split').value"))
        assert share == pytest.approx(50 - 100 * 90 / box["width"], abs=1.5)
        zoom = "Number(document.querySelector('.zoom output').textContent.split(' ')[0])"
        before = driver.execute_script(f"return {zoom}")
        touch(driver, "touchStart", (x - 40, y), (x + 40, y))
        touch(driver, "touchMove", (x - 80, y), (x + 80, y))
        touch(driver, "touchEnd")
        assert driver.execute_script(f"return {zoom}") == pytest.approx(2 * before, rel=0.05)
        choose_view(driver, "side")
        finished(driver, "second")
        keep("studio-telephone-side", screenshot(driver))
        tops = driver.execute_script("return [...document.querySelectorAll('.stage')].map(s => s.getBoundingClientRect().top)")  # fmt: skip
        assert tops[1] > tops[0] + 100  # one below the other
        driver.execute_script("document.getElementById('strength').scrollIntoView({block: 'end'})")
        assert driver.find_element("css selector", ".stage").is_displayed()
        stage = driver.execute_script("return document.querySelector('.stage').getBoundingClientRect().bottom")  # fmt: skip
        assert stage > 100  # the picture stays in sight
        keep("studio-telephone-settings", screenshot(driver))
        choose_view(driver, "slider")


# A folder.


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "scans & <more>"
    folder.mkdir()
    for k in range(5):
        image = np.clip(_noisy(k, 64, 80), 0, 255).astype(np.uint8)
        Image.fromarray(image).save(folder / f"scan {k}.png")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
    return folder


def states(driver):
    return driver.execute_script("return Object.fromEntries([...document.querySelectorAll('#folder-files li')].map(li => [li.querySelector('span').textContent, li.dataset.state]))")  # fmt: skip


def test_a_folder_is_denoised_with_the_settings_of_one_of_its_images(page, folder, tmp_path):
    (tmp_path / "work").mkdir()
    driver = page
    with serving(tmp_path / "work", folder) as running:
        driver.get(running.address)
        until(driver, "document.querySelectorAll('#folder-files li').length === 6")
        assert text(driver, "folder-name") == "scans & <more>"
        driver.execute_script("[...document.querySelectorAll('#folder-files .item')].find(item => item.textContent.startsWith('scan 0')).click()")  # fmt: skip
        until(driver, "document.getElementById('name').textContent === 'scan 0.png'")
        finished(driver)
        driver.execute_script("document.querySelector('[name=method][value=fast]').click()")
        finished(driver)
        keep("studio-folder", screenshot(driver))

        # Saved beside the original, and never over another file unless that is meant.
        target = folder / "scan 0_denoised.png"
        driver.find_element("id", "save").click()
        until(driver, "document.getElementById('saved').textContent.startsWith('Saved')")
        fast = np.asarray(Image.open(expected(folder / "scan 0.png", method="fast")))
        (folder / "expected-fast.png").unlink()
        np.testing.assert_array_equal(np.asarray(Image.open(target)), fast)
        target.write_bytes(b"mine")
        driver.find_element("id", "save").click()
        until(driver, "document.getElementById('replace').open")
        assert "scan 0_denoised.png" in text(driver, "replace-words")
        keep("studio-replace", screenshot(driver))
        driver.switch_to.active_element.click()  # keep it
        until(driver, "!document.getElementById('replace').open")
        assert target.read_bytes() == b"mine"
        driver.find_element("id", "save").click()
        until(driver, "document.getElementById('replace').open")
        driver.find_element("css selector", "#replace [value=yes]").click()
        until(driver, "document.getElementById('saved').textContent.startsWith('Saved')")
        np.testing.assert_array_equal(np.asarray(Image.open(target)), fast)

        # The rest: stopped, and resumed.
        driver.find_element("id", "run").click()
        until(driver, "!document.getElementById('stop').hidden || document.querySelector('#folder-files li[data-state=done]')")  # fmt: skip
        driver.execute_script("document.getElementById('stop').click()")  # it may just have ended
        until(driver, "document.getElementById('stop').hidden")
        stopped = states(driver)
        if "waiting" in stopped.values():  # it was quick enough
            driver.find_element("id", "run").click()
        until(driver, "[...document.querySelectorAll('#folder-files li')].every(li => !['waiting', 'running'].includes(li.dataset.state)) && document.getElementById('stop').hidden")  # fmt: skip
        over = states(driver)
        assert over["broken.png"] == "failed"
        assert {over[f"scan {k}.png"] for k in range(5)} <= {"done", "skipped"}
        keep("studio-folder-done", screenshot(driver))
        assert "1 failed" in text(driver, "folder-words")
        for k in range(1, 5):
            fast = np.asarray(Image.open(expected(folder / f"scan {k}.png", method="fast")))
            (folder / "expected-fast.png").unlink()
            np.testing.assert_array_equal(np.asarray(Image.open(folder / f"scan {k}_denoised.png")), fast)  # fmt: skip


# When the server goes.


def test_when_the_server_is_killed_the_page_says_so(page):
    command = [sys.executable, "-m", "nlridge", "studio", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        page.get(address)
        until(page, "document.querySelectorAll('#methods label').length > 3")
        message = page.find_element("id", "gone")
        assert not message.is_displayed()
        server.kill()
        server.wait()
        until(page, "!document.getElementById('gone').hidden", 15)
        assert message.get_attribute("role") == "alert"
        assert "has stopped or cannot be reached" in message.text
        keep("studio-gone", screenshot(page))
        server.stdout.close()
        port = address.split(":")[2].split("/")[0]
        server = subprocess.Popen([*command, "--port", port], stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline()
        until(page, "document.getElementById('gone').textContent.includes('started anew')", 20)  # fmt: skip
    finally:
        server.kill()
        server.wait()
        server.stdout.close()

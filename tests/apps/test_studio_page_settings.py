"""The page of the studio in a real browser: a person changes the settings, and opens deep images and stacks."""

import numpy as np
import pytest
import tifffile
from browsers import keep, needs_browser, screenshot
from PIL import Image
from studio_page import (
    NAME,
    expected,
    finished,
    image_on,
    open_files,
    quiet,
    set_value,
    show,
    shown,
    text,
    until,
)

pytestmark = needs_browser


@pytest.fixture
def page(laptop, files, tmp_path):
    """The page with a photograph."""
    with shown(laptop, tmp_path) as page:
        open_files(page, files / NAME)
        yield page


def test_fifty_quick_changes_leave_one_result_the_last(page, files):
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
    (image,) = page.studio.studio.gallery
    assert image.wanted.settings.arguments["strength"] == 2.55
    page.find_element("id", "reset").click()
    assert text(page, "strength-value") == "× 1.00"
    finished(page)
    page.find_element("css selector", "[data-zoom=fit]").click()
    quiet(page)


def test_the_method_can_be_chosen(page, files):
    said = page.execute_script("document.querySelector('[name=method][value=bm3d]').click(); return document.getElementById('status').textContent")  # fmt: skip
    assert said == "Denoising …"  # at once, rather than when the server has answered
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
    assert not page.find_element("id", "color").is_displayed()
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


def test_open_images_are_listed_and_can_be_closed(page, files):
    for name in ("deep.tif", "cells.ome.tif"):
        open_files(page, files / name)
    names = page.execute_script("return [...document.querySelectorAll('#images .item')].map(item => item.title)")  # fmt: skip
    assert names == [NAME, "deep.tif", "cells.ome.tif"]
    page.find_element("css selector", "#images [aria-label='Close cells.ome.tif']").click()
    until(page, "document.querySelectorAll('#images .item').length === 2")
    assert text(page, "name") == "deep.tif"
    show(page, NAME)
    assert text(page, "name") == NAME
    quiet(page)

"""The page of the studio in a real browser, Chromium as Debian packages it: a person opens an image and looks at it."""

import asyncio
import base64
import threading

import numpy as np
import pytest
from browsers import keep, needs_browser, screenshot
from PIL import Image
from studio_client import until as wait_until
from studio_page import (
    NAME,
    choose_view,
    difference,
    expected,
    finished,
    image_on,
    open_files,
    painted,
    quiet,
    set_value,
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


@pytest.fixture
def empty(laptop, tmp_path):
    """The page without an image."""
    with shown(laptop, tmp_path) as page:
        yield page


def test_the_empty_page_invites(empty):
    until(empty, "!document.getElementById('welcome').hidden")
    assert empty.title == "nlridge studio"
    assert "Nothing leaves this computer" in empty.find_element("css selector", "header").text
    assert not empty.find_element("id", "panel").is_displayed()
    keep("studio-empty", screenshot(empty))
    quiet(empty)


def test_a_dropped_image_is_seen_clean(empty, files):
    content = base64.b64encode((files / NAME).read_bytes()).decode()
    empty.execute_script(
        "const bytes = Uint8Array.from(atob(arguments[0]), (letter) => letter.charCodeAt(0));"
        "const files = new DataTransfer(); files.items.add(new File([bytes], arguments[1]));"
        "for (const kind of ['dragenter', 'dragover', 'drop'])"
        " document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: files, bubbles: true, cancelable: true}))",
        content,
        NAME,
    )
    until(empty, "document.getElementById('name').textContent === arguments[0]".replace("arguments[0]", repr(NAME)))  # fmt: skip
    finished(empty)
    keep("studio-image", screenshot(empty))
    assert empty.title == f"{NAME} · nlridge studio"
    assert text(empty, "facts") == "120 × 88 · color · uint8 · PNG"
    assert "standard deviation of" in text(empty, "noise-words")
    assert "rms" in text(empty, "removed")
    quiet(empty)


def test_an_image_is_kept_if_its_upload_overtakes_what_the_page_is_told_first(laptop, files, tmp_path, monkeypatch):  # fmt: skip
    from nlridge.apps.studio.events import Events

    stream, uploaded = Events.stream, threading.Event()

    async def late(*arguments):
        events = stream(*arguments)
        first = await anext(events)  # made now, without the image
        while not uploaded.is_set():
            await asyncio.sleep(0.01)
        yield first
        async for event in events:
            yield event

    monkeypatch.setattr(Events, "stream", late)
    with shown(laptop, tmp_path) as page:
        wait_until(lambda: page.studio.studio.events._clients)
        page.find_element("id", "files").send_keys(str(files / NAME))
        until(page, "performance.getEntriesByType('resource').some(({name, responseEnd}) => name.includes('/api/images?') && responseEnd)")  # fmt: skip
        uploaded.set()
        finished(page)
        assert text(page, "name") == NAME
        assert len(page.find_elements("css selector", "#images .item")) == 1
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
    wait_until(lambda: list(page.downloads.glob("*.png")))
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
    colors = painted(page, "left")[:, 40:-40].reshape(-1, 3)
    assert len(np.unique(colors, axis=0)) < 1200  # squares of one color each
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

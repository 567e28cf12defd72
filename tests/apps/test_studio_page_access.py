"""The page of the studio in a real browser: for everybody, by keys, by night and on a telephone."""

import time
from contextlib import contextmanager

import numpy as np
import pytest
from browsers import keep, needs_browser, screenshot
from studio_page import NAME, choose_view, finished, open_files, set_value, shown, text, until

pytestmark = needs_browser


@pytest.fixture
def page(laptop, files, tmp_path):
    """The page with a photograph."""
    with shown(laptop, tmp_path) as page:
        open_files(page, files / NAME)
        yield page


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
const parts = (color) => color.match(/[\\d.]+/g).map(Number);
function behind(element) {
  for (let e = element; e; e = e.parentElement) {
    const color = parts(getComputedStyle(e).backgroundColor);
    if (color.length < 4 || color[3] > 0.5) return color;
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
    """What the person prefers, such as dark colors."""
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
        time.sleep(0.3)  # colors change slowly
        ratio, where = page.execute_script(CONTRAST)
        assert ratio > 4.5, where
        assert np.asarray(screenshot(page))[2, 2].max() < 60
        keep("studio-dark", screenshot(page))
        assert page.execute_script("return getComputedStyle(document.body).transitionDuration") == "0s"  # fmt: skip


def be_seen(driver, seen):
    """Say that a tab is seen, or not: without a display, they all are."""
    driver.execute_script(
        "Object.defineProperty(document, 'visibilityState', {value: arguments[0], configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))",
        "visible" if seen else "hidden",
    )


def test_any_number_of_tabs(page, files):
    """Browsers keep six connections to a server: the seventh tab was never answered, nor were the others then."""
    first, address, listening = page.current_window_handle, page.current_url, page.studio.studio.events  # fmt: skip
    page.set_page_load_timeout(30)
    try:
        for _ in range(7):
            be_seen(page, False)
            page.switch_to.new_window("tab")
            page.get(address)
            until(page, "document.querySelectorAll('#images .item').length === 1")
            finished(page)
        open_files(page, files / "deep.tif")
        page.switch_to.window(first)
        assert page.execute_script("return document.querySelectorAll('#images .item').length") == 1
        be_seen(page, True)  # it is told what it has missed
        until(page, "document.querySelectorAll('#images .item').length === 2")
        assert text(page, "name") == NAME
        assert not page.find_element("id", "gone").is_displayed()
        assert len(listening._clients) <= 6
    finally:
        for handle in page.window_handles:
            page.switch_to.window(handle)
            if handle != first:
                page.close()
        page.switch_to.window(first)
        page.set_page_load_timeout(300)


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

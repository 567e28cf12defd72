"""The page of the studio in a real browser: how tests open images on it, look at it and wait for it."""

import base64
import io
import time
from contextlib import contextmanager

import numpy as np
from PIL import Image
from skimage import data
from studio_client import serving

from nlridge.apps.cli import main

NAME = "photo &lt;b&gt; & 1.png"


def noisy_part(seed, *shape):
    """A part of a photograph with noise."""
    clean = data.camera()[60 : 60 + shape[0], 140 : 140 + shape[1]].astype(float)
    return clean + np.random.default_rng(seed).normal(0, 20, shape)


@contextmanager
def shown(driver, folder, given=None):
    """A studio of its own in a browser: `driver.studio`; what is downloaded goes to `driver.downloads`."""
    with serving(folder / "work", given) as running:
        driver.studio, driver.downloads = running, folder / "downloads"
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(driver.downloads)})  # fmt: skip
        driver.get_log("browser")  # what was said of earlier pages
        driver.get(running.address)
        try:
            yield driver
        finally:
            driver.get("about:blank")


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
    until(driver, "document.readyState === 'complete'")
    count = driver.execute_script("return document.querySelectorAll('#images .item').length")
    opened = f"document.querySelectorAll('#images .item').length === {count + len(paths)}"
    driver.find_element("id", "files").send_keys("\n".join(map(str, paths)))
    until(driver, opened)
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

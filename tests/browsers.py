"""Pages in a real browser, for the tests: Chromium, as Debian packages it."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

try:
    import selenium
except ModuleNotFoundError:
    selenium = None

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (selenium and CHROMIUM and DRIVER),
    reason="no browser: install Debian's chromium and chromium-driver to run this",
)


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


def keep(name, picture):
    """Keep a screenshot for inspection if NLRIDGE_SCREENSHOTS names a folder."""
    folder = os.environ.get("NLRIDGE_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        picture.save(Path(folder) / f"{name}.png")


def screenshot(driver, element=None):
    shot = element.screenshot_as_png if element is not None else driver.get_screenshot_as_png()
    return Image.open(io.BytesIO(shot)).convert("RGB")


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

"""Results in a notebook: the stage in a frame of its own, also in a real browser."""

import base64
import html
import io
import re

import numpy as np
import pytest
from browsers import browser, keep, needs_browser, screenshot
from PIL import Image
from skimage import data

import nlridge


@pytest.fixture(scope="module")
def denoised():
    noisy = data.camera()[60:220, 150:350] + np.random.default_rng(0).normal(0, 20, (160, 200))
    return nlridge.denoise_with_details(noisy, 20, method="fast")


def page_in(text):
    """The page inside the frame."""
    return html.unescape(re.search(r'srcdoc="([^"]*)"', text)[1])


def images_in(text):
    """The images of the stage: before, after, removed."""
    addresses = re.findall(r'src="data:image/webp;base64,([^"]*)"', page_in(text))
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in addresses]


def test_the_images_are_those_of_the_result(denoised):
    before, after, removed = (image[..., 0].astype(float) for image in images_in(denoised._repr_html_()))  # fmt: skip
    assert before.shape == after.shape == removed.shape == (160, 200)
    low, high = np.percentile(denoised.image, [0.1, 99.9])
    expected = np.clip((denoised.image - low) * 255 / (high - low), 0, 255)
    assert np.abs(after - expected).max() <= 0.51
    assert np.corrcoef(removed.ravel(), denoised.residual.ravel())[0, 1] > 0.97
    noisy = denoised.image + denoised.residual
    assert np.corrcoef(before.ravel(), noisy.ravel())[0, 1] > 0.99


def test_it_stands_alone_and_keeps_its_words(denoised):
    text = denoised._repr_html_()
    assert "http" not in page_in(text).replace("http-equiv", "")
    assert 'sandbox="allow-scripts"' in text
    assert f"<p>{html.escape(str(denoised))}</p>" in text
    assert len(text) < 200_000


def test_color_frames_and_channels():
    rng = np.random.default_rng(0)
    for shape, axes, shown, words in (
        ((3, 40, 50), {"channel_axis": 0}, (40, 50, 3), ""),
        ((40, 50, 2), {"channel_axis": -1}, (40, 50), "channel 1 of 2"),
        ((5, 40, 50), {"time_axis": 0}, (40, 50), "frame 3 of 5"),
        ((40, 5, 50, 3), {"depth_axis": 1, "channel_axis": 3}, (40, 50, 3), "frame 3 of 5"),
    ):
        noisy = 100 + rng.normal(0, 20, shape)
        text = nlridge.denoise_with_details(noisy, 20, method="fast", **axes)._repr_html_()
        _, after, _ = images_in(text)
        assert after.shape[:2] == shown[:2]
        is_color = bool(np.ptp(after, axis=-1).any())
        assert is_color == (len(shown) == 3)
        assert words in page_in(text)


def test_of_a_large_image_the_middle_is_shown():
    noisy = np.random.default_rng(0).normal(100, 5, (100, 1600)).astype(np.float32)
    text = nlridge.denoise_with_details(noisy, 5, method="fast")._repr_html_()
    assert images_in(text)[1].shape[:2] == (100, 768)
    assert "the central 768 × 100 of 1600 × 100 pixels" in page_in(text)


def test_odd_images_are_shown_as_well():
    noisy = np.full((20, 30), np.nan)
    noisy[:, :20] = 7
    text = nlridge.denoise_with_details(noisy, method="fast")._repr_html_()
    assert "nothing removed" in page_in(text)
    huge = np.random.default_rng(0).normal(0, 1e299, (20, 20))
    assert "<iframe" in nlridge.denoise_with_details(huge, 1e299, method="fast")._repr_html_()


@needs_browser
def test_the_stage_works_in_a_page_with_a_style_of_its_own(denoised, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains

    around = "<style>img, button, div, p { width: 3px !important; color: red !important } body { width: 900px }</style>"
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset=utf-8>{around}<h1>A notebook</h1>{denoised._repr_html_()}", "utf-8")  # fmt: skip
    with browser(1000, 800) as driver:
        driver.get((tmp_path / "page.html").as_uri())
        color = driver.execute_script("return getComputedStyle(document.querySelector('h1')).color")
        assert color == "rgb(0, 0, 0)"  # the stage does not disturb the page
        keep("notebook", screenshot(driver))
        driver.switch_to.frame(0)
        stage = driver.find_element("css selector", ".stage")
        assert stage.size["width"] > 300
        assert stage.size["height"] > 200
        fits = driver.execute_script("return [document.body.scrollHeight <= innerHeight, document.querySelector('.zoom').getBoundingClientRect().bottom <= innerHeight]")  # fmt: skip
        assert fits == [True, True]
        ActionChains(driver).move_to_element(stage).click_and_hold().move_by_offset(80, 0).release().perform()  # fmt: skip
        share = float(driver.execute_script("return document.querySelector('.split').value"))
        assert share == pytest.approx(50 + 100 * 80 / stage.size["width"], abs=1.5)
        driver.find_element("css selector", "[data-zoom=in]").click()
        transforms = driver.execute_script("return [...document.querySelectorAll('.layer')].map(l => l.style.transform)")  # fmt: skip
        assert len(set(transforms)) == 1
        driver.switch_to.default_content()
        assert driver.get_log("browser") == []

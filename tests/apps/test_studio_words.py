"""The page of the studio in a real browser: its words, the folder with small images, and a second visit."""

import numpy as np
import pytest
from browsers import browser, keep, needs_browser, screenshot
from PIL import Image
from skimage import data
from studio_page import finished, shown, text, until

from nlridge.apps.studio import work

pytestmark = needs_browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four photographs with noise, and a file that is none."""
    folder = tmp_path_factory.mktemp("photographs")
    astronaut, rng = data.astronaut(), np.random.default_rng(0)
    for k in range(4):
        clean = astronaut[20 + 40 * k : 148 + 40 * k, 160:320].astype(float)
        noisy = np.clip(clean + rng.normal(0, 7, clean.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"photograph {k}.png")
    (folder / "a text.png").write_bytes(b"nonsense")
    return folder


@pytest.fixture
def page(laptop, folder, tmp_path):
    """The page with the first of the photographs."""
    with shown(laptop, tmp_path, folder) as page:
        until(page, "document.getElementById('name').textContent === 'photograph 0.png'")
        finished(page)
        yield page


def test_the_first_image_of_a_folder_is_open_and_all_have_small_images(page):
    assert page.title == "photograph 0.png · nlridge studio"
    items = "[...document.querySelectorAll('#folder-files .item')]"
    until(page, f"{items}.filter(item => item.querySelector('img').naturalWidth > 0).length === 4")
    assert page.execute_script(f"return {items}.length") == 5
    assert page.execute_script(f"return {items}.filter(item => item.hasAttribute('aria-current')).map(item => item.textContent)") == ["photograph 0.png"]  # fmt: skip
    assert page.execute_script(f"return {items}[0].getAttribute('aria-label')").startswith("a text.png, failed: ")  # fmt: skip
    keep("studio-thumbnails", screenshot(page))


def test_every_element_has_a_name_of_its_own(page):
    names = page.execute_script("return [...document.querySelectorAll('[id]')].map(({ id }) => id)")
    assert len(names) == len(set(names))


def test_plain_words_come_before_the_figures(page):
    assert text(page, "noise-plain") == "Strong grain, about ISO 6400"
    assert "standard deviation" in text(page, "noise-words")
    tops = [page.find_element("id", name).rect["y"] for name in ("noise-plain", "noise-words", "more")]  # fmt: skip
    assert tops == sorted(tops)


def test_one_button_removes_more_until_it_says_why_not(page):
    strengths, removed = [1.0], [text(page, "removed")]
    while page.find_element("id", "more").is_enabled():
        assert text(page, "more-words") == ""
        page.find_element("id", "more").click()
        strengths.append(page.execute_script("return document.getElementById('strength').valueAsNumber"))  # fmt: skip
        until(page, f"document.getElementById('removed').textContent !== {removed[-1]!r}")
        finished(page)
        removed.append(text(page, "removed"))
    assert strengths == [1.0, 1.5, 2.25, 3.0]
    amounts = [float(words.split()[0]) for words in removed]
    assert amounts == sorted(amounts)
    assert "largest strength" in text(page, "more-words")
    assert page.execute_script("return document.activeElement.id") == "strength"
    keep("studio-most", screenshot(page))
    page.find_element("id", "reset").click()
    finished(page)
    assert page.find_element("id", "more").is_enabled()
    assert text(page, "more-words") == ""


def test_from_a_small_strength_one_press_still_removes_more(page):
    page.execute_script(
        "const e = document.getElementById('strength'); e.value = 0.1; e.dispatchEvent(new Event('input'))"
    )
    page.find_element("id", "more").click()
    assert text(page, "strength-value") == "× 0.15"
    page.find_element("id", "reset").click()
    finished(page)


def test_the_time_left_is_shown_while_work_goes_on(page, monkeypatch):
    monkeypatch.setattr("nlridge.apps.studio.tasks._MIN_SECONDS", 0.0)
    monkeypatch.setattr("nlridge.apps.studio.tasks._MIN_SHARE", 0.0)
    monkeypatch.setattr(work, "_EVERY", 0.0)
    page.execute_script(
        "window.seen = []; new MutationObserver(() => seen.push(document.getElementById('time-left').textContent))"
        ".observe(document.getElementById('time-left'), {childList: true, characterData: true, subtree: true})"
    )
    monkeypatch.setattr(work.Pace, "left", lambda pace, done, after=0.0: 125.0 * (1 - done) + 1)
    page.execute_script("document.querySelector('[name=method][value=best]').click()")
    until(page, "document.getElementById('time-left').offsetWidth > 0")
    keep("studio-time-left", screenshot(page))
    finished(page)
    seen = [words for words in page.execute_script("return seen") if words]
    assert "about 2 min left" in seen
    assert any(words.endswith(" s left") for words in seen)
    assert text(page, "time-left") == ""


def test_a_second_visit_works_where_it_is_allowed_and_is_explained_elsewhere(page):
    page.get(page.studio.address)  # in the same browser
    until(page, "document.getElementById('name').textContent === 'photograph 0.png'")
    assert page.current_url.endswith("/")
    with browser(900, 600) as stranger:
        stranger.get(page.studio.address)
        words = stranger.find_element("css selector", "main").text
        keep("studio-refused", screenshot(stranger))
        assert "This address was used before." in words
        assert "start it again with nlridge studio" in words
        background = stranger.execute_script("return getComputedStyle(document.body).backgroundColor")  # fmt: skip
        assert background == "rgb(251, 251, 249)"  # its style is allowed
        stranger.find_element("css selector", "main a").click()  # no access: the same explanation
        assert "This page needs the address" in stranger.find_element("css selector", "main").text

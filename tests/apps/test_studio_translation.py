"""All words of the studio's page are in words.js, so that it can be translated."""

import re
from pathlib import Path

import pytest
from browsers import needs_browser
from studio_page import shown, until

import nlridge

PAGE = Path(nlridge.__file__).parent / "apps" / "studio" / "page"
HTML = (PAGE / "studio.html").read_text(encoding="utf-8").partition("<body>")[2]
WORDS, SAY = (PAGE / "words.js").read_text(encoding="utf-8").split("export const SAY")
SCRIPTS = {file.name: file.read_text(encoding="utf-8") for file in PAGE.glob("*.js") if file.name != "words.js"}  # fmt: skip
NAMES = (
    "nlridge",
    "Esc",
    "The studio needs JavaScript.",
)  # which are not translated, or not without JavaScript


def test_the_page_has_no_words_of_its_own():
    texts = [text.strip() for text in re.findall(r">([^<>]*[A-Za-z]{2}[^<>]*)<", HTML)]
    assert set(texts) == set(NAMES)
    assert not re.search(r'\b(aria-label|title|placeholder|alt)="[^"]', HTML)


def test_each_word_is_used_and_each_place_has_one():
    defined = re.findall(r"^  (\w+): ", WORDS, re.MULTILINE)
    used = re.findall(r'data-(?:words|label)="(\w+)"', HTML)
    assert set(used) == set(defined)
    assert len(defined) == len(set(defined))
    said = re.findall(r"\bSAY\.(\w+)", "".join(SCRIPTS.values()))
    assert set(said) == set(re.findall(r"^  (\w+): ", SAY, re.MULTILINE))


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_say_nothing_themselves(name):
    """A text of several words, or one that begins with a capital, would be for people."""
    code = re.sub(r"//.*", "", SCRIPTS[name])
    texts = re.findall(r'"([^"\n]*)"', code)
    names = re.compile(r"X-Nlridge|Content-|Escape|Enter|Arrow\w+|Files|GET|PUT|POST|DELETE|HEAD|[\w, -]+\[|.*[#.\[:=].*")  # fmt: skip
    sentences = [t for t in texts if re.search(r"[A-Za-z]{2,} [a-z]{2,}|^[A-Z][a-z]{2,}", t)]
    assert [t for t in sentences if not names.match(t)] == []


@needs_browser
def test_each_place_is_filled(laptop, tmp_path):
    with shown(laptop, tmp_path) as page:
        until(page, "document.getElementById('choose').textContent === 'choose files'")
        empty = "[...document.querySelectorAll('[data-words]')].filter(e => !e.textContent.trim() || e.textContent === 'undefined').length"  # fmt: skip
        assert page.execute_script(f"return {empty}") == 0
        unnamed = "[...document.querySelectorAll('[data-label]')].filter(e => !e.ariaLabel || e.ariaLabel === 'undefined').length"  # fmt: skip
        assert page.execute_script(f"return {unnamed}") == 0

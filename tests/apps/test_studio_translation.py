"""All words of the studio's page are in words.js, and those of its server in words.py, so that both can be translated."""

import ast
import re
from pathlib import Path

import pytest
from browsers import needs_browser
from studio_page import shown, until

import nlridge
from nlridge.apps.studio import words

PAGE = Path(nlridge.__file__).parent / "apps" / "studio" / "page"
HTML = (PAGE / "studio.html").read_text(encoding="utf-8").partition("<body>")[2]
WORDS, SAY = (PAGE / "words.js").read_text(encoding="utf-8").split("export const SAY")
SCRIPTS = {file.name: file.read_text(encoding="utf-8") for file in PAGE.glob("*.js") if file.name != "words.js"}  # fmt: skip
SERVER = {file.stem: file.read_text(encoding="utf-8") for file in PAGE.parent.glob("*.py") if file.stem != "words"}  # fmt: skip
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


def texts(code):
    """The texts of several words in a module, other than docstrings and what is wrong with the value of an option."""
    tree = ast.parse(code)
    left = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("ArgumentError", "not_installed"):  # fmt: skip
            left |= {id(part) for part in ast.walk(node)}
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [node.value for node in found if id(node) not in left and re.search(r"[a-z]{2,} [a-z]{2,}", node.value)]  # fmt: skip


@pytest.mark.parametrize("name", SERVER)
def test_the_server_says_nothing_elsewhere(name):
    code = {"security": "default-src 'none'", "commands": "import"}  # what is not for people
    said = [text for text in texts(SERVER[name]) if code.get(name, "\n") not in text]
    assert [text for text in said if not text.startswith("connect-src")] == []


def test_each_sentence_of_the_server_is_used():
    defined = {name for name in vars(words) if name.isupper()}
    assert len(defined) > 40
    used = set(re.findall(r"\b[A-Z][A-Z_]+\b", "".join(SERVER.values())))
    assert defined <= used


@needs_browser
def test_each_place_is_filled(laptop, tmp_path):
    with shown(laptop, tmp_path) as page:
        until(page, "document.getElementById('choose').textContent === 'choose files'")
        empty = "[...document.querySelectorAll('[data-words]')].filter(e => !e.textContent.trim() || e.textContent === 'undefined').length"  # fmt: skip
        assert page.execute_script(f"return {empty}") == 0
        unnamed = "[...document.querySelectorAll('[data-label]')].filter(e => !e.ariaLabel || e.ariaLabel === 'undefined').length"  # fmt: skip
        assert page.execute_script(f"return {unnamed}") == 0

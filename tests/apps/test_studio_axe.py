"""The pages of the studio are checked by axe-core, in a real browser: no violation, by day, by night and on a telephone.

``make test`` installs axe-core in .cache if npm is there.
"""

from pathlib import Path

import numpy as np
import pytest
from browsers import browser, needs_browser
from PIL import Image
from studio_page import NAME, choose_view, finished, open_files, set_value, shown, until

AXE = Path(__file__).parents[2] / ".cache" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.slow,
    needs_browser,
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed"),
]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(driver):
    """What axe-core finds on the page as it is."""
    driver.execute_script(AXE.read_text(encoding="utf-8"))
    found = driver.execute_async_script(
        "const [rules, done] = arguments; axe.run({runOnly: rules}).then(done, (error) => done({violations: [{id: String(error), nodes: []}]}))",
        RULES,
    )
    return [
        f"{one['id']}: {node['target']}: {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"] or [{"target": "", "failureSummary": ""}]
    ]


@pytest.fixture(scope="module", params=["day", "night", "telephone"])
def driver(request):
    size = (412, 915) if request.param == "telephone" else (1366, 1000)
    with browser(*size, dark=request.param == "night") as driver:
        yield driver


def test_nothing_is_open(driver, tmp_path):
    with shown(driver, tmp_path) as page:
        until(page, "!document.getElementById('welcome').hidden")
        assert violations(page) == []


def test_an_image_in_every_view(driver, files, tmp_path):
    with shown(driver, tmp_path) as page:
        open_files(page, files / NAME)
        finished(page)
        for view in ("slider", "side", "removed"):
            choose_view(page, view)
            assert violations(page) == []
        page.execute_script("document.getElementById('commands').open = true")
        set_value(page, "noise-kind", "rectangle")
        until(page, "!document.getElementById('sampler').hidden")
        assert violations(page) == []


def test_a_stack_of_16_bits_and_an_error(driver, files, tmp_path):
    names = {file.name for file in files.iterdir()}
    deep = next(files / name for name in names if name.endswith((".tif", ".tiff")))
    (tmp_path / "text.png").write_text("no image")
    with shown(driver, tmp_path) as page:
        open_files(page, deep)
        finished(page)
        page.find_element("id", "files").send_keys(str(tmp_path / "text.png"))
        until(page, "!document.getElementById('error').hidden")
        assert violations(page) == []


def test_a_folder_and_the_question_whether_to_replace(driver, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for k in range(2):
        noisy = np.random.default_rng(k).normal(120, 20, (40, 40)).clip(0, 255)
        Image.fromarray(noisy.astype(np.uint8)).save(folder / f"{k}.png")
    with shown(driver, tmp_path, folder) as page:
        until(page, "document.querySelectorAll('#folder-files li').length == 2")
        page.execute_script("document.getElementById('replace-words').textContent = 'a.png exists'; document.getElementById('replace').showModal()")  # fmt: skip
        assert violations(page) == []
        page.execute_script("document.getElementById('replace').close()")
        assert violations(page) == []


def test_the_page_for_strangers(driver, tmp_path):
    with shown(driver, tmp_path) as page:
        page.delete_all_cookies()
        page.get(page.studio.address.partition("?")[0])
        assert "For your privacy" in page.page_source
        assert violations(page) == []

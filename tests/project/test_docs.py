"""The documentation: the site builds without a warning, its Python runs, its reference is complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import nlridge

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES.remove(ROOT / "docs" / "migrating.md")  # its code needs other packages: see test_migrating.py


def python_of(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page == PAGES[0] else pytest.mark.long, id=page.name) for page in filter(python_of, PAGES)],
)  # fmt: skip
def test_the_python_code_of_the_pages_runs(page, tmp_path):
    """Block after block, as a reader would run it; from a file, so that kernels can be cached."""
    if page.name == "pytorch.md":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    program = tmp_path / "page.py"
    program.write_text("\n".join(python_of(page)), encoding="utf-8")
    subprocess.run([sys.executable, program], cwd=tmp_path, check=True)


@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("furo", reason="Sphinx and its theme are not installed")
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*build, ROOT / "docs", tmp_path / "site"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pages = (tmp_path / "site").glob("*.html")
    fetched = [re.findall(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)"', page.read_text("utf-8")) for page in pages]  # fmt: skip
    assert not any(fetched), "pages have to be readable without network"


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    named = set(re.findall(r"auto(?:function|class):: (\w+)", page))
    assert set(nlridge.__all__) - {"__version__"} <= named


def test_the_links_of_the_readme_lead_to_files():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page):
        assert (ROOT / target).exists(), target

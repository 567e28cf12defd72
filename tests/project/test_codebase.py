"""The codebase itself: its layout, and what the pages say of it."""

import ast
import re
from importlib import import_module
from pathlib import Path

import nlridge

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "nlridge"
TESTS = ROOT / "tests"


def imports(file):
    """The modules of the package that a file imports from, as dotted names."""
    package = ("nlridge", *file.relative_to(SOURCE).parts[:-1])
    return relative_imports(file.read_text(encoding="utf-8"), package)


def relative_imports(text, package):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            modules = [node.module] if node.module else [alias.name for alias in node.names]
            for module in modules:
                yield ".".join((*base, module))


def test_relative_imports_of_every_form_are_seen():
    text = "from .. import images, files\nfrom ..api import denoise\nfrom . import plan\nimport os"
    assert list(relative_imports(text, ("nlridge", "planning"))) == [
        "nlridge.images",
        "nlridge.files",
        "nlridge.api",
        "nlridge.planning.plan",
    ]


ORDER = [
    "types",
    "errors",
    "kinds",
    "checks",
    "atomic",
    "core/arrays",
    "core/kernels",
    "core/patches",
    "core/families",
    "core/algorithm",
    "core/engines",
    "progress",
    "images",
    "noise",
    "planning",
    "files",
    "large",
    "torch",
    "api",
    "apps/options",
    "apps/display",
    "apps/jobs",
    "vapoursynth",
    "apps/pages",
    "apps/studio",
    "apps/napari",
    "napari",
    "apps/cli",
]
"""Folders, and modules beside them: none imports from those after it."""


def home_of(parts):
    """The entry of `ORDER` that a module belongs to, by the parts of its name below the package."""
    return "/".join(parts[:2]) if parts[0] in ("core", "apps") else parts[0]


def test_data_flows_one_way():
    for file in SOURCE.rglob("*.py"):
        home = home_of([part.removesuffix(".py") for part in file.relative_to(SOURCE).parts])
        if home.split("/")[-1] in ("__init__", "__main__"):
            continue
        allowed = {*ORDER[: ORDER.index(home) + 1], "__version__"}
        if home.startswith("apps/"):
            allowed |= {*nlridge.__all__, "kernels"}
        for module in imports(file):
            # The view of a result in a notebook is imported when it is shown.
            if home == "api" and module == "nlridge.apps.display.notebook":
                continue
            assert home_of(module.split(".")[1:]) in allowed, f"{file} imports {module}"


PUBLIC = {
    *nlridge.__all__,
    "atomic",
    "checks",
    "errors",
    "files",
    "kernels",
    "kinds",
    "noise",
    "types",
}
"""What applications may import from: public names and modules, and helpers that know nothing of images."""


def test_applications_import_public_names_only():
    inside = {}
    for file in (SOURCE / "apps").rglob("*.py"):
        for module in imports(file):
            if module.split(".")[1] not in {*PUBLIC, "apps"}:
                inside.setdefault(file.relative_to(SOURCE).as_posix(), set()).add(module)
    # Files in tiles keep their metadata, and have any number of axes: no public function does that.
    assert set(inside) <= {"apps/jobs/tiled.py"}, inside


def test_applications_read_files_in_another_process():
    """By `read_apart`: the library of a format may crash, or never return."""
    for file in (SOURCE / "apps").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1] == "files":
                assert "read" not in {name.name for name in node.names}, file


def test_contributing_has_a_row_for_each_folder():
    """In the order in which they may import from each other."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([\w/]+?)(?:/|\.py)`", page, re.MULTILINE)
    assert [name for name in named if name in ORDER] == ORDER


def test_families_know_nothing_of_patches():
    for file in (SOURCE / "core" / "families").glob("*.py"):
        assert not any("patches" in module for module in imports(file))


def test_every_public_name_has_an_example():
    for name in nlridge.__all__:
        thing = getattr(nlridge, name)
        if (
            callable(thing)
            and name not in ("Recipe", "Denoised", "Quality")
            and "Warning" not in name
        ):
            assert ">>>" in thing.__doc__, name


def test_the_changelog_has_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(nlridge.__version__)}\b", changelog, re.MULTILINE)


def test_the_page_on_theory_names_tests_and_functions_that_exist():
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    tests = {file.name: file.read_text(encoding="utf-8") for file in ROOT.glob("tests/*/test_*.py")}
    assert set(re.findall(r"\btest_\w+\.py\b", page)) <= set(tests)
    for file, name in re.findall(r"\b(test_\w+\.py)::(test_\w+)", page):
        assert f"def {name}(" in tests[file], f"{file}::{name}"
    named = set(re.findall(r"\btest_\w+\b(?!\.py)", page))
    assert len(named) > 25
    for name in named:
        assert any(f"def {name}(" in text for text in tests.values()), name
    for family in ("ridge", "bayes", "bm3d"):
        module = import_module(f"nlridge.core.families.{family}")
        for function in ("risk", "sure", "minimise_sure", "minimise_risk"):
            assert f"`{function}(" in page
            assert callable(getattr(module, function))
    for home, name in re.findall(r"`(ridge|bayes|bm3d|framework)\.(\w+)[`(]", page):
        if name != "py":
            package = "nlridge.core.algorithm" if home == "framework" else "nlridge.core.families"
            assert callable(getattr(import_module(f"{package}.{home}"), name))


def test_folders_of_tests_mirror_those_of_the_package():
    """But for tests of the project itself; helpers are beside the folders."""
    folders = {file.parent.name for file in TESTS.rglob("test_*.py") if file.parent.parent == TESTS}
    assert folders - {"project"} <= {file.parent.name for file in SOURCE.glob("*/*.py")}
    assert folders == {file.parent.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}  # fmt: skip


def test_no_test_imports_another():
    for file in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for part in (part for name in names for part in name.split(".")):
                assert not part.startswith("test_"), f"{file} imports {part}"
                assert part != "conftest", f"{file} imports {part}"


def test_no_test_measures_seconds():
    """They depend on the load of the machine; `time.monotonic` is for waiting, with a limit after which to give up."""
    clocks = {"time", "perf_counter", "perf_counter_ns", "process_time", "thread_time"}
    for file in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                home = node.func.value
                is_clock = isinstance(home, ast.Name) and home.id == "time"
                assert not (is_clock and node.func.attr in clocks), f"{file}, line {node.lineno}"


def test_every_make_target_is_run_in_a_fresh_clone():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    run = re.findall(r"^in_clone \w+ (\w+)", script, re.MULTILINE)
    assert "test: lint" in makefile
    assert {*run, "lint"} == set(targets.split())


def test_the_environments_of_make_have_one_version_of_pytorch():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in ("docs", "bench"):
        assert '"torch==2.13.0"' in re.search(rf"^{extra} = .*$", project, re.MULTILINE)[0]
    assert "nlridge[dask,docs]" in re.search(r"^test = .*$", project, re.MULTILINE)[0]

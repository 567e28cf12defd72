"""The release: archives hold what they should, and the wheel works in a clean environment."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import nlridge

ROOT = Path(__file__).parents[2]

USE = """
import json
from importlib.metadata import version
import numpy as np
import nlridge
noise = np.random.default_rng(0).normal(0, 20, (32, 32))
spread = float(np.std(nlridge.denoise(100 + noise, sigma=20, method="fast")))
print(json.dumps([nlridge.__file__, version("nlridge"), spread]))
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The wheel and the source archive, built from the source archive, as for a release."""
    pytest.importorskip("build", reason="build is not installed")
    folder = tmp_path_factory.mktemp("dist")
    _build(ROOT, folder)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def _build(sources, folder, **options):
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, sources]
    subprocess.run(command, check=True, capture_output=True, **options)


def _unpacked(source, folder):
    with tarfile.open(source) as opened:
        opened.extractall(folder / "sources", filter="data")
    return folder / "sources"


def test_the_archives_hold_what_they_should(archives):
    wheel, source = archives
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert {
        "nlridge/__init__.py",
        "nlridge/py.typed",
        "nlridge/apps/cli/cameraman.png",
        "nlridge/apps/pages/report.html",
        "nlridge/apps/display/stage.js",
    } <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"nlridge"}
    with tarfile.open(source) as opened:
        top, *_ = names = opened.getnames()
    folder = top.split("/")[0]
    for file in ("README.md", "LICENSE", "CITATION.cff", "Makefile", "tests/oracle.py", "docs/conf.py"):  # fmt: skip
        assert f"{folder}/{file}" in names
    assert not any(".venv" in name or "__pycache__" in name for name in names)


@pytest.mark.long
def test_the_same_sources_give_the_same_bytes(archives, tmp_path):
    """Whatever the folder, its times and permissions, and the settings of the shell."""
    (folder,) = _unpacked(archives[1], tmp_path).iterdir()
    for file in folder.rglob("*"):
        os.utime(file)
        file.chmod(file.stat().st_mode & 0o700)
    elsewhere = {**os.environ, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "3", "LC_ALL": "C"}
    _build(folder, tmp_path / "again", env=elsewhere, umask=0o077)
    for archive in archives:
        assert (tmp_path / "again" / archive.name).read_bytes() == archive.read_bytes()


@pytest.mark.long
def test_the_date_of_the_sources_is_that_of_the_archives(archives, tmp_path):
    (folder,) = _unpacked(archives[1], tmp_path).iterdir()
    _build(folder, tmp_path / "dated", env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    (wheel,) = (tmp_path / "dated").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert {entry.date_time for entry in opened.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        (name,) = (name for name in opened.namelist() if "/sboms/" in name)
        stated = json.loads(opened.read(name))["metadata"]["timestamp"]
    assert stated == "2023-11-14T22:13:20+00:00"


def test_the_wheel_names_what_it_needs(archives):
    """In a CycloneDX document where PEP 770 puts it: this package, and all others that users install with it."""
    with zipfile.ZipFile(archives[0]) as opened:
        (name,) = (name for name in opened.namelist() if ".dist-info/sboms/" in name)
        bill = json.loads(opened.read(name))
    assert name.endswith("/nlridge.cdx.json")
    itself = bill["metadata"]["component"]
    assert (itself["name"], itself["version"]) == ("nlridge", nlridge.__version__)
    scopes = {part["name"]: part["scope"] for part in bill["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.match(r"[\w-]+", line).group() for line in project["dependencies"]}
    assert {name for name, scope in scopes.items() if scope == "required"} == names
    assert scopes["rawpy"] == scopes["h5py"] == "optional"
    assert not scopes.keys() & {"pytest", "sphinx", "matplotlib"}
    (depends,) = bill["dependencies"]
    assert depends["ref"] == itself["bom-ref"]
    assert depends["dependsOn"] == [part["bom-ref"] for part in bill["components"]]


@pytest.mark.long
def test_the_wheel_works_in_a_clean_environment(archives, tmp_path):
    """Its dependencies are borrowed from the environment of the tests."""
    wheel, _ = archives
    venv.create(tmp_path / "clean", with_pip=False, symlinks=os.name != "nt")
    scheme = sysconfig.get_preferred_scheme("prefix")
    places = {"base": str(tmp_path / "clean"), "platbase": str(tmp_path / "clean")}
    scripts, packages = (Path(sysconfig.get_path(kind, scheme, places)) for kind in ("scripts", "purelib"))  # fmt: skip
    python = scripts / Path(sys.executable).name
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--quiet"]
    subprocess.run([*install, "--no-index", "--disable-pip-version-check", wheel], check=True)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run = {"cwd": tmp_path, "check": True, "capture_output": True, "text": True, "env": environment}
    home, version, spread = json.loads(subprocess.run([python, "-c", USE], **run).stdout)
    assert Path(home).is_relative_to(packages)
    assert version == nlridge.__version__
    assert spread < 3
    said = subprocess.run([scripts / "nlridge", "--version"], **run).stdout
    assert said.startswith(f"nlridge {nlridge.__version__}")


def test_the_citation_has_this_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == nlridge.__version__
    paper = citation["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Herbreteau", "Kervrann"]
    assert paper["title"].endswith("the NL-Ridge approach")
    (reference,) = citation["references"]
    assert reference.items() >= paper.items()


WITHOUT_FILES = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("imagecodecs", "tifffile", "shtab"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import nlridge
from nlridge.apps.cli import main
noisy = np.random.default_rng(0).normal(0, 20, (32, 32))
assert np.std(nlridge.denoise(noisy, sigma=20, method="fast")) < 5
assert nlridge.denoise_to_disk(noisy, "a.npy", sigma=20, method="fast").shape == (32, 32)
sys.exit(main(["denoise", "photo.png"]))
"""


def test_arrays_need_no_libraries_for_files(tmp_path):
    """They are left out of the conda package nlridge-core; files are then refused in a sentence."""
    (tmp_path / "photo.png").touch()
    command = [sys.executable, "-c", WITHOUT_FILES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    sentence = r"nlridge: the command line needs (\w+), which is not installed: pip install \1"
    assert re.fullmatch(sentence, done.stderr.splitlines()[-1])
    assert (tmp_path / "a.npy").exists()


def test_versions_of_python_agree():
    """In the metadata, the recipe for conda, the workflow and the pages."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (least,) = re.findall(r'^requires-python = ">=(3\.\d+)"$', project, re.MULTILINE)
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert named[0] == least
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'python_min: "{least}"' in recipe
    assert f'version: "{nlridge.__version__}"' in recipe
    assert f"with Python {least} or later" in (ROOT / "README.md").read_text(encoding="utf-8")
    policy = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert f"Python {named[0]} to {named[-1]}" in policy
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert f'["{named[0]}", "{named[-1]}"]' in workflow


def test_the_recipe_requires_what_the_package_requires():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    required = {tuple(one) for one in re.findall(r'"([\w-]+)>=([\d.]+)"', listed)}
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    stated = {tuple(one) for one in re.findall(r"^ +- ([\w-]+) >=([\d.]+)$", recipe, re.MULTILINE)}
    assert required == stated

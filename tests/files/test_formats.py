"""The contract of file formats, which each of them keeps, plug-ins too."""

import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tifffile
from format_contract import Example, checks
from format_examples import FORMATS
from PIL import Image

import nlridge.files
from nlridge.apps.cli import main
from nlridge.files import Layer, Picture, apart, broken_plugins, read, suffixes, write


@pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)
@pytest.mark.parametrize("example", FORMATS, ids=str)
def test_every_format_keeps_the_contract(tmp_path, example, check):
    check(example, tmp_path)


def test_every_format_has_an_example():
    modules = {nlridge.files.format_of(suffix) for suffix in suffixes()}
    examples = {nlridge.files.format_of(example.suffix) for example in FORMATS}
    # What bioio reads is up to its plug-ins. Files of cameras and telephones have tests of their own.
    assert {module.NAME for module in modules - examples} <= {"bioio", "raw", "HEIF", "AVIF"}


def test_libraries_are_imported_only_when_they_are_used():
    names = {example.library for example in FORMATS} - {""}
    program = f"""
import sys, nlridge.files
nlridge.files.suffixes()
print(sorted(set(sys.modules) & {names | {"bioio"}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_the_page_on_files_names_every_format():
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text("utf-8")
    for suffix in suffixes():
        assert f"`{suffix}`" in page, suffix
    for library in {example.library for example in FORMATS} - {""}:
        assert library in page


def test_the_table_of_formats_says_what_is_kept(tmp_path, monkeypatch):
    from benchmarks import formats

    monkeypatch.setattr(formats, "_DAMAGED", 2)
    sizes = {"PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0}
    pixels = np.arange(144, dtype=np.uint16).reshape(2, 8, 9)
    tifffile.imwrite(tmp_path / "stack.ome.tif", pixels, metadata={"axes": "ZYX", **sizes})
    read_as, written, axes, pixel_size, dtype, metadata, damaged = formats.row(
        tmp_path / "stack.ome.tif"
    )
    assert (read_as, written) == ("ZYX 2 x 8 x 9", ".ome.tif, same pixels")
    assert (axes, pixel_size, dtype, metadata) == ("ZYX", "2 x 0.5 x 0.5 µm", "uint16", "OME-XML")
    assert damaged.endswith(" + 0")

    def write_without_size(path, picture):
        write(path, Picture("npy", [Layer(picture.layers[0].pixels, "ZYX")]))

    monkeypatch.setattr(formats, "write", write_without_size)
    assert formats.row(tmp_path / "stack.ome.tif")[3] == "2 x 0.5 x 0.5 µm, NOT KEPT"


# Plug-ins.


@pytest.fixture
def plugins(monkeypatch):
    """Pretend that packages with these modules are installed."""

    def install(**modules):
        entries = []
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, f"plugin_{name}", module)
            entries.append(importlib.metadata.EntryPoint(name, f"plugin_{name}", "nlridge.files"))
        monkeypatch.setattr(nlridge.files, "entry_points", lambda group: entries)
        nlridge.files._found.cache_clear()
        nlridge.files._formats.cache_clear()

    yield install
    monkeypatch.undo()
    nlridge.files._found.cache_clear()
    nlridge.files._formats.cache_clear()


def plugin(name="plugin_raw", **changes):
    """A format: two bytes each for height and width, then 8-bit pixels."""
    module = ModuleType(name)
    names = {
        "NAME": "bytes",
        "SUFFIXES": (".bytes",),
        "KEEPS": (),
        "recognises": lambda head: len(head) > 4,
        "read": read_bytes,
        "write": write_bytes,
    }
    for key, value in (names | changes).items():
        if value is not None:
            setattr(module, key, value)
    return module


def read_bytes(path, axes):
    data = path.read_bytes()
    height, width = (int.from_bytes(data[k : k + 2], "little") for k in (0, 2))
    if len(data) != 4 + height * width:
        raise ValueError(f"it has {len(data)} bytes; expected {4 + height * width}")
    pixels = np.frombuffer(data, np.uint8, offset=4).reshape(height, width)
    return Picture("plugin_raw", [Layer(pixels, "YX")])


def write_bytes(path, picture, name):
    pixels = picture.layers[0].pixels
    path.write_bytes(b"".join(n.to_bytes(2, "little") for n in pixels.shape) + pixels.tobytes())


def make_bytes(path, pixels, axes):
    write_bytes(path, Picture("", [Layer(pixels, axes)]), path)


@pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)
def test_a_plugin_keeps_the_contract(tmp_path, plugins, check):
    plugins(raw=plugin())
    check(Example(".bytes", make_bytes, "u1"), tmp_path)


@pytest.fixture
def installed(tmp_path_factory, monkeypatch):
    """A package with the plug-in, which other processes find as well."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "plugin_raw.py").write_text(
        "import numpy as np\nfrom nlridge.files import Layer, Picture\n"
        "NAME, SUFFIXES, KEEPS = 'bytes', ('.bytes',), ()\n"
        "def recognises(head):\n    return len(head) > 4\n"
        f"{inspect.getsource(read_bytes)}\n{inspect.getsource(write_bytes)}\n"
        "read, write = read_bytes, write_bytes\n"
    )
    (folder / "plugin_raw-1.dist-info").mkdir()
    (folder / "plugin_raw-1.dist-info" / "METADATA").write_text("Name: plugin-raw\nVersion: 1\n")
    (folder / "plugin_raw-1.dist-info" / "entry_points.txt").write_text("[nlridge.files]\nraw = plugin_raw\n")  # fmt: skip
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(apart, "_reader", apart._Reader())
    nlridge.files._found.cache_clear()
    nlridge.files._formats.cache_clear()
    yield
    apart._reader.end()
    monkeypatch.undo()
    nlridge.files._found.cache_clear()
    nlridge.files._formats.cache_clear()


def test_a_plugin_on_the_command_line(tmp_path, installed, capsys):
    make_bytes(tmp_path / "a.bytes", Example(".bytes", make_bytes, "u1").pixels, "YX")
    assert main(["denoise", str(tmp_path), "--method", "fast", "--sigma", "5"]) == 0
    assert read(tmp_path / "a_denoised.bytes").layers[0].pixels.std() > 0
    (tmp_path / "b.bytes").write_bytes(b"1234567")
    assert main(["denoise", str(tmp_path / "b.bytes")]) == 1
    assert "it has 7 bytes; expected" in capsys.readouterr().err


BROKEN = {
    "no_name": (plugin(NAME=None), "NAME is None; expected a str"),
    "no_read": (plugin(read=None), "it has no function read; expected one"),
    "suffix": (plugin(SUFFIXES=("abc",)), "a suffix is 'abc'; expected text such as '.abc'"),
    "taken": (plugin(SUFFIXES=(".png",)), "the suffix .png belongs to PNG; expected another"),
    "twin": (plugin("another.tiff", SUFFIXES=(".other",)), "its module is called tiff, as another; expected another name"),
    "missing": (None, "ModuleNotFoundError"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_gets_one_sentence_and_the_rest_works(tmp_path, plugins, capsys, name):
    module, sentence = BROKEN[name]
    plugins(raw=plugin(), **{name: module})
    assert ".bytes" in suffixes()
    (words,) = broken_plugins()
    assert words.startswith(f"the plug-in {name} (plugin_{name}) is ignored: ")
    assert sentence in words
    assert "\n" not in words
    Image.fromarray(np.full((9, 9), 100, np.uint8)).save(tmp_path / "a.png")
    assert main(["noise", str(tmp_path / "a.png")]) == 0
    assert words in capsys.readouterr().err

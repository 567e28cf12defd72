"""Files of microscopes, the OME-TIFF that they become, and any files of instruments in a folder."""

import contextlib
import gc
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType

import imagecodecs
import numpy as np
import pytest
import tifffile
from format_contract import CHANNELS, SPACING
from format_examples import FORMATS, noisy
from fuzz.microscopes import czi_bytes, lif_bytes

import nlridge.files
from nlridge.apps.cli import main
from nlridge.files import Layer, Picture, read, suffixes, write


@pytest.mark.parametrize("compression", [5, 6])
def test_czi_with_zstandard(tmp_path, compression):
    pixels = noisy("u2", (2, 32, 40))

    def pack(plane):
        if compression == 5:
            return imagecodecs.zstd_encode(plane)
        apart = np.frombuffer(plane, np.uint8).reshape(-1, 2).T.tobytes()
        return bytes([3, 1, 1]) + imagecodecs.zstd_encode(apart)

    (tmp_path / "a.czi").write_bytes(czi_bytes(pixels, "ZYX", pack=(compression, pack)))
    (layer,) = read(tmp_path / "a.czi").layers
    np.testing.assert_array_equal(layer.pixels, pixels)


def test_scenes_of_a_czi_file_are_images_of_their_own(tmp_path):
    pixels = noisy("u1", (2, 32, 40))
    (tmp_path / "a.czi").write_bytes(czi_bytes(pixels, "SYX"))
    layers = read(tmp_path / "a.czi").layers
    assert [layer.axes for layer in layers] == ["YX", "YX"]
    np.testing.assert_array_equal([layer.pixels for layer in layers], pixels)


def test_a_czi_file_with_an_unknown_compression_or_a_bomb(tmp_path):
    plane = noisy("u2")
    (tmp_path / "a.czi").write_bytes(czi_bytes(plane, "YX", pack=(77, bytes)))
    with pytest.raises(ValueError, match="its compression is 77; expected none, JPEG, LZW"):
        read(tmp_path / "a.czi")
    content = bytearray(czi_bytes(noisy("u1", (32, 40)), "YX"))
    entry = content.rindex(b"DV")
    for k in (0, 1):  # the sizes of X and Y, as shown and as stored
        for place in (8, 16):
            at = entry + 32 + 20 * k + place
            content[at : at + 4] = (60_000).to_bytes(4, "little")
    (tmp_path / "b.czi").write_bytes(content)
    with pytest.raises(ValueError, match="expected no more than is safe to open"):
        read(tmp_path / "b.czi")


def test_a_damaged_czi_file_is_closed(tmp_path):
    """An open file could not be deleted or replaced on some systems."""
    path = tmp_path / "a.czi"
    path.write_bytes(b"ZISRAWFILE" + b"\xff" * 600)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with pytest.raises(ValueError, match=r"damaged|expected"):
            read(path)
        gc.collect()


def test_a_scan_through_the_depth_of_a_lif_file(tmp_path):
    """Its images lie along Z and X; frames along Y are slices."""
    pixels = noisy("u1", (3, 20, 30))
    (tmp_path / "a.lif").write_bytes(lif_bytes(pixels, "YZX", spacing=(0.5, 0.1, 0.2)))
    (layer,) = read(tmp_path / "a.lif").layers
    assert layer.axes == "ZYX"
    assert layer.spacing == pytest.approx((0.1, 0.5, 0.2))


@pytest.mark.parametrize("suffix", [".czi", ".lif", ".nd2"])
def test_files_of_microscopes_become_ome_tiff(tmp_path, suffix, capsys):
    """Frames along Z or T are denoised together, with the size of the voxels, without any option."""
    example = next(example for example in FORMATS if example.suffix == suffix)
    path = example.file(tmp_path, "cells")
    assert main(["denoise", str(path), "--method", "fast", "--sigma", "5"]) == 0
    assert "denoised together in" in capsys.readouterr().out
    after = read(tmp_path / "cells_denoised.ome.tif")
    assert after.layers[0].axes == "TZCYX"
    assert after.layers[0].spacing == pytest.approx(example.spacing)
    assert after.channels == CHANNELS
    with tifffile.TiffFile(tmp_path / "cells_denoised.ome.tif") as file:
        assert file.series[0].axes == "TZCYX"
        assert 'PhysicalSizeZ="0.5" PhysicalSizeZUnit="µm"' in file.ome_metadata
    with pytest.raises(ValueError, match="files cannot be written; expected a TIFF file"):
        write(tmp_path / f"other{suffix}", after)


def test_axes_that_ome_does_not_know_become_images(tmp_path):
    pixels = noisy("u2", (2, 3, 20, 30))
    picture = Picture(
        "czi", [Layer(pixels, "HCYX", (np.nan, 0.1, 0.1), "µm")], channels=list("abc")
    )
    write(tmp_path / "a.ome.tif", picture)
    after = read(tmp_path / "a.ome.tif")
    np.testing.assert_array_equal([layer.pixels for layer in after.layers], pixels)
    assert {layer.axes for layer in after.layers} == {"CYX"}
    assert after.channels == ["a", "b", "c"]
    colors = noisy("u1", (20, 30, 3))
    write(tmp_path / "b.ome.tif", Picture("", [Layer(colors, "YXC")]))
    np.testing.assert_array_equal(read(tmp_path / "b.ome.tif").layers[0].pixels, colors)
    with pytest.raises(ValueError, match="OME files cannot store float16; expected one of int8"):
        write(tmp_path / "c.ome.tif", Picture("", [Layer(noisy("f2"), "YX")]))


def test_what_bioio_reads(tmp_path, monkeypatch):
    """With a stand-in, as the library itself is not required."""

    class Scene:
        scenes, shape, dtype = ("one", "two"), (1, 2, 3, 20, 30), np.dtype("u2")
        channel_names = CHANNELS

        def __init__(self, path):
            self.dims = type("Dimensions", (), {"order": "TCZYX"})
            self.physical_pixel_sizes = type("Sizes", (), {"Z": 0.5, "Y": 0.1, "X": 0.2})

        def set_scene(self, name):
            self.data = noisy("u2", self.shape, seed=len(name))

    bioio = ModuleType("bioio")
    bioio.BioImage = Scene
    (tmp_path / "a.dv").write_bytes(b"anything")
    with pytest.raises(
        ImportError, match=r"\.dv files need bioio, which is not installed: pip install"
    ):
        read(tmp_path / "a.dv")
    monkeypatch.setitem(sys.modules, "bioio", bioio)
    picture = read(tmp_path / "a.dv")
    assert [layer.axes for layer in picture.layers] == ["CZYX", "CZYX"]
    assert picture.layers[0].spacing == SPACING
    assert picture.channels == CHANNELS


# Real files.


REAL = os.environ.get("NLRIDGE_FORMATS", "")
"""A folder with files of instruments, in subfolders named after formats."""


def real_files():
    known = (path for path in sorted(Path(REAL).rglob("*")) if nlridge.files.suffix_of(path) in suffixes())  # fmt: skip
    return [path for path in known if path.is_file() and "zarr" not in str(path)] if REAL else []


@pytest.mark.skipif(not REAL, reason="NLRIDGE_FORMATS does not name a folder with files")
@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
def test_files_of_instruments(tmp_path, path):
    """Everything but the noise is kept, and parts of the file are refused or read."""
    axes = "QYX" if path.name == "WFPC2u5780205r_c0fx.fits" else None  # a stack without names
    before = read(path, axes)
    target = tmp_path / f"again{nlridge.files.output_suffix(nlridge.files.suffix_of(path))}"
    write(target, before)
    after = read(target, axes)
    flat = [layer for layer in before.layers if set(layer.axes) <= set("TZCYX")]
    if len(flat) == len(before.layers):
        for one, other in zip(before.layers, after.layers, strict=True):
            np.testing.assert_array_equal(one.pixels, other.pixels)
            assert one.pixels.dtype.newbyteorder("=") == other.pixels.dtype.newbyteorder("=")
            assert (one.axes, one.unit) == (other.axes, other.unit)
            assert one.spacing == pytest.approx(other.spacing, nan_ok=True)
    assert before.channels == after.channels
    content, rng = path.read_bytes(), np.random.default_rng(0)
    damaged = tmp_path / path.name
    for k in range(20):
        part = bytearray(content[: int(rng.integers(len(content)))] if k % 2 else content)
        for place in rng.integers(min(len(part), 5000), size=5):
            part[place] = rng.integers(256)
        damaged.write_bytes(part)
        with contextlib.suppress(ValueError, OSError):
            read(damaged, axes)

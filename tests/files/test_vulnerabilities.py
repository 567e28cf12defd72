"""Files like those that have broken the libraries of readers: known vulnerabilities, and what fuzzing has found."""

import gzip
import io
import struct
import subprocess
import sys

import h5py
import mrcfile
import numpy as np
import pydicom
import pytest
from astropy.io import fits
from format_examples import dicom_dataset
from memory import PEAK
from PIL import Image

from nlridge.files import read
from nlridge.files.damage import convert_errors

# Formats that Pillow reads and this package does not: CVE-2026-25990 (PSD), CVE-2025-48379 (DDS), CVE-2026-40192 (FITS).
UNWANTED = {
    "PSD": b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, 8, 8, 8, 3) + bytes(12) + bytes(200),
    "DDS": b"DDS " + struct.pack("<7I", 124, 0x1007, 8, 8, 0, 0, 0) + bytes(96) + bytes(200),
    "FITS": b"SIMPLE  =                    T".ljust(80) + b"END".ljust(2800),
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
}


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".gif", ".bmp", ".tga", ".png", ".avif"])
@pytest.mark.parametrize("kind", ["PSD", "DDS", "EPS"])
def test_pillow_opens_no_format_that_was_not_asked_for(tmp_path, monkeypatch, suffix, kind):
    """Whatever the name of a file says, its content does not choose the decoder of Pillow."""
    asked = []
    usual = Image.open
    monkeypatch.setattr(Image, "open", lambda *given, formats=None: asked.append(formats) or usual(*given, formats=formats))  # fmt: skip
    file = tmp_path / f"photo{suffix}"
    file.write_bytes(UNWANTED[kind])
    with pytest.raises(ValueError, match=r"is not an image in a supported format|damaged"):
        read(file)
    assert all(formats and kind not in formats for formats in asked)


def test_fits_data_are_never_given_to_pillow(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "open", lambda *given, **options: pytest.fail("Pillow was asked"))
    (tmp_path / "sky.jpg").write_bytes(UNWANTED["FITS"])
    with pytest.raises(ValueError, match=r"damaged|no image"):
        read(tmp_path / "sky.jpg")


def tile_bomb(unpacked):
    """A FITS image of 64 x 64 pixels, one of whose tiles, compressed by gzip, unpacks to so many bytes."""
    data = io.BytesIO()
    pixels = np.arange(64 * 64, dtype=np.int32).reshape(64, 64)
    fits.CompImageHDU(pixels, compression_type="GZIP_1", tile_shape=(64, 64)).writeto(data)
    content = data.getvalue()
    start = content.index(b"\x1f\x8b")
    bomb = gzip.compress(bytes(unpacked), 9)
    with fits.open(io.BytesIO(content), disable_image_compression=True) as units:
        row = content.index(units[1].data.tobytes()[:8])
    entry = struct.pack(">ii", len(bomb), 0)
    padded = bomb.ljust(-(-(start - row + len(bomb)) // 2880) * 2880, b"\0")
    head = content[:row].replace(b"PCOUNT  =" + content[content.index(b"PCOUNT  =") + 9 :][:21], b"PCOUNT  = %20d" % len(bomb))  # fmt: skip
    return head + entry + content[row + 8 : start] + padded


@pytest.mark.slow
def test_a_bomb_in_a_tile_of_fits_takes_no_memory(tmp_path):
    """As CVE-2026-40192: a tile of 16 KB that claims to be 1 GB."""
    file = tmp_path / "bomb.fits"
    file.write_bytes(tile_bomb(2**30))
    program = PEAK + (
        "from pathlib import Path\nimport nlridge.files\nfrom astropy.io import fits\n"
        "before = peak()\n"
        "try:\n    nlridge.files.read(Path(sys.argv[1]))\nexcept ValueError as error:\n    print(error, file=sys.stderr)\n"
        "print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, check=True)
    assert b"a tile of 64 x 64 pixels unpacks to more than 32768 bytes" in done.stderr
    assert float(done.stdout) < 200


def test_a_frame_of_gif_larger_than_its_screen(tmp_path):
    """Found by fuzzing: Pillow enlarges the screen, and 3 KB took 12 GB."""
    data = io.BytesIO()
    Image.fromarray(np.eye(16, dtype=np.uint8)).save(data, "GIF")
    content = data.getvalue()
    at = content.index(b",\0\0\0\0")
    for place, size in [((60_000, 0), (16, 16)), ((0, 0), (60_000, 60_000))]:
        (tmp_path / "wide.gif").write_bytes(
            content[: at + 1] + struct.pack("<4H", *place, *size) + content[at + 9 :]
        )
        with pytest.raises(ValueError, match="its header claims 1 x 60"):
            read(tmp_path / "wide.gif")


def test_a_heap_of_hdf5_without_an_end(tmp_path):
    """Found by fuzzing: the HDF5 library never returned."""
    path = tmp_path / "loop.h5"
    with h5py.File(path, "w") as file:
        array = file.create_dataset("image", data=np.eye(16))
        array.dims[0].label, array.dims[1].label = "y", "x"
    content = path.read_bytes()
    assert read(path).layers[0].axes == "YX"
    heap = content.index(b"GCOL\1")
    path.write_bytes(content[: heap + 16] + bytes(4080) + content[heap + 4096 :])
    with pytest.raises(ValueError, match="the file is damaged: one of its heaps has no end"):
        read(path)


def test_an_extended_header_of_mrc_beyond_the_file(tmp_path):
    """Found by fuzzing: mrcfile takes as much memory as the header claims."""
    path = tmp_path / "long.mrc"
    with mrcfile.new(path, np.eye(16, dtype=np.float32)):
        pass
    content = path.read_bytes()
    path.write_bytes(content[:92] + struct.pack("<i", 2**31 - 1) + content[96:])
    with pytest.raises(
        ValueError, match="it has 2048 bytes; expected 2147483647 before its pixels"
    ):
        read(path)


@pytest.mark.parametrize("syntax", ["JPEG2000", "JPEG2000Lossless"])
def test_a_frame_of_dicom_whose_boxes_have_no_end(tmp_path, syntax):
    """Found by fuzzing: pydicom never returned."""
    data = dicom_dataset(np.zeros((16, 16), np.int16))
    data.file_meta.TransferSyntaxUID = getattr(pydicom.uid, syntax)
    frame = bytes.fromhex("0000000c6a5020200d0a870a") + bytes(20)
    data.PixelData = pydicom.encaps.encapsulate([frame])
    data["PixelData"].VR = "OB"
    data.save_as(tmp_path / "loop.dcm", enforce_file_format=True)
    with pytest.raises(ValueError, match="one of the boxes of a frame has no end"):
        read(tmp_path / "loop.dcm")


@pytest.mark.parametrize(("keyword", "kind"), [("RescaleSlope", b"DS"), ("NumberOfFrames", b"IS")])
def test_numbers_of_dicom_that_are_text(tmp_path, keyword, kind):
    """Found by fuzzing: the message named neither the file nor the element."""
    data = dicom_dataset(np.zeros((16, 16), np.int16), RescaleSlope=1, NumberOfFrames=1)
    data.save_as(tmp_path / "text.dcm", enforce_file_format=True)
    content = (tmp_path / "text.dcm").read_bytes()
    tag = pydicom.tag.Tag(keyword)
    at = content.index(struct.pack("<HH", tag.group, tag.element) + kind)
    content = content[: at + 4] + b"LO" + content[at + 6 : at + 8] + b"x " + content[at + 10 :]
    (tmp_path / "text.dcm").write_bytes(content)
    with pytest.raises(ValueError, match=f"the file is damaged: its {keyword} is 'x"):
        read(tmp_path / "text.dcm")


def test_errors_of_compiled_code_without_a_name():
    """Found by fuzzing: code that Cython compiled may belong to no module."""
    with pytest.raises(ValueError, match="the file is damaged: no such depth"), convert_errors("the file is damaged"):  # fmt: skip
        exec(compile("raise ValueError('no such depth')", "codec.pyx", "exec"), {"__builtins__": __builtins__})  # fmt: skip

"""Files like those that have broken the libraries of readers: known vulnerabilities, and what fuzzing has found."""

import gzip
import io
import re
import struct
import subprocess
import sys

import h5py
import imagecodecs
import mrcfile
import numpy as np
import pydicom
import pytest
from astropy.io import fits
from format_examples import dicom_dataset
from memory import PEAK
from PIL import Image
from raw_images import raw_file

from nlridge.files import read
from nlridge.files.apart import read_apart
from nlridge.files.damage import convert_errors
from nlridge.files.directories import SHORT, new_tag
from nlridge.files.dng import dng_bytes
from nlridge.files.formats import raw

# Formats that Pillow reads and this package does not: CVE-2026-25990 (PSD), CVE-2025-48379 (DDS), CVE-2026-40192 (FITS),
# CVE-2026-59203 (EPS), CVE-2026-54058 (McIdas).
UNWANTED = {
    "PSD": b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, 8, 8, 8, 3) + bytes(12) + bytes(200),
    "DDS": b"DDS " + struct.pack("<7I", 124, 0x1007, 8, 8, 0, 0, 0) + bytes(96) + bytes(200),
    "FITS": b"SIMPLE  =                    T".ljust(80) + b"END".ljust(2800),
    "MCIDAS": b"\0\0\0\0\0\0\0\4" + bytes(600),
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
}


def outcome(path):
    """The picture in a file, or what is wrong with it; the library must neither crash nor hang."""
    try:
        return read_apart(path)
    except ValueError as error:
        words = str(error)
    assert not re.search("crashed|did not return", words)
    return words


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".gif", ".bmp", ".tga", ".png", ".avif"])
@pytest.mark.parametrize("kind", ["PSD", "DDS", "EPS", "MCIDAS"])
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


def test_jpeg_2000_is_never_given_to_pillow(tmp_path, monkeypatch):
    """As CVE-2026-59204: its decoder took memory without bound."""
    monkeypatch.setattr(Image, "open", lambda *given, **options: pytest.fail("Pillow was asked"))
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    for suffix in (".jp2", ".jpg"):
        (tmp_path / f"a{suffix}").write_bytes(imagecodecs.jpeg2k_encode(pixels, level=0))
        np.testing.assert_array_equal(read(tmp_path / f"a{suffix}").layers[0].pixels, pixels)


@pytest.mark.parametrize("content", [b"FOVb" + bytes(200), "floats"], ids=["Foveon", "floats"])
def test_libraw_opens_nothing_that_cannot_be_a_mosaic(tmp_path, monkeypatch, content):
    """As CVE-2026-20889 and 24660 (Foveon), 20884 and 24450 (floating-point DNG)."""
    monkeypatch.setattr(raw, "_rawpy", lambda: pytest.fail("LibRaw was asked"))
    if content == "floats":
        file = raw_file(np.zeros((24, 32), np.uint16))
        tags = [*file.raw_tags, new_tag("<", 339, SHORT, 3)]
        content = dng_bytes(file._replace(raw_tags=tags), np.zeros((8, 8, 3), np.uint8))
    (tmp_path / "photo.dng").write_bytes(content)
    with pytest.raises(ValueError, match=r"Foveon|floating-point; expected integers"):
        read(tmp_path / "photo.dng")


@pytest.mark.parametrize("place", range(4, 12))
@pytest.mark.parametrize("value", [0, 1, 255])
def test_lossless_jpeg_of_another_size_than_its_tile(tmp_path, place, value):
    """As CVE-2026-21413: precision, height, width and components are those of the tile, or it is an error."""
    values = np.random.default_rng(0).integers(600, 9000, (32, 48)).astype(np.uint16)
    content = dng_bytes(raw_file(values), np.zeros((8, 8, 3), np.uint8))
    start = content.index(b"\xff\xc3")
    changed = bytearray(content)
    changed[start + place] = value
    (tmp_path / "photo.dng").write_bytes(changed)
    picture = outcome(tmp_path / "photo.dng")
    assert isinstance(picture, str) or picture.layers[0].pixels.shape == values.shape


@pytest.mark.filterwarnings("ignore:Invalid value for VR CS")
def test_a_directory_of_dicom_files_names_no_others(tmp_path):
    """As CVE-2026-32711: a path in a DICOMDIR was followed out of its folder."""
    (tmp_path / "secret.dcm").write_bytes(b"secret")
    (tmp_path / "discs").mkdir()
    data = dicom_dataset(np.zeros((16, 16), np.int16))
    del data.PixelData
    record = pydicom.Dataset()
    record.DirectoryRecordType, record.ReferencedFileID = "IMAGE", ["..", "secret.dcm"]
    data.DirectoryRecordSequence = [record]
    data.file_meta.MediaStorageSOPClassUID = pydicom.uid.MediaStorageDirectoryStorage
    data.save_as(tmp_path / "discs" / "a.dcm", enforce_file_format=True)
    with pytest.raises(ValueError, match="it holds no pixels; expected an image"):
        read(tmp_path / "discs" / "a.dcm")


@pytest.mark.parametrize("bits", [17, 64, 2**31, 2**32 - 1])
def test_a_chunk_of_hdf5_scaled_to_more_bits_than_it_has(tmp_path, bits):
    """As CVE-2025-2308 and 2025-44905: the filter "scale-offset" wrote beyond its memory."""
    path = tmp_path / "scaled.h5"
    pixels = np.arange(1024, dtype=np.uint16).reshape(32, 32)
    with h5py.File(path, "w") as file:
        array = file.create_dataset("image", data=pixels, chunks=(32, 32), scaleoffset=12)
        place = array.id.get_chunk_info(0).byte_offset
    np.testing.assert_array_equal(read_apart(path).layers[0].pixels, pixels)
    content = path.read_bytes()
    path.write_bytes(content[:place] + struct.pack("<I", bits) + content[place + 4 :])
    outcome(path)


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


def damaged_fits(pixels, changes, **options):
    """A compressed FITS image, some cards of which have other values."""
    data = io.BytesIO()
    fits.CompImageHDU(pixels, tile_shape=(32, 32), **options).writeto(data)
    content = data.getvalue()
    for keyword, value in changes.items():
        at = content.index(f"{keyword:8}=".encode())
        content = content[: at + 10] + b"%20d" % value + content[at + 30 :]
    return content


@pytest.mark.parametrize("seed", [-100_000, -1, 0, 10_001, 2**31 - 1])
def test_a_dither_of_fits_beyond_its_table(tmp_path, seed):
    """As CVE-2026-111124: numbers were read from before the table of the dither, and became pixels."""
    pixels = np.random.default_rng(0).normal(0, 99, (64, 64)).astype(np.float32)
    options = {"compression_type": "RICE_1", "quantize_method": 1, "dither_seed": 7}
    (tmp_path / "sky.fits").write_bytes(damaged_fits(pixels, {}, **options))
    assert np.abs(read(tmp_path / "sky.fits").layers[0].pixels - pixels).max() < 9
    (tmp_path / "sky.fits").write_bytes(damaged_fits(pixels, {"ZDITHER0": seed}, **options))
    with pytest.raises(ValueError, match=f"its ZDITHER0 is {seed}; expected 1 to 10000"):
        read(tmp_path / "sky.fits")


@pytest.mark.parametrize("kind", ["HCOMPRESS_1", "RICE_1"])
@pytest.mark.parametrize(
    "changes", [{"ZTILE1": 40_000}, {"ZTILE2": 4096}, {"ZTILE1": -1}, {"ZNAXIS1": 4096}], ids=str
)
def test_tiles_of_fits_of_another_size(tmp_path, kind, changes):
    """As CVE-2026-111125: the decoder of HCOMPRESS read beyond a tile that claimed to be large."""
    pixels = np.random.default_rng(0).integers(0, 99, (64, 64)).astype(np.int32)
    (tmp_path / "sky.fits").write_bytes(damaged_fits(pixels, changes, compression_type=kind))
    assert "the file is damaged" in outcome(tmp_path / "sky.fits")


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

"""Files that cannot be read: one sentence, little memory, and nothing is written."""

import bz2
import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zlib

import imagecodecs
import numpy as np
import pytest
import tifffile
from image_files import (
    LEFT,
    PROFILE,
    SHAPE,
    assert_cleaned,
    compressed_fits,
    fits_bytes,
    noisy,
    with_chunks,
)
from memory import PEAK
from PIL import Image

from nlridge.apps.cli import main
from nlridge.files import Layer, Picture, damage, read, write
from nlridge.files.damage import convert_errors


def apng():
    data = io.BytesIO()
    frames = [Image.fromarray(noisy(seed=k)) for k in range(2)]
    frames[0].save(data, "PNG", save_all=True, append_images=frames[1:])
    return data.getvalue()


def animated_webp():
    data = io.BytesIO()
    frames = [Image.fromarray(noisy(channels=3, seed=k)) for k in range(2)]
    frames[0].save(data, "WEBP", save_all=True, append_images=frames[1:])
    return data.getvalue()


def encoded(kind, **options):
    data = io.BytesIO()
    Image.fromarray(noisy(channels=3)).save(data, kind, **options)
    return data.getvalue()


def tiff_bytes(pixels, **options):
    data = io.BytesIO()
    tifffile.imwrite(data, pixels, **options)
    return data.getvalue()


def npy_bytes(pixels):
    data = io.BytesIO()
    np.save(data, pixels)
    return data.getvalue()


def png_of_size(width, height, body=b"\0" * 50):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    blank = b"\x89PNG\r\n\x1a\n"
    for kind, chunk in ((b"IHDR", header), (b"IDAT", zlib.compress(body)), (b"IEND", b"")):
        blank += (
            struct.pack(">I", len(chunk))
            + kind
            + chunk
            + struct.pack(">I", zlib.crc32(kind + chunk))
        )
    return blank


def huge_jpeg():
    data = encoded("JPEG")
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", 65000, 65000) + data[at + 4 :]


def pyramid():
    data = io.BytesIO()
    with tifffile.TiffWriter(data) as tif:
        tif.write(noisy(), subifds=1)
        tif.write(noisy()[::2, ::2], subfiletype=1)
    return data.getvalue()


def cut_imagej():
    data = tiff_bytes(noisy(frames=(4,), dtype=np.uint16), imagej=True)
    return data[: int(0.6 * len(data))]


def damaged_strips():
    data = bytearray(tiff_bytes(noisy(dtype=np.uint16), rowsperstrip=8, metadata=None))
    count = struct.unpack("<H", data[8:10])[0]
    for k in range(count):
        at = 10 + 12 * k
        if struct.unpack("<H", data[at : at + 2])[0] == 279:
            data[at + 2] = 0x7F
    return bytes(data)


def ome_bytes():
    pixels = noisy(frames=(3, 2), dtype=np.uint16)
    return tiff_bytes(pixels, ome=True, photometric="minisblack", metadata={"axes": "ZCYX"})


def pages_bytes(count=4, **options):
    """Pages one after the other, with nothing that says how many there are."""
    data = io.BytesIO()
    with tifffile.TiffWriter(data) as tif:
        for k in range(count):
            tif.write(noisy(seed=k), metadata=None, contiguous=False, **options)
    return data.getvalue()


def first_page_alone(data):
    """A file of several pages whose first says that no other follows, as one that was not written to its end."""
    (start,) = struct.unpack("<I", data[4:8])
    end = start + 2 + 12 * struct.unpack("<H", data[start : start + 2])[0]
    return data[:end] + bytes(4) + data[end + 4 :]


def with_tag(data, code, value):
    """A small TIFF file with another value of a tag of its first page, a number."""
    (start,) = struct.unpack("<I", data[4:8])
    for k in range(struct.unpack("<H", data[start : start + 2])[0]):
        at = start + 2 + 12 * k
        if struct.unpack("<H", data[at : at + 2])[0] == code:
            kind = {3: "<HH", 4: "<I"}[struct.unpack("<H", data[at + 2 : at + 4])[0]]
            numbers = (value, 0) if kind == "<HH" else (value,)
            return data[: at + 8] + struct.pack(kind, *numbers) + data[at + 12 :]
    raise AssertionError(f"tag {code} is missing")


def tag_of(data, code):
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        return tif.pages[0].tags[code].value


def second_page(data):
    """Where it begins."""
    (start,) = struct.unpack("<I", data[4:8])
    end = start + 2 + 12 * struct.unpack("<H", data[start : start + 2])[0]
    return struct.unpack("<I", data[end : end + 4])[0]


def pages_in_a_circle():
    data = pages_bytes(2)
    at = second_page(data)
    end = at + 2 + 12 * struct.unpack("<H", data[at : at + 2])[0]
    return data[:end] + data[4:8] + data[end + 4 :]


def page_without_an_end():
    """tifffile would take the last bytes of the file for the place of the next one, and never stop."""
    data = pages_bytes(2)
    at = second_page(data)
    return data[:at] + struct.pack("<H", 2000) + data[at + 2 :] + struct.pack("<I", at)


def pages_that_share_a_strip(pages=60, side=8192):
    """72 KB that would be 4 GB: one strip that compresses well, and many pages that it belongs to."""
    strip = zlib.compress(bytes(side * side), 9)
    data = b"II*\0" + struct.pack("<I", 8 + len(strip)) + strip
    tags = [(256, 4, side), (257, 4, side), (258, 3, 8), (259, 3, 8), (262, 3, 1), (273, 4, 8),
            (277, 3, 1), (278, 4, side), (279, 4, len(strip))]  # fmt: skip
    for k in range(pages):
        following = len(data) + 6 + 12 * len(tags)
        data += struct.pack("<H", len(tags))
        for code, kind, value in tags:
            data += struct.pack("<HHI", code, kind, 1)
            data += struct.pack("<HH", value, 0) if kind == 3 else struct.pack("<I", value)
        data += struct.pack("<I", following if k < pages - 1 else 0)
    return data


def pages_of_several_compressions():
    """OME, where the first page says that it is not compressed, and the others are."""
    pixels = noisy(frames=(3,))
    data = tiff_bytes(pixels, ome=True, photometric="minisblack", compression="packbits")
    return with_tag(data, 259, 1)


def jpeg_in_tiff(change=lambda image: image):
    """A TIFF file around a JPEG image."""
    data = tiff_bytes(noisy(channels=3), photometric="rgb", compression="jpeg", metadata=None)
    start, length = tag_of(data, 273)[0], tag_of(data, 279)[0]
    image = change(data[start : start + length])
    return with_tag(data[:start] + image.ljust(length, b"\0") + data[start + length :], 279, len(image))  # fmt: skip


def larger_jpeg(image):
    at = image.index(b"\xff\xc0") + 5
    return image[:at] + struct.pack(">HH", 60000, 60000) + image[at + 4 :]


def bmp_of_size(width, height):
    return encoded("BMP")[:18] + struct.pack("<II", width, height) + encoded("BMP")[26:]


def gif_of_size(width, height):
    """A GIF file whose screen is larger than its image."""
    return encoded("GIF")[:6] + struct.pack("<HH", width, height) + encoded("GIF")[10:]


def npy_of_shape(shape):
    return npy_bytes(noisy()).replace(str(SHAPE).encode(), str(shape).encode()).replace(b" " * len(str(shape)) + b"\n", b" " * len(str(SHAPE)) + b"\n")  # fmt: skip


def fits_with(card, value, data=None):
    data = data or fits_bytes()
    at = data.index(card.ljust(8).encode() + b"=")
    return data[:at] + f"{card:8}= {value:>20}".ljust(80).encode() + data[at + 80 :]


def png_with(chunks):
    """A PNG file of 4 x 4 gray pixels with these chunks after its header."""
    header = (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0))
    blank = b"\x89PNG\r\n\x1a\n"
    for kind, body in (header, *chunks, (b"IEND", b"")):
        blank += (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )
    return blank


BAD = {
    "cut.tif": (cut_imagej(), "the file is damaged: it holds 1 of 4 images"),
    "cut.ome.tif": (ome_bytes()[: int(0.6 * len(ome_bytes()))], "the file is damaged: it ends before its last tag"),
    "first.ome.tif": (first_page_alone(ome_bytes()), "the file is damaged: it holds 1 of 6 images"),
    "counts.ome.tif": (ome_bytes().replace(b'SizeT="1"', b'SizeT="9"'), "it holds 6 of 54 images"),
    "cut_pages.tif": (pages_bytes()[: int(0.6 * len(pages_bytes()))], "the file is damaged: it ends before its last p"),
    "cut_deflated.tif": (pages_bytes(compression="zlib")[:-2500], "the file is damaged: it ends before its last p"),
    "cut_shaped.tif": (tiff_bytes(noisy(frames=(4,)), photometric="minisblack")[:5000], "the file is damaged: it ends before its last p"),
    "first_shaped.tif": (first_page_alone(tiff_bytes(noisy(frames=(4,)), photometric="minisblack", compression="zlib")), "it holds 1 of 4 images"),
    "endless.tif": (page_without_an_end(), "the file is damaged: it ends before its last "),
    "circle.tif": (pages_in_a_circle(), "the file is damaged: its pages form a loop"),
    "bomb.tif": (pages_that_share_a_strip(), "its header claims 60 pages of 8192 x 8192 pixels in 7"),
    "several.ome.tif": (pages_of_several_compressions(), "its pages differ in how they are stored"),
    "cut_jpeg.tif": (jpeg_in_tiff(lambda image: image[:900]), "an embedded JPEG image is truncated"),
    "large_jpeg.tif": (jpeg_in_tiff(larger_jpeg), "an embedded image is larger than its header claims"),
    "no_strip.tif": (with_tag(tiff_bytes(noisy(), metadata=None), 279, 0), "some of its pixels are missing"),
    "lerc.tif": (tiff_bytes(noisy(), compression="lerc"), "its compression is LERC; expected none, LZW"),
    "half.bmp": (encoded("BMP")[:2000], "the file is damaged: "),
    "huge.bmp": (bmp_of_size(60_000, 60_000), "expected no more than is safe to open"),
    "stencil.bmp": (Image.fromarray(noisy() > 128), "its pixels are black or white; expected gray or color"),
    "short.png": (png_with([(b"IDAT", zlib.compress(bytes(15)))]), "it holds 15 of 20 bytes of pixels"),
    "long.png": (png_with([(b"IDAT", zlib.compress(bytes(25)))]), "it holds 25 of 20 bytes of pixels"),
    "palette.png": (png_with([(b"PLTE", bytes(4)), (b"IDAT", zlib.compress(bytes(20)))]), "its chunks are inconsistent"),
    "garbage.png": (png_with([(b"IDAT", b"\x78\x9cgarbage")]), "its pixels cannot be decompressed"),
    "huge.npy": (npy_of_shape((900_000, 900_000)), "the file is damaged: "),
    "negative.fits": (fits_with("NAXIS1", -5), "the file is damaged: its header has the sizes [-5, 40]"),
    "huge.fits": (fits_with("ZNAXIS1", 10**9, compressed_fits()), "expected no more than is safe to open"),
    "cut_compressed.fits": (compressed_fits()[:-3000], "the file is damaged: it is truncated"),
    "cut.fits": (fits_bytes()[:-3000], "the file is damaged: it is truncated"),
    "tail.fits": (fits_bytes() + b"garbage" * 500, "the file is damaged: the data after byte"),
    "strips.tif": (damaged_strips(), "the file is damaged: "),
    "empty.png": (b"", "the file is empty; expected an image"),
    "noise.png": (bytes(range(256)) * 4, "is not an image in a supported format; expected PNG, as its name ends in .png"),
    "text.npy": (b"1 2 3\n4 5 6\n", "is not an image in a supported format; expected NPY"),
    "half.png": (encoded("PNG")[:2000], "the file is damaged: it is truncated"),
    "flipped.png": (encoded("PNG")[:1000] + b"?" + encoded("PNG")[1001:], "a checksum is wrong"),
    "half.jpg": (encoded("JPEG", quality=95)[:2000], "the file is damaged: "),
    "half.webp": (encoded("WEBP", lossless=True)[:2000], "the file is damaged: "),
    "half.tif": (tiff_bytes(noisy(dtype=np.uint16), compression="zlib")[:1500], "the file is damaged: "),
    "half.npy": (npy_bytes(noisy())[:1000], "the file is damaged: "),
    "half.fits": (fits_bytes()[:6000], "the file is damaged: "),
    "headless.fits": (fits_bytes()[:1000], "the file is damaged: "),
    "huge.png": (png_of_size(100_000, 100_000), "100000 x 100000 pixels in 69 bytes; expected no more than is safe to open"),
    "large.png": (png_of_size(4000, 4000), "its header claims 4000 x 4000 pixels; expected no more than its"),
    "huge.jpg": (huge_jpeg(), "expected no more than is safe to open"),
    "animated.png": (apng(), "the file is an animation; expected a single image"),
    "animated.webp": (animated_webp(), "the file is an animation; expected a single image"),
    "stencil.tif": (tiff_bytes(noisy() > 128), "its pixels are black or white; expected gray or color"),
    "palette.tif": (tiff_bytes(noisy(), colormap=np.zeros((3, 256), np.uint16)), "its colors are in a palette"),
    "pyramid.tif": (pyramid(), "it is a pyramid of images; expected one resolution"),
    "objects.npy": (npy_bytes(np.array([["a"]])), "its pixels are of type <U1; expected numbers"),
    "complex.npy": (npy_bytes(np.zeros((9, 9), complex)), "its pixels are of type complex128; expected numbers"),
    "nothing.npy": (npy_bytes(np.zeros((0, 9))), "it has no pixels; expected at least one"),
    "half.gif": (encoded("GIF")[:900], "the file is damaged: it is truncated"),
    "huge.gif": (gif_of_size(60_000, 60_000), "expected no more than is safe to open"),
    "half.tga": (encoded("TGA")[:900], "the file is damaged: "),
    "half.jp2": (encoded("JPEG2000")[:900], "a box is longer than the file; expected whole boxes"),
    "short.pbm": (b"P4\n9 2\n\0\0\0", "the file is damaged: its header claims 2 x 2 pixels, 4 bytes, but it has 3"),
    "letter.pbm": (b"P1\n2 2\n0 1 x 0", "the file is damaged: a pixel is not a number"),
    "gray.pbm": (b"P1\n2 2\n0 1 2 0", "the file is damaged: a pixel is 2, above 1"),
    "short.pgm": (b"P5\n9 9\n255\n" + bytes(80), "its header claims 9 x 9 pixels, 81 bytes, but it has 80"),
    "huge.pgm": (b"P5\n99999 99999\n255\n" + bytes(80), "its header claims 99999 x 99999 pixels"),
    "words.ppm": (b"P3\n1 1\n255\n1 2 x", "the file is damaged: a pixel is not a number"),
    "above.pgm": (b"P2\n1 1\n100\n101", "the file is damaged: a pixel is 101, above 100"),
    "several.pgm": (2 * b"P5\n2 2\n255\nabcd", "it holds several images; expected a single image"),
    "half.fits.gz": (gzip.compress(fits_bytes())[:1000], "the file is damaged: "),
    "half.fits.bz2": (bz2.compress(fits_bytes())[:1000], "the file is damaged: "),
    "photo.xyz": (encoded("PNG"), "the suffix of the file is .xyz; expected one of .bmp, "),
    "nothing": (b"abc", "the suffix of the file is empty; expected one of"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_unsupported_files_get_one_sentence_and_nothing_is_written(tmp_path, capsys, name):
    content, sentence = BAD[name]
    if isinstance(content, Image.Image):
        content.save(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    assert main(["denoise", str(tmp_path / name), "--method", "fast"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if line != "compiling for this CPU, once ..."]
    assert len(lines) == 1
    assert lines[0].startswith(f"nlridge: {tmp_path / name}: ")
    assert sentence in lines[0]
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("cut", [10, 60, 200, 500])
@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "bmp", "tif", "npy", "fits"])
def test_files_cut_off_anywhere(tmp_path, capsys, kind, cut):
    content = {
        "png": encoded("PNG"), "jpg": encoded("JPEG"), "webp": encoded("WEBP"), "bmp": encoded("BMP"),
        "tif": tiff_bytes(noisy(dtype=np.uint16)), "npy": npy_bytes(noisy()), "fits": fits_bytes(),
    }[kind]  # fmt: skip
    file = tmp_path / f"cut.{kind}"
    file.write_bytes(content[:cut])
    assert main(["denoise", str(file), "--quiet"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert [left.name for left in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("cut", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["ome", "imagej", "shaped", "pages", "deflated", "tiled", "jpeg"])
def test_stacks_cut_off_anywhere(tmp_path, kind, cut):
    content = {
        "ome": ome_bytes(),
        "imagej": tiff_bytes(noisy(frames=(4,)), imagej=True),
        "shaped": tiff_bytes(noisy(frames=(4,)), photometric="minisblack"),
        "pages": pages_bytes(),
        "deflated": pages_bytes(compression="zlib"),
        "tiled": pages_bytes(tile=(16, 16)),
        "jpeg": pages_bytes(compression="jpeg"),
    }[kind]
    file = tmp_path / "cut.tif"
    file.write_bytes(content)
    assert read(file).layers[0].pixels.shape[-2:] == SHAPE
    file.write_bytes(content[: int(cut * len(content))])
    with pytest.raises(ValueError, match="damaged"):
        read(file)


@pytest.mark.parametrize(
    "name", [name for name in BAD if name.endswith(".tif") and name != "bomb.tif"]
)
def test_unsupported_tiff_files_are_refused_in_tiles_too(tmp_path, capsys, name):
    (tmp_path / name).write_bytes(BAD[name][0])
    assert main(["denoise", str(tmp_path / name), "--method", "fast", "--tile", "64"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"nlridge: {tmp_path / name}: ")
    assert said.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.slow
def test_a_decompression_bomb_takes_no_memory(tmp_path):
    """A file of 72 KB that would be 4 GB in memory."""
    file = tmp_path / "bomb.tif"
    file.write_bytes(pages_that_share_a_strip())
    assert file.stat().st_size < 80_000
    program = (
        PEAK
        + """
from pathlib import Path
import nlridge.files.formats.tiff
before = peak()
try:
    nlridge.files.read(Path(sys.argv[1]))
except ValueError:
    print(peak() - before)
"""
    )
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, check=True)
    assert float(done.stdout) < 20


def test_a_compressed_file_is_not_unpacked_beyond_what_is_safe(tmp_path, monkeypatch):
    monkeypatch.setattr(damage, "_SAFE", 2**20)
    file = tmp_path / "bomb.fits.gz"
    file.write_bytes(gzip.compress(fits_bytes() + bytes(2**24)))
    unpacked = []
    read_part = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, size: unpacked.append(size) or read_part(self, size))  # fmt: skip
    with pytest.raises(
        ValueError, match=r"it holds more than \d+ bytes, compressed to \d+; expected"
    ):
        read(file)
    assert sum(unpacked) < 2**23


def test_pages_may_share_small_data(tmp_path):
    file = tmp_path / "shared.tif"
    file.write_bytes(pages_that_share_a_strip(pages=3, side=64))
    assert read(file).layers[0].pixels.shape == (3, 64, 64)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_reading_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "image.png")
    with pytest.raises(ValueError, match="is not a regular file; expected one"):
        read(tmp_path / "image.png")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["png", "jpg", "webp", "bmp", "tif", "npy", "fits", "fits.gz", "jp2"]
)
def test_each_format_in_a_fresh_process(tmp_path, kind):
    """The tests import libraries that a process may not have imported yet."""
    file = tmp_path / f"image.{kind}"
    write(file, Picture("", [Layer(noisy(channels=3 if kind == "webp" else None), "YXC" if kind == "webp" else "YX")]))  # fmt: skip
    command = [sys.executable, "-m", "nlridge", "denoise", file, "--method", "fast", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if "compiling" not in line]
    assert lines == []
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "done"
    (before,), (after,) = (read(tmp_path / name).layers for name in (file.name, f"image_denoised.{kind}"))  # fmt: skip
    assert after.pixels.dtype == before.pixels.dtype
    assert after.pixels.shape == before.pixels.shape
    assert_cleaned(before.pixels, after.pixels, LEFT.get(kind, 0.5))


@pytest.mark.slow
def test_without_astropy_the_message_says_how_to_install_it(tmp_path):
    (tmp_path / "sky.fits").write_bytes(fits_bytes())
    program = """
import sys
sys.modules["astropy"] = None
from nlridge.apps.cli import main
sys.exit(main(["denoise", sys.argv[1]]))
"""
    command = [sys.executable, "-c", program, tmp_path / "sky.fits"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "FITS files need astropy, which is not installed: pip install astropy\n" in done.stderr


@pytest.mark.slow
def test_libraries_print_nothing_to_the_terminal(tmp_path):
    chunk = (b"iCCP", b"sRGB\0\0" + zlib.compress(PROFILE))  # of colors, in a gray image
    (tmp_path / "gray.png").write_bytes(with_chunks(imagecodecs.png_encode(noisy()), [chunk]))
    (tmp_path / "half.fits").write_bytes(fits_bytes()[:6000])
    (tmp_path / "half.tif").write_bytes(tiff_bytes(noisy(dtype=np.uint16))[:1500])
    Image.fromarray(noisy()).save(tmp_path / "exif.jpg", exif=b"Exif\0\0garbagegarbage")
    command = [
        sys.executable,
        "-m",
        "nlridge",
        "denoise",
        str(tmp_path),
        "--method",
        "fast",
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert [line.split(": ")[0] for line in done.stderr.splitlines()] == ["nlridge"] * 2


def test_a_library_out_of_memory_says_so():
    """Some allocate whatever a damaged file claims, and raise a MemoryError without a message."""
    with (
        pytest.raises(MemoryError, match="more than fits in memory"),
        convert_errors("the file is damaged"),
    ):
        raise MemoryError

"""GIF, JPEG 2000, Netpbm, TGA and compressed FITS files; files with wrong names, and what is kept of captions."""

import bz2
import gzip

import imagecodecs
import numpy as np
import pytest
import tifffile
from command_line import names, run, save
from image_files import PROFILE, SHAPE, exif, fits_bytes, noisy
from PIL import Image, IptcImagePlugin

from nlridge.apps.cli import main
from nlridge.apps.jobs.paths import known_suffixes
from nlridge.files import read, suffixes, write
from nlridge.files.boxes import box, boxes
from nlridge.files.iptc import as_segment, with_segments

CAPTION = b"\x1c\x02\x78\0\x09a caption" + b"\x1c\x02\x74\0\x0b(c) someone"


def rewritten(path, name=None, change=lambda pixels: pixels):
    """Write what is read from a file; returns the new path and the notes."""
    picture = read(path)
    for layer in picture.layers:
        object.__setattr__(layer, "pixels", change(layer.pixels))
    target = path.with_name(name or f"new_{path.name}")
    return target, [*picture.notes, *write(target, picture)]


# GIF.


def frames(count=3, mode="RGB"):
    pixels = noisy(channels=len(mode), frames=(count,))
    if mode == "RGBA":
        pixels[..., 3] = np.where(np.arange(SHAPE[1]) < 20, 0, 255)
    return [Image.fromarray(frame) for frame in pixels]


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_the_frames_of_a_gif_are_a_sequence(tmp_path, mode):
    first, *others = frames(mode=mode)
    path = tmp_path / "a.gif"
    first.save(path, save_all=True, append_images=others, duration=[50, 120, 70], loop=3, comment=b"a comment", disposal=2)  # fmt: skip
    (layer,) = read(path).layers
    assert layer.axes == "TYXC"
    target, notes = rewritten(path)
    assert "the colors of each frame are reduced to 256 in GIF files" in notes
    with Image.open(path) as before, Image.open(target) as after:
        assert after.n_frames == before.n_frames == 3
        assert after.info["loop"] == 3
        assert after.info["comment"] == b"a comment"
        for number, duration in enumerate([50, 120, 70]):
            before.seek(number)
            after.seek(number)
            assert after.info["duration"] == duration
            one, other = (np.asarray(image.convert("RGBA")) for image in (before, after))
            np.testing.assert_array_equal(one[..., 3], other[..., 3])
            seen = one[..., 3] > 0
            assert np.abs(one[seen].astype(int) - other[seen]).mean() < 3


def test_frames_that_are_alike_are_kept(tmp_path):
    path = tmp_path / "a.gif"
    first, *others = frames()
    first.save(path, save_all=True, append_images=others, duration=50)
    target, _ = rewritten(path, change=np.zeros_like)
    assert read(target).layers[0].pixels.shape[0] == 3


def test_a_gray_gif_is_kept_exactly(tmp_path):
    Image.fromarray(noisy()).save(tmp_path / "a.gif")
    target, notes = rewritten(tmp_path / "a.gif")
    assert notes == []
    np.testing.assert_array_equal(read(target).layers[0].pixels, noisy())


def test_an_animation_is_denoised_frame_by_frame_in_time(tmp_path, capsys):
    first, *others = frames()
    first.save(tmp_path / "a.gif", save_all=True, append_images=others, duration=50)
    assert run(tmp_path / "a.gif") == 0
    assert "denoised together in time" in capsys.readouterr().out
    with Image.open(tmp_path / "a_denoised.gif") as image:
        assert image.n_frames == 3


# JPEG 2000.


@pytest.mark.parametrize(("dtype", "bits"), [("u1", 8), ("u2", 16), ("u2", 12)])
@pytest.mark.parametrize("channels", [None, 2, 3, 4])
def test_jpeg_2000_keeps_depth_and_metadata(tmp_path, dtype, bits, channels):
    pixels = noisy(channels=channels, dtype=dtype) >> (8 * np.dtype(dtype).itemsize - bits)
    data = imagecodecs.jpeg2k_encode(
        pixels, level=0, reversible=True, bitspersample=bits, codecformat="jp2"
    )
    parts = []
    for name, content in boxes(data):
        if name == b"jp2h":
            content = b"".join(box(n, b"\x02\0\0" + PROFILE if n == b"colr" else c) for n, c in boxes(content))  # fmt: skip
        parts.append(box(name, content))
    extra = box(b"xml ", b"<a/>") + box(b"uuid", b"JpgTiffExif->JP2", exif(6).removeprefix(b"Exif\0\0"))  # fmt: skip
    path = tmp_path / "a.jp2"
    path.write_bytes(b"".join(parts) + extra)
    picture = read(path)
    assert picture.profile == PROFILE
    assert picture.turn == 6
    target, notes = rewritten(path)
    assert notes == []
    code = dict(boxes(target.read_bytes()))[b"jp2c"]
    np.testing.assert_array_equal(imagecodecs.jpeg2k_decode(code), pixels)
    again = read(target)
    assert (again.profile, again.turn, again.exif) == (PROFILE, 6, picture.exif)
    assert (b"xml ", b"<a/>") in list(boxes(target.read_bytes()))
    with Image.open(target) as image:  # another reader takes it for a proper file
        image.load()
        assert image.size == SHAPE[::-1]


# Netpbm.


def test_the_largest_value_of_a_netpbm_file_is_kept(tmp_path):
    pixels = (noisy(dtype=np.uint16) >> 4).astype(">u2")
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5 # of a camera\n%d %d\n4095\n" % SHAPE[::-1] + pixels.tobytes())
    target, _ = rewritten(path, change=lambda pixels: pixels + 3000)
    assert target.read_bytes().startswith(b"P5\n# of a camera\n56 40\n4095\n")
    np.testing.assert_array_equal(read(target).layers[0].pixels, np.minimum(pixels + 3000, 4095))


@pytest.mark.parametrize("channels", [None, 3])
def test_netpbm_files_of_text_stay_text(tmp_path, channels):
    pixels = noisy(channels=channels, dtype=np.uint16)
    path = tmp_path / "a.pnm"
    text = " ".join(map(str, pixels.ravel()))
    path.write_bytes(b"P%d %d %d # of text\n65535 %s\n" % (3 if channels else 2, *SHAPE[::-1], text.encode()))  # fmt: skip
    np.testing.assert_array_equal(read(path).layers[0].pixels, pixels)
    target, _ = rewritten(path)
    np.testing.assert_array_equal(read(target).layers[0].pixels, pixels)
    assert target.read_bytes().isascii()


def test_a_gray_image_becomes_a_ppm_of_colors_and_colors_no_pgm(tmp_path):
    save(tmp_path / "a.png")
    assert run(tmp_path / "a.png", "-o", tmp_path / "a.ppm") == 0
    assert (tmp_path / "a.ppm").read_bytes().startswith(b"P6\n")
    with pytest.raises(ValueError, match="PGM files store gray images; expected a PPM"):
        write(tmp_path / "b.pgm", read(tmp_path / "a.ppm"))
    with pytest.raises(ValueError, match="PBM files store black or white; expected"):
        write(tmp_path / "b.pbm", read(tmp_path / "a.ppm"))


@pytest.mark.parametrize("plain", [True, False])
def test_a_pbm_file_stays_black_and_white(tmp_path, plain):
    black = noisy() > 128
    rows = np.packbits(black, axis=1).tobytes()
    text = "\n".join("".join(map(str, row)) for row in black.astype(int)).encode()
    path = tmp_path / "a.pbm"
    path.write_bytes(b"P%d # a page\n%d %d\n" % (1 if plain else 4, *SHAPE[::-1]) + (text if plain else rows))  # fmt: skip
    np.testing.assert_array_equal(read(path).layers[0].pixels, np.where(black, 0, 255))
    target, _ = rewritten(path, change=lambda pixels: pixels // 2 + 60)  # 60 and 187
    assert target.read_bytes().startswith(b"P1\n# a page\n" if plain else b"P4\n# a page\n")
    np.testing.assert_array_equal(read(target).layers[0].pixels, np.where(black, 0, 255))
    assert run(path, "--sigma", 60, "-o", tmp_path / "a.pgm") == 0
    assert len(np.unique(read(tmp_path / "a.pgm").layers[0].pixels)) > 2


# TGA.


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P"])
@pytest.mark.parametrize("compression", [None, "tga_rle"])
def test_tga(tmp_path, mode, compression):
    image = Image.fromarray(noisy(channels=4)).convert(mode)
    path = tmp_path / "a.tga"
    image.save(path, compression=compression, id_section=b"a note")
    target, notes = rewritten(path)
    with Image.open(path) as before, Image.open(target) as after:
        shown = "RGB" if mode == "P" else mode
        assert after.mode == shown
        np.testing.assert_array_equal(np.asarray(before.convert(shown)), np.asarray(after))
        if mode != "P":
            assert after.info == before.info
    assert notes == (["the palette was converted to colors"] if mode == "P" else [])


# FITS files that are compressed as a whole.


@pytest.mark.parametrize(("name", "library"), [("a.fits.gz", gzip), ("a.fits.bz2", bz2)])
def test_compressed_fits_files_stay_compressed(tmp_path, name, library):
    (tmp_path / name).write_bytes(library.compress(fits_bytes()))
    assert main(["denoise", str(tmp_path / name), "--method", "fast"]) == 0
    target = tmp_path / name.replace("a.", "a_denoised.")
    unpacked = library.decompress(target.read_bytes())
    assert unpacked.startswith(b"SIMPLE  =")
    assert len(unpacked) == len(fits_bytes())


# Names that say something else than the content.


WRONG = [
    ("a.png", "JPEG"),
    ("a.jpg", "WEBP"),
    ("a.webp", "JPEG"),
    ("a.tif", "PNG"),
    ("a.bmp", "GIF"),
    ("a.png", "TIFF"),
    ("a.fits", "PPM"),
]


@pytest.mark.parametrize(("name", "kind"), WRONG)
def test_files_are_read_by_their_content_and_written_by_their_name(tmp_path, capsys, name, kind):
    path = tmp_path / name
    channels = None if name == "a.fits" else 3
    with open(path, "wb") as file:
        Image.fromarray(noisy(channels=channels)).save(file, kind)
    assert run(path) == 0
    said = capsys.readouterr().out
    assert f"though its name ends in {path.suffix}" in said
    target = tmp_path / name.replace("a.", "a_denoised.")
    assert not any("though" in note for note in read(target).notes)
    assert read(target).layers[0].pixels.shape[:2] == SHAPE


def test_a_compressed_fits_file_without_the_suffix_is_read(tmp_path):
    (tmp_path / "a.fits").write_bytes(gzip.compress(fits_bytes()))
    target, _ = rewritten(tmp_path / "a.fits")
    assert target.read_bytes().startswith(b"SIMPLE  =")


# Folders.


def test_a_folder_says_what_was_skipped(tmp_path, capsys):
    save(tmp_path / "a.png")
    for name in ("notes.txt", "old.psd", ".hidden.txt", "b_denoised.txt"):
        (tmp_path / name).write_text("something else")
    assert run(tmp_path) == 0
    said = capsys.readouterr()
    sentence = (
        "nlridge: note: 2 files were skipped, as their formats are not known: notes.txt, old.psd"
    )
    assert sentence in said.err.splitlines()
    assert run(tmp_path, "--overwrite", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert main(["noise", str(tmp_path)]) == 0
    assert sentence in capsys.readouterr().err.splitlines()


def test_many_skipped_files_are_counted(tmp_path, capsys):
    save(tmp_path / "a.png")
    for k in range(9):
        (tmp_path / f"{k}.txt").write_text("something else")
    (tmp_path / "nothing").write_text("something else")
    assert run(tmp_path) == 0
    assert "10 files were skipped, as their formats are not known: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 5 others (.txt, no suffix)" in capsys.readouterr().err  # fmt: skip


def test_messages_name_every_suffix(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty") == 1
    said = capsys.readouterr().err
    assert all(f" {suffix}" in said for suffix in known_suffixes())
    (tmp_path / "a.xyz").write_text("something else")
    with pytest.raises(
        ValueError, match=r"the suffix of the file is \.xyz; expected one of"
    ) as error:
        read(tmp_path / "a.xyz")
    assert all(f" {suffix}" in str(error.value) for suffix in suffixes())


def test_raw_files_of_unknown_kinds_are_refused_in_words(tmp_path):
    pytest.importorskip("rawpy")
    (tmp_path / "a.dng").write_bytes(b"II*\0" + bytes(2000))
    with pytest.raises(ValueError, match="LibRaw does not know this kind of raw file"):
        read(tmp_path / "a.dng")
    assert ".gpr" not in suffixes()


# Captions.


def caption_of(path):
    with Image.open(path) as image:
        info = IptcImagePlugin.getiptcinfo(image)
        return None if info is None else (info[2, 120], info[2, 116])


def with_caption(path):
    image = Image.fromarray(noisy(channels=3))
    if path.suffix == ".tif":
        tag = (33723, 7, len(CAPTION), CAPTION, False)
        tifffile.imwrite(path, noisy(channels=3), photometric="rgb", metadata=None, extratags=[tag])
    else:
        image.save(path, exif=exif(), icc_profile=PROFILE)
        path.write_bytes(with_segments(path.read_bytes(), as_segment(CAPTION)))
    assert caption_of(path) == (b"a caption", b"(c) someone")
    return path


@pytest.mark.parametrize("target", ["new.jpg", "new.tif"])
@pytest.mark.parametrize("source", ["old.jpg", "old.tif"])
def test_captions_and_copyright_are_kept(tmp_path, capsys, source, target):
    path = with_caption(tmp_path / source)
    assert run(path, "-o", tmp_path / target) == 0
    assert "IPTC" not in capsys.readouterr().out
    assert caption_of(tmp_path / target) == (b"a caption", b"(c) someone")


def test_all_that_photoshop_wrote_is_kept_as_it_is(tmp_path):
    path = with_caption(tmp_path / "a.jpg")
    resource = b"Photoshop 3.0\x008BIM\x04\x0b\0\0\0\0\0\x05a urlx"
    other = b"\xff\xed" + (2 + len(resource)).to_bytes(2, "big") + resource
    path.write_bytes(with_segments(path.read_bytes(), other))
    target, notes = rewritten(path)
    assert notes == []
    assert as_segment(CAPTION) in target.read_bytes()
    assert other in target.read_bytes()


@pytest.mark.parametrize("name", ["new.png", "new.webp", "new.bmp"])
def test_captions_that_are_lost_are_mentioned(tmp_path, name):
    _, notes = rewritten(with_caption(tmp_path / "a.jpg"), name)
    assert any("cannot store the IPTC data" in note for note in notes)


# Lookup tables.

TABLE = np.stack([np.arange(256), np.zeros(256), np.arange(256)[::-1]]).astype(np.uint8)
TABLES = {
    "composite": {"metadata": {"axes": "ZCYX", "LUTs": [TABLE, TABLE[::-1]], "mode": "composite"}},
    "single": {"metadata": {"axes": "ZYX", "LUTs": [TABLE]}},
    "palette": {"metadata": {"axes": "ZYX"}, "colormap": TABLE.astype(np.uint16) * 257},
}


@pytest.mark.parametrize("kind", TABLES)
def test_lookup_tables_of_imagej_are_kept(tmp_path, capsys, kind):
    path = tmp_path / "a.tif"
    pixels = noisy(frames=(3, 2) if kind == "composite" else (3,))
    tifffile.imwrite(path, pixels, imagej=True, **TABLES[kind])
    assert run(path) == 0
    assert "lookup tables" not in capsys.readouterr().out
    for one, other in zip(*map(tables_of, (path, tmp_path / "a_denoised.tif")), strict=True):
        np.testing.assert_array_equal(one, other)
    assert run(path, "-o", tmp_path / "b.npy") == 0
    assert "the lookup tables, by which gray values are shown in color, were dropped" in capsys.readouterr().out  # fmt: skip
    assert "b.npy" in names(tmp_path)


def tables_of(path):
    with tifffile.TiffFile(path) as file:
        found = file.imagej_metadata.get("LUTs", [])
        maps = [page.colormap for page in file.pages if page.aspage().colormap is not None]
        tables = [*np.atleast_3d(np.array(found)), *maps]
        assert tables
        return tables

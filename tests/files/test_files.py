"""Image files of every format: everything but the noise is kept, or its loss is reported."""

import struct
import zlib

import imagecodecs
import numpy as np
import pytest
from astropy.io import fits
from image_files import (
    LEFT,
    PROFILE,
    SHAPE,
    assert_cleaned,
    compressed_fits,
    denoised,
    exif,
    fits_bytes,
    noisy,
    png_chunks,
    with_chunks,
)
from PIL import Image

from nlridge import to_dtype
from nlridge.apps.cli import main
from nlridge.files import Layer, Picture, read, write
from nlridge.files.orientation import turn_of

# PNG.


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [None, 2, 3, 4])
def test_png(tmp_path, dtype, channels):
    pixels = noisy(channels=channels, dtype=dtype)
    chunks = [
        (b"gAMA", struct.pack(">I", 45455)),
        (b"iCCP", b"sRGB\0\0" + zlib.compress(PROFILE)),
        (b"pHYs", struct.pack(">IIB", 3937, 3937, 1)),
        (b"tEXt", b"Author\0somebody"),
        (b"eXIf", exif().removeprefix(b"Exif\0\0")),
    ]
    file = tmp_path / "image.png"
    file.write_bytes(with_chunks(imagecodecs.png_encode(pixels), chunks))
    target = denoised(file)
    after = imagecodecs.png_decode(target.read_bytes())
    colors = slice(None) if channels not in (2, 4) else slice(None, -1)
    if channels in (2, 4):
        np.testing.assert_array_equal(after[..., -1], pixels[..., -1])  # transparency
        assert_cleaned(pixels[..., colors], after[..., colors])
    else:
        assert_cleaned(pixels, after)
    written = png_chunks(target.read_bytes())
    assert all(chunk in written for chunk in chunks)
    with Image.open(target) as image:
        image.load()
        assert image.info["icc_profile"] == PROFILE
        assert image.info["Author"] == "somebody"


@pytest.mark.parametrize("transparent", [False, True])
def test_png_with_a_palette(tmp_path, transparent):
    file = tmp_path / "image.png"
    picture = Image.fromarray(noisy(channels=3)).quantize(64)
    picture.save(file, **({"transparency": 3} if transparent else {}))
    target = denoised(file)
    with Image.open(file) as before, Image.open(target) as after:
        mode = "RGBA" if transparent else "RGB"
        assert after.mode == mode
        seen = np.asarray(before.convert(mode))
        if transparent:
            np.testing.assert_array_equal(np.asarray(after)[..., 3], seen[..., 3])
        assert_cleaned(seen[..., :3], np.asarray(after)[..., :3])


def test_sixteen_bit_color_is_never_reduced_to_eight(tmp_path):
    pixels = noisy(channels=3, dtype=np.uint16)
    file = tmp_path / "image.png"
    file.write_bytes(imagecodecs.png_encode(pixels))
    after = imagecodecs.png_decode(denoised(file).read_bytes())
    assert after.dtype == np.uint16
    assert len(np.unique(after % 257)) > 100  # not 8 bits spread over 16
    assert main(["denoise", str(file), "-o", str(tmp_path / "image.jpg"), "--quiet"]) == 1
    assert not (tmp_path / "image.jpg").exists()


# JPEG, WebP and BMP.


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("orientation", [1, 6, 8])
def test_jpeg(tmp_path, mode, orientation):
    file = tmp_path / "photo.jpg"
    channels = {"L": None, "RGB": 3, "CMYK": 4}[mode]
    picture = Image.fromarray(
        noisy(channels=channels), **({"mode": mode} if mode == "CMYK" else {})
    )
    picture.save(
        file, quality=98, subsampling=0, exif=exif(orientation), icc_profile=PROFILE, dpi=(300, 300),
        comment=b"hello", progressive=True,
    )  # fmt: skip
    target = denoised(file)
    with Image.open(file) as before, Image.open(target) as after:
        assert after.mode == mode
        assert_cleaned(np.asarray(before), np.asarray(after))
        assert dict(after.getexif()) == dict(before.getexif())
        assert after.getexif()[0x0112] == orientation  # a viewer turns it as before
        assert after.info["icc_profile"] == PROFILE
        assert after.info["dpi"] == (300, 300)
        assert after.info["comment"] == b"hello"
        assert after.info["progressive"] == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_that_becomes_a_png_is_upright(tmp_path, orientation):
    from PIL import ImageOps

    file = tmp_path / "photo.jpg"
    Image.fromarray(noisy(channels=3)).save(file, quality=98, subsampling=0, exif=exif(orientation))
    target = denoised(file, "--sigma", "0.0001", output=tmp_path / "photo.png")  # next to nothing
    with Image.open(file) as before, Image.open(target) as after:
        upright = ImageOps.exif_transpose(before)
        np.testing.assert_array_equal(np.asarray(upright), np.asarray(after))
        assert after.getexif()[0x0112] == 1
        assert after.getexif()[0x010F] == "A camera"


def test_a_jpeg_with_damaged_exif_data(tmp_path):
    file = tmp_path / "photo.jpg"
    Image.fromarray(noisy(channels=3)).save(file, quality=95, exif=b"Exif\0\0garbagegarbage")
    report = ["--report", str(tmp_path / "report.html")]
    assert denoised(file, *report, output=tmp_path / "photo.png").exists()


def test_a_gray_jpeg_that_is_four_pixels_wide(tmp_path):
    file = tmp_path / "thin.jpg"
    Image.fromarray(noisy()[:, :4]).save(file, quality=95)
    with Image.open(denoised(file)) as after:
        assert after.size == (4, 40)


def test_exif_data_that_end_too_early_are_no_reason_for_a_warning(recwarn):
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a description"
    data = exif.tobytes()
    assert turn_of(data) == 6
    assert {turn_of(data[:length]) for length in range(len(data))} <= {1, 6}
    assert not recwarn.list


def test_exif_is_kept_from_png_to_jpeg_and_losses_are_reported(tmp_path, capsys):
    file = tmp_path / "photo.png"
    chunk = (b"eXIf", exif().removeprefix(b"Exif\0\0"))
    file.write_bytes(with_chunks(imagecodecs.png_encode(noisy()), [chunk]))
    with Image.open(denoised(file, output=tmp_path / "photo.jpg")) as after:
        assert after.getexif()[0x010F] == "A camera"
    with Image.open(denoised(file, output=tmp_path / "photo.tif")) as after:
        assert after.getexif()[0x010F] == "A camera"
    assert main(["denoise", str(file), "--method", "fast", "-o", str(tmp_path / "photo.bmp")]) == 0
    assert "BMP files cannot store the EXIF data" in capsys.readouterr().out


@pytest.mark.parametrize("lossless", [False, True])
def test_webp_stays_lossy_or_lossless(tmp_path, lossless):
    file = tmp_path / "photo.webp"
    Image.fromarray(noisy(channels=3)).save(file, lossless=lossless)
    assert (b"VP8L" in denoised(file).read_bytes()[:64]) == lossless


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_webp(tmp_path, mode):
    file = tmp_path / "photo.webp"
    pixels = noisy(channels=len(mode))
    Image.fromarray(pixels).save(file, lossless=True, exact=True, exif=exif(), icc_profile=PROFILE)
    target = denoised(file)
    with Image.open(target) as after:
        seen = np.asarray(after)
        assert after.mode == mode
        assert_cleaned(pixels[..., :3], seen[..., :3])
        if mode == "RGBA":
            np.testing.assert_array_equal(seen[..., 3], pixels[..., 3])
        assert after.info["icc_profile"] == PROFILE
        assert after.getexif()[0x010F] == "A camera"


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_bmp(tmp_path, mode):
    file = tmp_path / "scan.bmp"
    pixels = noisy(channels=None if mode == "L" else len(mode))
    if mode == "RGBA":  # Pillow reads the transparency only if masks say where it is
        alpha, colors = pixels[..., 3], pixels[..., :3]
        write(file, Picture("", [Layer(colors, "YXC")], alpha=alpha))
    else:
        Image.fromarray(pixels).save(file, dpi=(300, 300))
    with Image.open(denoised(file)) as after:
        seen = np.asarray(after)
        assert after.mode == mode
        if mode == "RGBA":
            np.testing.assert_array_equal(seen[..., 3], alpha)
            assert_cleaned(colors, seen[..., :3])
        else:
            assert_cleaned(pixels, seen)
            np.testing.assert_allclose(after.info["dpi"], 300, rtol=1e-3)


def test_bmp_with_a_palette_becomes_one_of_colors(tmp_path):
    file = tmp_path / "scan.bmp"
    Image.fromarray(noisy(channels=3)).quantize(64).save(file)
    picture = read(file)
    assert picture.notes == ["the palette was converted to colors"]
    with Image.open(file) as before:
        np.testing.assert_array_equal(picture.layers[0].pixels, np.asarray(before.convert("RGB")))


def test_bmp_reports_that_the_profile_is_lost(tmp_path):
    picture = Picture("png", [Layer(noisy(), "YX")], profile=PROFILE)
    assert write(tmp_path / "x.bmp", picture) == ["BMP files cannot store the color profile"]


# NPY and FITS.


@pytest.mark.parametrize("dtype", ["u1", ">u2", "i4", "u8", "f2", "f4", ">f8"])
def test_npy(tmp_path, dtype):
    file = tmp_path / "image.npy"
    pixels = noisy(dtype=dtype)
    np.save(file, pixels)
    after = np.load(denoised(file))
    assert after.dtype == np.dtype(dtype)
    assert_cleaned(pixels, after)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ({"channels": 5}, ["--channel-axis", "-1"]),
        ({"frames": (2,)}, ["--stack-axis", "0"]),
        ({"channels": 3, "frames": (2,)}, ["--stack-axis", "0", "--channel-axis", "3"]),
    ],
)
def test_npy_with_axes(tmp_path, shape, options, capsys):
    pixels = noisy(**shape, dtype=np.float32)
    file = tmp_path / "image.npy"
    np.save(file, pixels)
    assert main(["denoise", str(file), "--quiet"]) == 1
    assert "expected 2, or --channel-axis or --stack-axis" in capsys.readouterr().err
    after = np.load(denoised(file, *options))
    assert after.dtype == pixels.dtype
    planes = [
        a if shape.get("channels") is None else np.moveaxis(a, -1, 0) for a in (pixels, after)
    ]
    assert_cleaned(*planes)


@pytest.mark.parametrize("dtype", ["i2", "u2", "f4", "f8"])
def test_fits(tmp_path, dtype):
    pixels = noisy(dtype=dtype)
    file = tmp_path / "sky.fits"
    image = fits.PrimaryHDU(pixels)
    image.header["OBJECT"] = ("M 31", "a galaxy")
    image.header["EXPTIME"] = 12.5
    table = fits.BinTableHDU.from_columns([fits.Column("x", "J", array=np.arange(3))])
    fits.HDUList([image, table]).writeto(file)
    with fits.open(file) as before, fits.open(denoised(file)) as after:
        assert after[0].header["OBJECT"] == "M 31"
        assert after[0].header.comments["OBJECT"] == "a galaxy"
        assert after[0].header["EXPTIME"] == 12.5
        np.testing.assert_array_equal(after[1].data["x"], [0, 1, 2])
        assert [after[0].header["BITPIX"], after[0].data.shape] == [
            before[0].header["BITPIX"],
            SHAPE,
        ]
        assert_cleaned(np.asarray(before[0].data), np.asarray(after[0].data))


def test_fits_with_a_compressed_image(tmp_path):
    file = tmp_path / "sky.fits"
    file.write_bytes(compressed_fits())
    with fits.open(denoised(file)) as after:
        assert isinstance(after[1], fits.CompImageHDU)
        assert_cleaned(noisy(dtype=np.int16), after[1].data)


def test_fits_with_missing_integers(tmp_path, capsys):
    pixels = noisy(dtype=np.int16)
    pixels[3, 4] = -1
    file = tmp_path / "sky.fits"
    image = fits.PrimaryHDU(pixels)
    image.header["BLANK"] = -1
    image.writeto(file, checksum=True)
    assert main(["denoise", str(file), "--method", "fast"]) == 0
    assert "were converted to floats" in capsys.readouterr().out
    with fits.open(tmp_path / "sky_denoised.fits", checksum=True) as after:
        assert "BLANK" not in after[0].header
        assert np.isnan(after[0].data[3, 4])
        assert np.isnan(after[0].data).sum() == 1


@pytest.mark.parametrize(
    "card", ["DATE-OBS= 2020-01-01", "RA      = 12:30:01.5", "exptime = 3.0", "TEMP    = nan"]
)
def test_fits_with_a_card_that_is_not_standard(tmp_path, card):
    data = fits_bytes()
    at = data.index(b"END     ")
    file = tmp_path / "sky.fits"
    file.write_bytes(data[:at] + card.ljust(80).encode() + data[at : at + 80] + data[at + 160 :])
    with fits.open(denoised(file)) as after:
        assert after[0].data.shape == SHAPE


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_values_are_rounded_and_clipped_never_wrapped(dtype):
    limits = np.iinfo(dtype)
    values = np.array([float(limits.min) - 1e3, -0.4, 1.5, 2.5001, float(limits.max) * 1.1])
    np.testing.assert_array_equal(
        to_dtype(values, np.dtype(dtype)), np.array([limits.min, 0, 2, 3, limits.max], dtype)
    )


# From one format to another.


@pytest.mark.parametrize("source", ["png", "tif", "npy", "fits", "webp", "bmp"])
@pytest.mark.parametrize("target", ["png", "jpg", "tif", "npy", "fits", "webp", "bmp"])
def test_any_format_into_any_other(tmp_path, source, target):
    pixels = noisy() if source != "webp" else noisy(channels=3)
    axes = "YX" if pixels.ndim == 2 else "YXC"
    file = tmp_path / f"image.{source}"
    write(file, Picture("", [Layer(pixels, axes)]))
    done = denoised(file, "--format", target, output=tmp_path / "out")
    written = done / f"image.{target}"
    (layer,) = read(written, "YXC" if target in ("npy", "fits") and axes == "YXC" else None).layers
    assert layer.pixels.shape[:2] == SHAPE
    brightness = [a.mean(axis=-1) if a.ndim == 3 else a for a in (pixels, layer.pixels)]
    assert_cleaned(*(a.astype(float) for a in brightness), LEFT.get(source, 0.5))


@pytest.mark.parametrize(
    ("pixels", "axes", "name", "sentence"),
    [
        (np.zeros((9, 9), np.float32), "YX", "x.png", "PNG files cannot store float32; expected uint8 or uint16"),
        (np.zeros((9, 9), np.uint16), "YX", "x.jpg", "JPEG files cannot store uint16; expected uint8"),
        (np.zeros((2, 9, 9), np.uint8), "TYX", "x.png", "PNG files store a single image; expected a TIFF file"),
        (np.zeros((9, 9), np.float16), "YX", "x.fits", "FITS files cannot store float16; expected float32"),
        (np.zeros((9, 9), np.uint16), "YX", "x.bmp", "BMP files cannot store uint16; expected uint8"),
        (np.zeros((9, 9, 5), np.uint8), "YXC", "x.webp", "WebP files cannot store 5 channels; expected a TIFF"),
    ],
)  # fmt: skip
def test_what_a_format_cannot_hold(tmp_path, pixels, axes, name, sentence):
    with pytest.raises(ValueError, match=sentence):
        write(tmp_path / name, Picture("", [Layer(pixels, axes)]))
    assert not list(tmp_path.iterdir())


# The formats of telephones.


@pytest.mark.parametrize(("mode", "bits"), [("L", 8), ("RGB", 8), ("RGBA", 8), ("RGB", 10), ("RGB", 12)])  # fmt: skip
def test_heif_files_keep_depth_profile_and_exif(tmp_path, mode, bits):
    heif = pytest.importorskip("pillow_heif")
    shape = (64, 80) if mode == "L" else (64, 80, len(mode))
    y, x = np.mgrid[:64, :80]
    clean = 120 + 50 * np.sin(x / 9) * np.cos(y / 8)
    pixels = np.clip(np.broadcast_to(clean if mode == "L" else clean[..., None], shape) + np.random.default_rng(0).normal(0, 12, shape), 0, 255)  # fmt: skip
    stored = pixels.astype(np.uint8) if bits == 8 else (pixels * 256).astype(np.uint16)
    source = heif.from_bytes(mode if bits == 8 else f"{mode};16", (80, 64), stored.tobytes())
    heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    source.save(tmp_path / "a.heic", quality=-1, chroma=444, exif=exif(6), icc_profile=PROFILE)
    heif.options.SAVE_HDR_TO_12_BIT = False
    result = denoised(tmp_path / "a.heic")
    before, after = (heif.open_heif(path, convert_hdr_to_8bit=False) for path in (tmp_path / "a.heic", result))  # fmt: skip
    assert after.info["bit_depth"] == before.info["bit_depth"] == bits
    assert after.size == before.size == (64, 80)  # turned
    assert after.info["icc_profile"] == PROFILE
    with Image.open(denoised(tmp_path / "a.heic", output=tmp_path / "b.png")) as image:
        assert image.getexif()[0x010F] == "A camera"
        assert image.getexif()[0x0112] == 1
        assert image.size == (64, 80)
    colors = np.asarray(after) if mode == "L" else np.asarray(after)[..., :3]
    colors = colors / (1 if bits == 8 else 256)
    truth = np.rot90(clean, -1) if mode == "L" else np.rot90(clean, -1)[..., None]
    assert np.std(colors - truth) < 0.7 * 12


@pytest.mark.parametrize("orientation", [1, 6])
def test_avif_files_keep_orientation_profile_and_exif(tmp_path, orientation):
    file = tmp_path / "a.avif"
    Image.fromarray(noisy(channels=3)).save(
        file, quality=95, subsampling="4:4:4", exif=exif(orientation), icc_profile=PROFILE
    )
    with Image.open(file) as before, Image.open(denoised(file)) as after:
        assert after.size == before.size
        assert after.info["icc_profile"] == PROFILE
        assert after.getexif().get(0x0112, 1) == orientation
        assert after.getexif()[0x010F] == "A camera"
        assert np.std(np.asarray(before).astype(float) - np.asarray(after)) > 3


@pytest.mark.parametrize("transparent", [False, True])
def test_gray_avif_files_stay_gray(tmp_path, transparent):
    pixels = np.linspace(0, 255, 40 * 50).reshape(40, 50).astype(np.uint8)
    picture = Picture(
        "", [Layer(pixels, "YX")], alpha=pixels.T.reshape(40, 50) if transparent else None
    )
    write(tmp_path / "a.avif", picture)
    again = read(tmp_path / "a.avif")
    assert again.layers[0].axes == "YX"
    np.testing.assert_allclose(again.layers[0].pixels, pixels, atol=3)
    if transparent:
        np.testing.assert_allclose(again.alpha, picture.alpha, atol=3)


def test_avif_files_of_more_bits_keep_them(tmp_path):
    file = tmp_path / "a.avif"
    pixels = (noisy(channels=3).astype(np.uint16) * 4) + 1
    file.write_bytes(imagecodecs.avif_encode(pixels, level=95, bitspersample=10))
    picture = read(file)
    assert picture.layers[0].pixels.dtype == np.uint16
    result = imagecodecs.avif_decode(denoised(file).read_bytes())
    assert result.dtype == np.uint16
    assert 255 < result.max() < 1024

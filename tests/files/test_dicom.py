"""DICOM files: a derived image of the same patient, and what is refused."""

import imagecodecs
import numpy as np
import pytest
from format_examples import denoised, dicom_dataset, dicom_metadata, noisy

import nlridge
from nlridge.apps.cli import main
from nlridge.files import Layer, Picture, read, write
from nlridge.files.formats import dicom

pydicom = pytest.importorskip("pydicom")


def saved_dicom(path, data):
    data.save_as(path, enforce_file_format=True)
    return path


@pytest.mark.slow
def test_dicom_is_a_derived_image_of_the_same_patient(tmp_path):
    path = saved_dicom(tmp_path / "a.dcm", dicom_dataset(noisy()))
    before, after = pydicom.dcmread(path), pydicom.dcmread(denoised(path))
    assert dicom_metadata(path) == dicom_metadata(denoised(path))
    assert after.SOPInstanceUID == after.file_meta.MediaStorageSOPInstanceUID
    assert after.SOPInstanceUID != before.SOPInstanceUID
    assert after.SeriesInstanceUID != before.SeriesInstanceUID
    assert after.ImageType == ["DERIVED", "PRIMARY", "AXIAL"]
    assert after.DerivationDescription == f"Denoised with nlridge {nlridge.__version__}"
    (reference,) = after.SourceImageSequence
    assert reference.ReferencedSOPInstanceUID == before.SOPInstanceUID
    assert (after.RescaleSlope, after.RescaleIntercept) == (1, -1024)
    assert 4 < np.std(after.pixel_array.astype(float) - before.pixel_array) < 9


def test_slices_of_one_series_stay_in_one_series(tmp_path):
    for k in range(3):
        data = dicom_dataset(noisy(seed=k), SOPInstanceUID=f"1.2.3.4.{k}")
        saved_dicom(tmp_path / f"{k}.dcm", data)
    other = dicom_dataset(noisy(), SeriesInstanceUID="1.2.3.6", SOPInstanceUID="1.2.3.4.9")
    saved_dicom(tmp_path / "9.dcm", other)
    out = tmp_path / "out"
    assert main(["denoise", str(tmp_path), "-o", str(out), "--method", "fast", "--quiet"]) == 0
    written = [pydicom.dcmread(file) for file in sorted(out.iterdir())]
    series = [data.SeriesInstanceUID for data in written]
    assert series[0] == series[1] == series[2] != series[3]
    assert len({data.SOPInstanceUID for data in written}) == 4


@pytest.mark.parametrize(
    ("syntax", "encode"),
    [
        ("JPEGLossless", lambda a: imagecodecs.ljpeg_encode(a)),
        ("JPEGLosslessSV1", lambda a: imagecodecs.ljpeg_encode(a)),
        ("JPEGLSLossless", lambda a: imagecodecs.jpegls_encode(a)),
        ("JPEG2000Lossless", lambda a: imagecodecs.jpeg2k_encode(a, level=0, reversible=True, codecformat="j2k")),
        ("RLELossless", None),
    ],
)  # fmt: skip
def test_compressed_dicom_is_read_and_written_uncompressed(tmp_path, syntax, encode):
    pixels = noisy("u2")
    data = dicom_dataset(pixels, BitsStored=12, HighBit=11)
    uid = getattr(pydicom.uid, syntax)
    if encode is None:
        data.compress(uid, pixels, encoding_plugin="pydicom")
    else:
        data.PixelData = pydicom.encaps.encapsulate([encode(pixels)])
        data["PixelData"].VR = "OB"
        data["PixelData"].is_undefined_length = True
        data.file_meta.TransferSyntaxUID = uid
    path = saved_dicom(tmp_path / "a.dcm", data)
    picture = read(path)
    np.testing.assert_array_equal(picture.layers[0].pixels, pixels)
    assert picture.layers[0].pixels.dtype == np.uint16
    assert "are written uncompressed" in picture.notes[0]
    write(tmp_path / "b.dcm", picture)
    after = pydicom.dcmread(tmp_path / "b.dcm")
    assert after.file_meta.TransferSyntaxUID == pydicom.uid.ExplicitVRLittleEndian
    np.testing.assert_array_equal(after.pixel_array, pixels)


def test_signed_values_of_a_codec_without_signs(tmp_path):
    pixels = noisy() - 100
    data = dicom_dataset(pixels, BitsStored=12, HighBit=11)
    stored = (pixels & 0xFFF).astype(np.uint16)
    data.PixelData = pydicom.encaps.encapsulate([imagecodecs.jpegls_encode(stored)])
    data["PixelData"].VR = "OB"
    data["PixelData"].is_undefined_length = True
    data.file_meta.TransferSyntaxUID = pydicom.uid.JPEGLSLossless
    picture = read(saved_dicom(tmp_path / "a.dcm", data))
    np.testing.assert_array_equal(picture.layers[0].pixels, pixels)


def test_padding_and_the_range_of_stored_bits_of_dicom(tmp_path):
    pixels = noisy()
    pixels[:5] = -2000
    path = saved_dicom(tmp_path / "a.dcm", dicom_dataset(pixels, PixelPaddingValue=-2000))
    after = pydicom.dcmread(denoised(path)).pixel_array
    assert (after[:5] == -2000).all()
    assert after[5:].min() > -2000
    bright = dicom_dataset(noisy("u2"), BitsStored=12, HighBit=11)
    picture = read(saved_dicom(tmp_path / "b.dcm", bright))
    picture.layers[0].pixels[:] = 5000
    write(tmp_path / "c.dcm", picture)
    assert pydicom.dcmread(tmp_path / "c.dcm").pixel_array.max() == 4095


@pytest.mark.parametrize(
    ("elements", "sentence"),
    [
        ({"BitsAllocated": 12}, "its pixels have 12 bits; expected 1, 8, 16, 32 or 64"),
        ({"Rows": 60_000, "Columns": 60_000}, "expected no more than is safe to open"),
        ({"NumberOfFrames": 10**9}, "expected no more than is safe to open"),
        ({"PixelData": b"\0" * 10}, "the file is damaged"),
    ],
)
def test_dicom_that_cannot_be_denoised(tmp_path, elements, sentence):
    path = saved_dicom(tmp_path / "a.dcm", dicom_dataset(noisy(), **elements))
    with pytest.raises(ValueError, match=sentence):
        read(path)


@pytest.mark.parametrize("frames", [1, 2])
def test_black_and_white_become_shades(tmp_path, frames):
    bits = np.random.default_rng(0).integers(0, 2, (frames, 15, 13), np.uint8)
    packed = np.packbits(bits, bitorder="little").tobytes()
    one = {"BitsAllocated": 1, "BitsStored": 1, "HighBit": 0, "PixelRepresentation": 0}
    data = dicom_dataset(bits[0], **one, NumberOfFrames=frames)
    data.PixelData = packed + b"\0" * (len(packed) % 2)
    picture = read(saved_dicom(tmp_path / "a.dcm", data))
    np.testing.assert_array_equal(picture.layers[0].pixels, 255 * bits.reshape(picture.layers[0].pixels.shape))  # fmt: skip
    assert picture.notes == ["black and white were converted to shades from 0 to 255"]
    picture.layers[0].pixels[..., 0, 0] = 100
    write(tmp_path / "b.dcm", picture)
    after = pydicom.dcmread(tmp_path / "b.dcm")
    assert (after.BitsAllocated, after.BitsStored, after.HighBit) == (8, 8, 7)
    np.testing.assert_array_equal(after.pixel_array, picture.layers[0].pixels)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_palette_becomes_colors(tmp_path, bits):
    indices = np.arange(256, dtype=np.uint8).reshape(16, 16)
    data = dicom_dataset(indices, PhotometricInterpretation="PALETTE COLOR")
    tables = np.random.default_rng(0).integers(0, 2**bits, (3, 256)).astype(f"<u{bits // 8}")
    for color, table in zip(("Red", "Green", "Blue"), tables, strict=True):
        setattr(data, f"{color}PaletteColorLookupTableDescriptor", [256, 0, bits])
        setattr(data, f"{color}PaletteColorLookupTableData", table.tobytes())
    path = saved_dicom(tmp_path / "a.dcm", data)
    picture = read(path)
    np.testing.assert_array_equal(picture.layers[0].pixels, tables.T[indices])
    assert picture.layers[0].axes == "YXC"
    assert "the palette was converted to colors" in picture.notes
    write(tmp_path / "b.dcm", picture)
    written = pydicom.dcmread(tmp_path / "b.dcm")
    assert written.PhotometricInterpretation == "RGB"
    assert not written.dir("PaletteColor")
    np.testing.assert_array_equal(written.pixel_array, tables.T[indices])


needs_high_throughput = pytest.mark.skipif(
    not hasattr(imagecodecs, "HTJ2K") or not imagecodecs.HTJ2K.available,
    reason="imagecodecs has no HTJ2K",
)


def high_throughput(path):
    data = dicom_dataset(noisy("u2"))
    coded = imagecodecs.htj2k_encode(noisy("u2"))
    data.PixelData = pydicom.encaps.encapsulate([coded])
    data["PixelData"].VR, data["PixelData"].is_undefined_length = "OB", True
    data.file_meta.TransferSyntaxUID = pydicom.uid.HTJ2KLossless
    return saved_dicom(path, data)


@needs_high_throughput
def test_high_throughput_jpeg_2000(tmp_path):
    picture = read(high_throughput(tmp_path / "a.dcm"))
    np.testing.assert_array_equal(picture.layers[0].pixels, noisy("u2"))


@needs_high_throughput
def test_a_missing_decoder_is_named(tmp_path, monkeypatch):
    path = high_throughput(tmp_path / "a.dcm")
    monkeypatch.setitem(dicom._CODECS, str(pydicom.uid.HTJ2KLossless), "nothing_decode")
    decoder = pydicom.pixels.get_decoder(pydicom.uid.HTJ2KLossless)
    monkeypatch.setattr(decoder, "_available", {})
    with pytest.raises(ImportError, match=r"High-Throughput JPEG 2000.*pylibjpeg-openjpeg"):
        read(path)


def test_a_compression_that_nothing_decodes_is_named(tmp_path):
    data = dicom_dataset(noisy("u2"))
    data.PixelData = pydicom.encaps.encapsulate([b"abcd"])
    data["PixelData"].VR, data["PixelData"].is_undefined_length = "OB", True
    data.file_meta.TransferSyntaxUID = pydicom.uid.MPEG2MPML
    with pytest.raises(
        ValueError, match=r"are compressed as MPEG2.*; expected another compression"
    ):
        read(saved_dicom(tmp_path / "a.dcm", data))


def test_a_dicom_file_whose_colors_are_unknown_is_refused(tmp_path):
    data = dicom_dataset(np.zeros((16, 16), np.uint16), PhotometricInterpretation="MONOCHROME6")
    data.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ValueError, match="photometric interpretation is 'MONOCHROME6'; expected"):
        read(tmp_path / "a.dcm")


def test_a_rescale_slope_is_mentioned_and_frames_of_several_slopes_are_independent(tmp_path):
    path = saved_dicom(tmp_path / "a.dcm", dicom_dataset(noisy(), RescaleSlope="0.5"))
    assert read(path).notes == ["pixels are stored values, of which one is 0.5 HU (rescale slope)"]
    data = dicom_dataset(noisy(shape=(2, 32, 40)), FrameTime="40")
    del data.RescaleSlope
    data.PerFrameFunctionalGroupsSequence = []
    for slope in ("1", "2"):
        group, item = pydicom.Dataset(), pydicom.Dataset()
        item.RescaleSlope = slope
        group.PixelValueTransformationSequence = [item]
        data.PerFrameFunctionalGroupsSequence.append(group)
    assert read(saved_dicom(tmp_path / "b.dcm", data)).layers[0].axes == "QYX"


def test_an_image_does_not_become_dicom(tmp_path):
    with pytest.raises(ValueError, match="DICOM files need the description of a patient"):
        write(tmp_path / "a.dcm", Picture("", [Layer(noisy(), "YX")]))

"""The contract of file formats, which each of them keeps; and what is particular to those of microscopes and scanners."""

import contextlib
import gc
import gzip
import importlib.metadata
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import imagecodecs
import numpy as np
import pytest
import tifffile
from astropy.io import fits
from format_contract import CHANNELS, SPACING, Example, checks
from fuzz.microscopes import czi_bytes, lif_bytes, nd2_bytes
from PIL import Image

import nlridge.files
from nlridge.cli import main
from nlridge.files import Layer, Picture, broken_plugins, read, suffixes, write

mrcfile = pytest.importorskip("mrcfile")
nibabel = pytest.importorskip("nibabel")
pydicom = pytest.importorskip("pydicom")
h5py = pytest.importorskip("h5py")
pytest.importorskip("czifile", reason="czifile, liffile and nd2 need Python 3.11")


def pillow(path, pixels, axes):
    Image.fromarray(pixels).save(path, **({"quality": 100} if path.suffix != ".bmp" else {}))


def imagej(path, pixels, axes):
    metadata = {"axes": axes, "unit": "um", "spacing": 0.5}
    tifffile.imwrite(path, pixels, imagej=True, resolution=(5, 10), metadata=metadata)


def ome(path, pixels, axes):
    sizes = dict(zip(("PhysicalSizeZ", "PhysicalSizeY", "PhysicalSizeX"), SPACING, strict=True))
    names = {"Channel": {"Name": CHANNELS}}
    tifffile.imwrite(path, pixels, ome=True, metadata={"axes": axes, **sizes, **names})


def mrc(path, pixels, axes):
    with mrcfile.new(path, pixels) as file:
        if axes == "QYX":
            file.set_image_stack()
        file.voxel_size = SPACING[::-1]
        file.add_label("a label")
        file.set_extended_header(np.frombuffer(b"something else", "V1"))


def mrc_metadata(path):
    with mrcfile.open(path) as file:
        kept = [n for n in file.header.dtype.names if n not in ("dmin", "dmax", "dmean", "rms")]
        # The statistics are those of the new pixels.
        assert file.header.dmax == file.data.max()
        assert file.header.rms == pytest.approx(file.data.std(), rel=1e-4)
        return [file.header[name].tobytes() for name in kept], file.extended_header.tobytes()


def nifti(path, pixels, axes):
    affine = np.array([[-0.2, 0.01, 0, 5], [0, 0.1, 0.02, 6], [0, 0, 0.5, 7], [0, 0, 0, 1]])
    image = nibabel.Nifti1Image(pixels.T, affine, dtype=pixels.dtype)
    image.set_qform(np.diag([0.2, 0.1, 0.5, 1]), 1)
    image.set_sform(affine, 2)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = b"a description"
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"a comment"))
    nibabel.save(image, path)


def nifti_metadata(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return content[: int(nibabel.load(path).header["vox_offset"])]


def dicom_dataset(pixels, **elements):
    """A CT image; frames are along the first axis, if there are three."""
    data = pydicom.Dataset()
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = pydicom.uid.CTImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = "1.2.3.4"
    data.StudyInstanceUID, data.SeriesInstanceUID = "1.2.3", "1.2.3.5"
    data.PatientName, data.Modality = "Somebody^Else", "CT"
    data.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    data.RescaleSlope, data.RescaleIntercept, data.RescaleType = "1", "-1024", "HU"
    data.PixelSpacing, data.SpacingBetweenSlices = [SPACING[1], SPACING[2]], SPACING[0]
    data.add_new((0x0011, 0x0010), "LO", "A COMPANY")
    data.add_new((0x0011, 0x1001), "LO", "something private")
    colour = pixels.shape[-1] == 3
    data.Rows, data.Columns = pixels.shape[-3:-1] if colour else pixels.shape[-2:]
    data.SamplesPerPixel = 3 if colour else 1
    data.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
    if colour:
        data.PlanarConfiguration = 0
    if pixels.ndim - colour == 3:
        data.NumberOfFrames = len(pixels)
    data.BitsAllocated = data.BitsStored = 8 * pixels.dtype.itemsize
    data.HighBit, data.PixelRepresentation = data.BitsStored - 1, int(pixels.dtype.kind == "i")
    data.PixelData = pixels.tobytes()
    data["PixelData"].VR = "OW"
    for keyword, value in elements.items():
        setattr(data, keyword, value)
    return data


def dicom(path, pixels, axes):
    times = {"FrameTime": "40"} if axes.startswith("T") else {}
    dicom_dataset(pixels, **times).save_as(path, enforce_file_format=True)


CHANGED = {"SOPInstanceUID", "SeriesInstanceUID", "ImageType", "DerivationDescription", "SourceImageSequence", "PixelData"}  # fmt: skip


def dicom_metadata(path):
    data = pydicom.dcmread(path)
    return {element.tag: element.value for element in data if element.keyword not in CHANGED}


def hdf5(path, pixels, axes):
    with h5py.File(path, "w") as file:
        array = file.create_dataset("entry/data", data=pixels, chunks=True, compression="gzip")
        array.attrs["a note"] = "kept"
        array.attrs["element_size_um"] = SPACING
        for dimension, axis in zip(array.dims, axes, strict=True):
            dimension.label = axis.lower()
        file["entry/table"] = np.arange(5)


def hdf5_metadata(path):
    with h5py.File(path) as file:
        array = file["entry/data"]
        return dict(array.attrs)["a note"], array.compression, array.chunks, file["entry/table"][()].tolist()  # fmt: skip


def by_hand(make):
    def write_file(path, pixels, axes):
        path.write_bytes(make(pixels, axes, spacing=SPACING, channels=CHANNELS))

    return write_file


VOXEL = {"spacing": SPACING, "unit": "µm"}
FORMATS = [
    Example(".png", lambda path, pixels, axes: path.write_bytes(imagecodecs.png_encode(pixels))),
    Example(".jpg", pillow, "u1", tolerance=10),
    Example(".webp", lambda path, pixels, axes: Image.fromarray(pixels).save(path, lossless=True), "u1", "YXC"),
    Example(".bmp", pillow, "u1", "YXC"),
    Example(".jxl", lambda path, pixels, axes: path.write_bytes(imagecodecs.jpegxl_encode(pixels, lossless=True)), axes="YXC"),
    Example(".npy", lambda path, pixels, axes: np.save(path, pixels), "f2", "ZYX", given=True),
    Example(".fits", lambda path, pixels, axes: fits.writeto(path, pixels), "f4", "QYX", given=True, library="astropy", padding=0.04),
    Example(".tif", imagej, "u2", "TZCYX", spacing=SPACING, unit="µm"),
    Example(".ome.tif", ome, "f4", "TZCYX", spacing=SPACING, unit="µm", channels=CHANNELS),
    Example(".mrc", mrc, "f4", "ZYX", spacing=SPACING, unit="Å", library="mrcfile", metadata=mrc_metadata),
    Example(".mrcs", mrc, "i2", "QYX", spacing=SPACING, unit="Å", library="mrcfile", metadata=mrc_metadata),
    Example(".nii", nifti, "i2", "ZYX", spacing=SPACING, unit="mm", library="nibabel", metadata=nifti_metadata),
    Example(".nii.gz", nifti, "f4", "TZYX", spacing=SPACING, unit="mm", library="nibabel", metadata=nifti_metadata),
    Example(".dcm", dicom, "i2", "YX", spacing=SPACING, unit="mm", library="pydicom", metadata=dicom_metadata),
    Example(".dcm", dicom, "u1", "TYXC", spacing=SPACING, unit="mm", library="pydicom", metadata=dicom_metadata),
    Example(".h5", hdf5, "f8", "TZCYX", **VOXEL, library="h5py", metadata=hdf5_metadata),
    Example(".czi", by_hand(czi_bytes), "u2", "TZCYX", **VOXEL, channels=CHANNELS, library="czifile"),
    Example(".lif", by_hand(lif_bytes), "u1", "TZCYX", **VOXEL, channels=CHANNELS, library="liffile"),
    Example(".nd2", by_hand(nd2_bytes), "u2", "TZCYX", spacing=(0.5, 0.2, 0.2), unit="µm", channels=CHANNELS, library="nd2"),
]  # fmt: skip


@pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)
@pytest.mark.parametrize("example", FORMATS, ids=str)
def test_every_format_keeps_the_contract(tmp_path, example, check):
    check(example, tmp_path)


def test_every_format_has_an_example():
    modules = {nlridge.files.format_of(suffix) for suffix in suffixes()}
    examples = {nlridge.files.format_of(example.suffix) for example in FORMATS}
    # What bioio reads is up to its plug-ins. Files of cameras and telephones have tests of their own.
    assert {module.NAME for module in modules - examples} <= {"bioio", "raw", "HEIF", "AVIF"}


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


def test_a_plugin_on_the_command_line(tmp_path, plugins, capsys):
    plugins(raw=plugin())
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


# DICOM.


def saved_dicom(path, data):
    data.save_as(path, enforce_file_format=True)
    return path


def denoised(path, *options):
    """The output of the command line for a file."""
    assert main(["denoise", str(path), "--method", "fast", "--quiet", "--overwrite", *options]) == 0
    (target,) = path.parent.glob("*_denoised.*")
    return target


def noisy(dtype="i2", shape=(32, 40), seed=0):
    ramp = np.linspace(50, 150, int(np.prod(shape))).reshape(shape)
    return (ramp + np.random.default_rng(seed).normal(0, 8, shape)).astype(dtype)


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
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "its colours are in a palette; expected"),
        ({"BitsAllocated": 1}, "its pixels have 1 bits; expected 8, 16, 32 or 64"),
        ({"Rows": 60_000, "Columns": 60_000}, "expected no more than is safe to open"),
        ({"NumberOfFrames": 10**9}, "expected no more than is safe to open"),
        ({"PixelData": b"\0" * 10}, "the file is damaged"),
    ],
)
def test_dicom_that_cannot_be_denoised(tmp_path, elements, sentence):
    path = saved_dicom(tmp_path / "a.dcm", dicom_dataset(noisy(), **elements))
    with pytest.raises(ValueError, match=sentence):
        read(path)


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


# HDF5.


def test_one_of_several_arrays_of_an_hdf5_file(tmp_path, capsys):
    pixels = noisy("f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["raw/left"], file["raw/right"] = pixels, pixels + 50
        file.attrs["sample"] = "liver"
    sentence = "it holds 2 arrays; expected --dataset with one of /raw/left, /raw/right"
    with pytest.raises(ValueError, match=sentence):
        read(tmp_path / "a.h5")
    after = denoised(tmp_path / "a.h5", "--dataset", "/raw/right", "--sigma", "8")
    with h5py.File(after) as file:
        np.testing.assert_array_equal(file["raw/left"], pixels)
        assert 4 < np.std(file["raw/right"][()] - 50 - pixels) < 9
        assert file.attrs["sample"] == "liver"
    for name in ("/raw", "/nothing"):
        words = ["denoise", str(tmp_path / "a.h5"), "--overwrite", "--dataset", name]
        assert main(words) == 1
        assert f"--dataset is {name}; expected the path of an array" in capsys.readouterr().err
    Image.fromarray(noisy("u1")).save(tmp_path / "a.png")
    assert main(["denoise", str(tmp_path / "a.png"), "--dataset", "x"]) == 1
    assert "--dataset is x; expected none for PNG files" in capsys.readouterr().err


def test_a_crash_of_the_hdf5_library_is_an_error_of_the_file(tmp_path, monkeypatch):
    # A file whose damage makes some version of the library crash would not do so with the next.
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = noisy("f4")
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr("nlridge.files.formats.hdf5._REPLACE", crash)
    with pytest.raises(ValueError, match="its array /image cannot be replaced, it may be damaged"):
        write(tmp_path / "b.h5", read(tmp_path / "a.h5"))
    assert [file.name for file in tmp_path.iterdir()] == ["a.h5"]


def test_axes_of_hdf5_files(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("exported_data", data=noisy("u1", (3, 20, 30, 2)))
        array.attrs["axistags"] = (
            '{"axes": [{"key": "t"}, {"key": "y"}, {"key": "x"}, {"key": "c"}]}'
        )
    assert read(tmp_path / "a.h5").layers[0].axes == "TYXC"
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["data"] = noisy("u1", (3, 20, 30))
    with pytest.raises(ValueError, match=r"it has 3 dimensions.*--stack-axis"):
        read(tmp_path / "b.h5")
    assert read(tmp_path / "b.h5", "QYX").layers[0].axes == "QYX"
    write(tmp_path / "c.h5", Picture("", [Layer(noisy("u1", (3, 20, 30)), "ZYX", SPACING, "µm")]))
    (layer,) = read(tmp_path / "c.h5").layers
    assert (layer.axes, layer.spacing) == ("ZYX", pytest.approx(SPACING))


def test_hdf5_arrays_that_are_elsewhere_or_claim_too_much(tmp_path):
    np.zeros(4000, np.uint8).tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        outside = [(str(tmp_path / "secret.bin"), 0, 4000)]
        file.create_dataset("x", (40, 100), "u1", external=outside)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = h5py.ExternalLink("c.h5", "/x")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"] = noisy()
    for name in ("a.h5", "b.h5"):
        with pytest.raises(ValueError, match="is stored in another file; expected that file"):
            read(tmp_path / name, dataset="/x")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("x", (10**6, 10**6), "f4", chunks=(100, 100))
    with pytest.raises(ValueError, match="expected no more than is safe to open"):
        read(tmp_path / "d.h5")


# MRC and NIfTI.


def test_mrc_files_of_other_kinds(tmp_path):
    with mrcfile.new(tmp_path / "a.mrc", noisy("f4", (6, 20, 30))) as file:
        file.header.ispg, file.header.mz = 401, 2  # three volumes of two sections
    (layer,) = read(tmp_path / "a.mrc").layers
    assert (layer.axes, layer.pixels.shape) == ("QZYX", (3, 2, 20, 30))
    mrcfile.write(tmp_path / "b.mrc", noisy("f4"))
    assert read(tmp_path / "b.mrc").layers[0].axes == "YX"
    mrcfile.write(tmp_path / "c.mrc", noisy("c8"))
    with pytest.raises(ValueError, match="its mode is 4; expected one of 0, 1, 2, 6, 12"):
        read(tmp_path / "c.mrc")
    content = bytearray((tmp_path / "b.mrc").read_bytes())
    content[8:12] = (10**6).to_bytes(4, "little")
    (tmp_path / "d.mrc").write_bytes(content)
    with pytest.raises(
        ValueError, match="the file is damaged: its header claims 1000000 x 32 x 40"
    ):
        read(tmp_path / "d.mrc")


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_other_byte_order(tmp_path, order):
    pixels = noisy().astype(f"{order}i2")
    header = nibabel.Nifti1Header(endianness=order)
    nibabel.Nifti1Image(pixels.T, np.eye(4), header, dtype=pixels.dtype).to_filename(
        tmp_path / "a.nii"
    )
    picture = read(tmp_path / "a.nii")
    np.testing.assert_array_equal(picture.layers[0].pixels, pixels)
    write(tmp_path / "b.nii", picture)
    assert (tmp_path / "b.nii").read_bytes() == (tmp_path / "a.nii").read_bytes()


def test_scaled_nifti_keeps_its_scale_and_its_affine_to_the_bit(tmp_path):
    nifti(tmp_path / "a.nii.gz", noisy("i2", (3, 32, 40)), "ZYX")
    content = bytearray(gzip.decompress((tmp_path / "a.nii.gz").read_bytes()))
    content[112:120] = np.array([0.5, -7], "<f4").tobytes()  # slope and intercept
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(content))
    assert read(tmp_path / "a.nii.gz").notes == ["pixels are stored values, of which one is 0.5 (scl_slope)"]  # fmt: skip
    after = denoised(tmp_path / "a.nii.gz")
    assert nifti_metadata(after) == nifti_metadata(tmp_path / "a.nii.gz")
    one, other = nibabel.load(tmp_path / "a.nii.gz"), nibabel.load(after)
    np.testing.assert_array_equal(one.affine, other.affine)
    assert 2 < np.std(one.get_fdata() - other.get_fdata()) < 5  # of a sigma of 8, in steps of 0.5


def test_a_nifti_bomb_is_refused_and_a_wrong_checksum_noticed(tmp_path):
    nifti(tmp_path / "a.nii.gz", noisy("u1", (3, 32, 40)), "ZYX")
    content = bytearray(gzip.decompress((tmp_path / "a.nii.gz").read_bytes()))
    content[42:48] = np.array([30_000, 30_000, 30], "<i2").tobytes()
    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="expected no more than is safe to open"):
        read(tmp_path / "b.nii.gz")
    packed = bytearray((tmp_path / "a.nii.gz").read_bytes())
    packed[-6] ^= 1
    (tmp_path / "c.nii.gz").write_bytes(packed)
    with pytest.raises(ValueError, match="the file is damaged"):
        read(tmp_path / "c.nii.gz")


# Microscopes.


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
    colours = noisy("u1", (20, 30, 3))
    write(tmp_path / "b.ome.tif", Picture("", [Layer(colours, "YXC")]))
    np.testing.assert_array_equal(read(tmp_path / "b.ome.tif").layers[0].pixels, colours)
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


# All of them.


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
    page = (Path(__file__).parent.parent / "docs" / "files.md").read_text("utf-8")
    for suffix in suffixes():
        assert f"`{suffix}`" in page, suffix
    for library in {example.library for example in FORMATS} - {""}:
        assert library in page


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


def test_a_dicom_file_whose_colours_are_unknown_is_refused(tmp_path):
    data = dicom_dataset(np.zeros((16, 16), np.uint16), PhotometricInterpretation="MONOCHROME6")
    data.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ValueError, match="photometric interpretation is 'MONOCHROME6'; expected"):
        read(tmp_path / "a.dcm")


def test_a_damaged_czi_file_is_closed(tmp_path):
    """An open file could not be deleted or replaced on some systems."""
    path = tmp_path / "a.czi"
    path.write_bytes(b"ZISRAWFILE" + b"\xff" * 600)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with pytest.raises(ValueError, match=r"damaged|expected"):
            read(path)
        gc.collect()

"""An example of each file format, and noisy arrays for the tests of files."""

import bz2
import gzip
import io
import struct

import imagecodecs
import numpy as np
import pytest
import tifffile
from astropy.io import fits
from format_contract import CHANNELS, SPACING, Example
from fuzz.microscopes import czi_bytes, lif_bytes, nd2_bytes
from PIL import Image

from nlridge.apps.cli import main

mrcfile = pytest.importorskip("mrcfile")
nibabel = pytest.importorskip("nibabel")
pydicom = pytest.importorskip("pydicom")
h5py = pytest.importorskip("h5py")
pytest.importorskip("czifile", reason="czifile, liffile and nd2 need Python 3.11")


def pillow(path, pixels, axes):
    Image.fromarray(pixels).save(path, **({"quality": 100} if path.suffix != ".bmp" else {}))


def tga_bytes(pixels):
    """A TGA file of colors, the first row at the top."""
    height, width, _ = pixels.shape
    header = struct.pack("<BBBHHBHHHHBB", 0, 0, 2, 0, 0, 0, 0, 0, width, height, 24, 0x20)
    return header + pixels[..., ::-1].tobytes()


def animation(path, pixels, axes):
    first, *others = map(Image.fromarray, pixels)
    first.save(path, save_all=True, append_images=others, duration=70, loop=0)


def duration_of(path):
    with Image.open(path) as image:
        return image.info["duration"], image.info["loop"]


def jpeg_2000(path, pixels, axes):
    kind = "j2k" if path.suffix == ".j2k" else "jp2"
    path.write_bytes(imagecodecs.jpeg2k_encode(pixels, level=0, reversible=True, codecformat=kind))


def netpbm(path, pixels, axes):
    kind, most = b"P6" if pixels.ndim == 3 else b"P5", np.iinfo(pixels.dtype).max
    header = b"%s\n# a comment\n%d %d\n%d\n" % (kind, *pixels.shape[1::-1], most)
    path.write_bytes(header + pixels.astype(pixels.dtype.newbyteorder(">")).tobytes())


def fits_bytes(pixels):
    data = io.BytesIO()
    fits.writeto(data, pixels)
    return data.getvalue()


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
    color = pixels.shape[-1] == 3
    data.Rows, data.Columns = pixels.shape[-3:-1] if color else pixels.shape[-2:]
    data.SamplesPerPixel = 3 if color else 1
    data.PhotometricInterpretation = "RGB" if color else "MONOCHROME2"
    if color:
        data.PlanarConfiguration = 0
    if pixels.ndim - color == 3:
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
    Example(".tga", lambda path, pixels, axes: path.write_bytes(tga_bytes(pixels)), "u1", "YXC"),
    Example(".gif", lambda path, pixels, axes: Image.fromarray(pixels).save(path), "u1"),
    Example(".gif", animation, "u1", "TYX", metadata=duration_of),
    Example(".jp2", jpeg_2000, "u2", "YXC"),
    Example(".j2k", jpeg_2000, "u1"),
    Example(".pgm", netpbm),
    Example(".ppm", netpbm, "u1", "YXC"),
    Example(".pnm", netpbm, "u2", "YXC"),
    Example(".jxl", lambda path, pixels, axes: path.write_bytes(imagecodecs.jpegxl_encode(pixels, lossless=True)), axes="YXC"),
    Example(".npy", lambda path, pixels, axes: np.save(path, pixels), "f2", "ZYX", given=True),
    Example(".fits", lambda path, pixels, axes: fits.writeto(path, pixels), "f4", "QYX", given=True, library="astropy", padding=0.04),
    Example(".fits.gz", lambda path, pixels, axes: fits.writeto(path, pixels), "i2", library="astropy"),
    Example(".fits.bz2", lambda path, pixels, axes: path.write_bytes(bz2.compress(fits_bytes(pixels))), "u2", library="astropy"),
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


def denoised(path, *options):
    """The output of the command line for a file."""
    assert main(["denoise", str(path), "--method", "fast", "--quiet", "--overwrite", *options]) == 0
    (target,) = path.parent.glob("*_denoised.*")
    return target


def noisy(dtype="i2", shape=(32, 40), seed=0):
    ramp = np.linspace(50, 150, int(np.prod(shape))).reshape(shape)
    return (ramp + np.random.default_rng(seed).normal(0, 8, shape)).astype(dtype)

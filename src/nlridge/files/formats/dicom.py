"""DICOM files, read with pydicom; the result is a derived image, with new identifiers and otherwise the same metadata.

Pixels are the stored values, before the rescale slope and intercept, which are kept.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ... import __version__
from ...checks import not_installed
from ...errors import shown
from ...types import Pixels
from ..damage import refuse_too_large
from ..picture import Layer, Picture, checked_spacing

NAME = "DICOM"
SUFFIXES = (".dcm", ".dicom")
KEEPS = ()

_RUN = uuid4().hex  # images of one series that are denoised together form one new series
_PIXELS = "PixelData", "FloatPixelData", "DoubleFloatPixelData"
# Compressions that pydicom needs another library for, and the function of imagecodecs that decodes each of them.
_CODECS = {
    "1.2.840.10008.1.2.4.50": "jpeg8_decode",
    "1.2.840.10008.1.2.4.51": "jpeg_decode",
    "1.2.840.10008.1.2.4.57": "jpeg_decode",
    "1.2.840.10008.1.2.4.70": "jpeg_decode",
    "1.2.840.10008.1.2.4.80": "jpegls_decode",
    "1.2.840.10008.1.2.4.81": "jpegls_decode",
    "1.2.840.10008.1.2.4.90": "jpeg2k_decode",
    "1.2.840.10008.1.2.4.91": "jpeg2k_decode",
    "1.2.840.10008.1.2.4.201": "htj2k_decode",
    "1.2.840.10008.1.2.4.202": "htj2k_decode",
    "1.2.840.10008.1.2.4.203": "htj2k_decode",
}
_JPEG_2000 = ("1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.4.91")
_FIRST_BOX = b"\0\0\0\x0cjP  \r\n\x87\n"
_DESCRIPTION = 1024  # characters of a derivation description


def recognises(head: bytes) -> bool:
    return head[128:132] == b"DICM"


def read(path: Path, axes: str | None) -> Picture:
    data = _pydicom().dcmread(path)
    element = next((name for name in _PIXELS if name in data), None)
    if element is None:
        raise ValueError("it holds no pixels; expected an image")
    _refuse(data, path.stat().st_size)
    syntax = data.file_meta.TransferSyntaxUID
    notes = []
    if syntax.is_compressed and not syntax.is_deflated:
        notes.append(f"compressed pixels ({syntax.name}) are written uncompressed")
    color = data.SamplesPerPixel > 1
    if color and data.PhotometricInterpretation != "RGB":
        notes.append(f"{data.PhotometricInterpretation} colors were converted to RGB")
    pixels = _decoded(data)
    frames = _frames(data)
    palette = data.PhotometricInterpretation == "PALETTE COLOR"
    size = (int(data.Rows), int(data.Columns)) + ((int(data.SamplesPerPixel),) if color else ())
    shape = ((frames,) if frames > 1 else ()) + size
    if pixels.size != math.prod(shape):
        raise ValueError(f"the file is damaged: it has {pixels.size} pixels; expected {shape}")
    pixels = pixels.reshape(shape)
    if palette:
        pixels, color = _pydicom().pixels.apply_color_lut(pixels, data), True
        notes.append("the palette was converted to colors")
    elif data.BitsAllocated == 1:
        pixels = 255 * pixels.astype(np.uint8)
        notes.append("black and white were converted to shades from 0 to 255")
    slopes = set(_values(data, "RescaleSlope"))
    if slopes - {1.0}:
        unit = next(iter(_values(data, "RescaleType", str)), "")
        named = f" {unit}" if unit and unit != "US" else ""
        amounts = " or ".join(f"{slope:g}{named}" for slope in sorted(slopes)[:3])
        notes.append(f"pixels are stored values, of which one is {amounts} (rescale slope)")
    letters = (_frame_axis(data, slopes) if frames > 1 else "") + "YX" + "C" * color
    return Picture(
        "dicom",
        [Layer(pixels, letters, _spacing(data), "mm")],
        negative=data.PhotometricInterpretation == "MONOCHROME1",
        origin=(data, element, pixels),
        notes=notes,
    )


def write(path: Path, picture: Picture, name: Path) -> None:
    pydicom = _pydicom()
    if picture.format != "dicom":
        raise ValueError(
            "DICOM files need the description of a patient and a study; expected a TIFF file"
        )
    source, element, before = picture.origin
    data = pydicom.Dataset(
        source
    )  # the elements are those of the source; only what changes is replaced
    data.file_meta = pydicom.dataset.FileMetaDataset(source.file_meta)
    data.preamble = source.preamble
    pixels = picture.layers[0].pixels
    if "PixelPaddingValue" in data and "C" not in picture.layers[0].axes:
        padding = before == data.PixelPaddingValue
        pixels = np.where(padding, before, pixels)
    if pixels.dtype.kind in "ui" and data.BitsStored < data.BitsAllocated:
        most = 2 ** (data.BitsStored - (pixels.dtype.kind == "i")) - 1
        pixels = np.clip(pixels, -most - 1 if pixels.dtype.kind == "i" else 0, most)
    syntax = source.file_meta.TransferSyntaxUID
    if syntax.is_compressed and not syntax.is_deflated:
        syntax = data.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    order = pixels.dtype.newbyteorder("<" if syntax.is_little_endian else ">")
    content = pixels.astype(order).tobytes()
    del data[element]
    setattr(data, element, content + b"\0" * (len(content) % 2))
    if element == "PixelData":
        data["PixelData"].VR = (
            "OB" if data.BitsAllocated <= 8 and not syntax.is_implicit_VR else "OW"
        )
    if data.PhotometricInterpretation == "PALETTE COLOR":
        data.SamplesPerPixel = 3
        _describe_shades(data, 8 * pixels.dtype.itemsize)
    elif data.BitsAllocated == 1:
        _describe_shades(data, 8)
    if data.SamplesPerPixel > 1:
        data.PhotometricInterpretation = "RGB"
        data.PlanarConfiguration = 0
    for keyword, value in (("Smallest", pixels.min()), ("Largest", pixels.max())):
        if f"{keyword}ImagePixelValue" in data:
            setattr(data, f"{keyword}ImagePixelValue", int(value))
    _derive(pydicom, data)
    data.save_as(path, enforce_file_format=True, overwrite=True)


def _describe_shades(data: Any, bits: int) -> None:
    """Describe the shades that a palette, or black and white, have become."""
    data.BitsAllocated = data.BitsStored = bits
    data.HighBit, data.PixelRepresentation = bits - 1, 0
    names = ("SmallestImagePixelValue", "LargestImagePixelValue", "PixelPaddingValue")
    for keyword in [*names, *(key for key in data.dir("PaletteColor"))]:
        data.pop(keyword, None)


def _derive(pydicom: Any, data: Any) -> None:
    """Mark an image as derived from another, with identifiers of its own."""
    reference = pydicom.Dataset()
    for keyword in ("SOPClassUID", "SOPInstanceUID"):
        setattr(reference, f"Referenced{keyword}", data.get(keyword, ""))
    data.SourceImageSequence = [reference, *data.get("SourceImageSequence", [])]
    data.SOPInstanceUID = pydicom.uid.generate_uid()
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    if "SeriesInstanceUID" in data:
        series = [_RUN, str(data.SeriesInstanceUID)]
        data.SeriesInstanceUID = pydicom.uid.generate_uid(entropy_srcs=series)
    kind = list(data.get("ImageType") or ["", "PRIMARY"])
    data.ImageType = ["DERIVED", *kind[1:]]
    words = [str(data.get("DerivationDescription") or ""), f"Denoised with nlridge {__version__}"]
    data.DerivationDescription = "; ".join(filter(None, words))[-_DESCRIPTION:]
    data.pop("DigitalSignaturesSequence", None)  # signatures of the old pixels


def _refuse(data: Any, size: int) -> None:
    """Refuse images that could not be denoised, or that claim more than the file can hold."""
    for name in (
        "Rows",
        "Columns",
        "SamplesPerPixel",
        "BitsAllocated",
        "PhotometricInterpretation",
    ):
        if data.get(name) in (None, "", 0):
            raise ValueError(f"the file is damaged: it has no {name}")
    if data.BitsAllocated not in (1, 8, 16, 32, 64):
        raise ValueError(f"its pixels have {data.BitsAllocated} bits; expected 1, 8, 16, 32 or 64")
    from pydicom.pixels.common import PhotometricInterpretation

    if data.PhotometricInterpretation not in {known.value for known in PhotometricInterpretation}:
        raise ValueError(
            f"its photometric interpretation is {data.PhotometricInterpretation!r}; expected one that DICOM defines"
        )
    frames = _frames(data)
    numbers = frames * data.Rows * data.Columns * data.SamplesPerPixel
    what = f"{frames} x {data.Rows} x {data.Columns} x {data.SamplesPerPixel} numbers"
    refuse_too_large(what, numbers * data.BitsAllocated // 8, size)


def _decoded(data: Any) -> Pixels:
    """Return the stored values, decoded by pydicom, or by imagecodecs if pydicom lacks a library."""
    syntax = data.file_meta.TransferSyntaxUID
    missing = _missing(syntax) if syntax.is_encapsulated else None
    if missing is None:
        if syntax in _JPEG_2000:
            _expect_boxes_with_an_end(data)
        return np.asarray(data.pixel_array)
    decode = _decoder_of_imagecodecs(syntax)
    if decode is None:
        raise ImportError(
            f"its pixels are compressed as {syntax.name}, for which pydicom needs {missing}; expected them to be installed"
        )
    from pydicom.encaps import generate_frames

    frames = _frames(data)
    images = [decode(frame) for frame in generate_frames(data.PixelData, number_of_frames=frames)]
    if any(image.shape[:2] != (data.Rows, data.Columns) for image in images):
        raise ValueError(f"the file is damaged: its frames are not {data.Rows} x {data.Columns}")
    stack = np.stack(images)
    kind = "i" if data.get("PixelRepresentation") else "u"
    bits = int(data.BitsStored)
    if kind == "i":  # codecs return unsigned values
        wide = stack.astype(np.int64)
        stack = np.where(wide >= 1 << (bits - 1), wide - (1 << bits), wide)
    return stack.astype(f"{kind}{data.BitsAllocated // 8}")


def _expect_boxes_with_an_end(data: Any) -> None:
    """Refuse a frame of JPEG 2000 with a box of length 0, from which pydicom would never go on."""
    from pydicom.encaps import generate_frames

    for frame in generate_frames(data.PixelData, number_of_frames=_frames(data)):
        at = len(_FIRST_BOX) if frame.startswith(_FIRST_BOX[:8]) else len(frame)
        while at < len(frame) and frame[at + 4 : at + 8] != b"jp2c":
            length = int.from_bytes(frame[at : at + 4])
            if length == 0:
                raise ValueError("the file is damaged: one of the boxes of a frame has no end")
            at += length


def _missing(syntax: Any) -> str | None:
    """Return which libraries pydicom lacks to decode a compression; None if it can."""
    from pydicom.pixels import get_decoder

    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        raise ValueError(
            f"its pixels are compressed as {syntax.name}, which pydicom cannot decode; expected another compression"
        ) from None
    if decoder.is_available:
        return None
    # Each says, for example, "pylibjpeg - requires pylibjpeg>=2.0 and pylibjpeg-openjpeg>=2.0".
    return ", or ".join(each.partition(" requires ")[2] for each in decoder.missing_dependencies)


def _decoder_of_imagecodecs(syntax: Any) -> Any:
    """Return the function of imagecodecs that decodes a compression; None if this build has none."""
    import imagecodecs

    name = _CODECS.get(str(syntax), "")
    codec = getattr(imagecodecs, name.removesuffix("_decode").upper(), None)
    available = codec is not None and codec.available
    return getattr(imagecodecs, name) if available else None


def _frame_axis(data: Any, slopes: set[float]) -> str:
    """Return T for frames that follow each other in time, Z for slices, or Q for anything else."""
    positions = {
        tuple(item.get("ImagePositionPatient") or ())
        for group in data.get("PerFrameFunctionalGroupsSequence", [])
        for item in group.get("PlanePositionSequence", [])
    }
    if len(slopes) > 1:
        return "Q"  # frames of different units
    if len(positions) == _frames(data):
        return "Z"
    if data.get("FrameTime") or data.get("FrameTimeVector") or data.get("CineRate"):
        return "T"
    return "Q"


def _spacing(data: Any) -> tuple[float, float, float] | None:
    sizes = next(iter(_values(data, "PixelSpacing", list)), None) or data.get("ImagerPixelSpacing")
    if sizes is None or len(sizes) != 2:
        return None
    depths = [*_values(data, "SpacingBetweenSlices"), *_values(data, "SliceThickness")]
    return checked_spacing(depths[0] if depths else None, *sizes)


def _frames(data: Any) -> int:
    """Return the number of frames."""
    return _as(int, data, "NumberOfFrames") if data.get("NumberOfFrames") else 1


def _values(data: Any, keyword: str, kind: Any = float) -> Iterator[Any]:
    """Yield the values of an element of the image, or of the functional groups of its frames."""
    if data.get(keyword) not in (None, ""):
        yield _as(kind, data, keyword)
    for groups in ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"):
        for group in data.get(groups, []):
            for element in group:
                for item in element.value if element.VR == "SQ" else []:
                    if item.get(keyword) not in (None, ""):
                        yield _as(kind, item, keyword)


def _as(kind: Any, data: Any, keyword: str) -> Any:
    """Return the value of an element, which may have any type in a damaged file, as a certain one."""
    try:
        return kind(data.get(keyword))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"the file is damaged: its {keyword} is {shown(data.get(keyword))}"
        ) from None


def _pydicom() -> Any:
    try:
        import pydicom
    except ImportError:
        raise not_installed("DICOM files need", "pydicom") from None
    return pydicom

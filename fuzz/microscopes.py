"""Small files of formats that no free library writes: CZI, LIF and ND2, as far as readers need them."""

import itertools
import struct
from typing import Any

import numpy as np

Pixels = Any

_CZI_TYPES = {"uint8": 0, "uint16": 1, "float32": 2}
_LIF_AXES = {"X": 1, "Y": 2, "Z": 3, "T": 4}


def czi_bytes(
    pixels: Pixels, axes: str, *, spacing: Any = (), channels: Any = (), pack: Any = None
) -> bytes:
    """A CZI file with a block for each plane; spacing is in micrometres, as Z, Y and X.

    `pack` is the number of a compression and the function that compresses a block.
    """
    compression, compress = pack or (0, bytes)
    distances = "".join(
        f'<Distance Id="{axis}"><Value>{1e-6 * size!r}</Value></Distance>'
        for axis, size in zip("ZYX", spacing, strict=bool(spacing))
    )
    names = "".join(f'<Channel Id="Channel:{k}" Name="{n}"/>' for k, n in enumerate(channels))
    xml = (
        "<ImageDocument><Metadata><Information><Image><Dimensions><Channels>"
        f"{names}</Channels></Dimensions></Image></Information><Scaling><Items>{distances}</Items></Scaling>"
        "</Metadata></ImageDocument>"
    ).encode()
    others = axes[:-2]
    blocks, entries, place = b"", b"", 544
    for number in np.ndindex(*pixels.shape[:-2]):
        plane = pixels[number]
        spans = [(axis, k, 1) for axis, k in zip(others, number, strict=True)]
        spans += [("Y", 0, plane.shape[0]), ("X", 0, plane.shape[1])]
        dimensions = b"".join(
            struct.pack("<4siifi", axis.encode(), start, size, 0.0, size)
            for axis, start, size in reversed(spans)
        )
        kind = _CZI_TYPES[pixels.dtype.name]
        entry = struct.pack("<2siqiiBB4si", b"DV", kind, place, 0, compression, 0, 0, b"", len(spans))  # fmt: skip
        entry += dimensions
        data = compress(np.ascontiguousarray(plane).tobytes())
        body = struct.pack("<iiq", 0, 0, len(data)) + entry
        body = body.ljust(16 + max(240, len(entry)), b"\0") + data
        block = _segment("ZISRAWSUBBLOCK", body)
        blocks, entries, place = blocks + block, entries + entry, place + len(block)
    count = len(entries) // max(len(entry), 1)
    directory = _segment("ZISRAWDIRECTORY", struct.pack("<i124x", count) + entries)
    metadata = _segment("ZISRAWMETADATA", struct.pack("<ii248x", len(xml), 0) + xml)
    header = struct.pack("<iiii16s16siqqiq", 1, 0, 0, 0, b"A" * 16, b"A" * 16, 0, place, place + len(directory), 0, 0)  # fmt: skip
    return _segment("ZISRAWFILE", header.ljust(512, b"\0")) + blocks + directory + metadata


def _segment(name: str, body: bytes) -> bytes:
    return struct.pack("<16sqq", name.encode(), len(body), len(body)) + body


def lif_bytes(pixels: Pixels, axes: str, *, spacing: Any = (), channels: Any = ()) -> bytes:
    """A LIF file with one image; spacing is in micrometres, as Z, Y and X."""
    sizes = dict(zip("ZYX", spacing, strict=bool(spacing)))
    dimensions = ""
    for axis, count, step in zip(axes, pixels.shape, pixels.strides, strict=True):
        if axis != "C":
            length = 1e-6 * sizes.get(axis, 1.0) * (count - 1)
            dimensions += (
                f'<DimensionDescription DimID="{_LIF_AXES[axis]}" NumberOfElements="{count}" Origin="0" '
                f'Length="{length!r}" Unit="{"s" if axis == "T" else "m"}" BitInc="0" BytesInc="{step}"/>'
            )
    count = pixels.shape[axes.index("C")] if "C" in axes else 1
    step = pixels.strides[axes.index("C")] if "C" in axes else 0
    bits = 8 * pixels.dtype.itemsize
    colors = "".join(
        f'<ChannelDescription DataType="{int(pixels.dtype.kind == "f")}" ChannelTag="0" Resolution="{bits}" '
        f'NameOfMeasuredQuantity="{name}" Min="0" Max="1" Unit="" LUTName="Gray" IsLUTInverted="0" '
        f'BytesInc="{step * k}" BitInc="0"/>'
        for k, name in zip(
            range(count), itertools.chain(channels, itertools.repeat("")), strict=False
        )
    )
    xml = (
        '<LMSDataContainerHeader Version="2"><Element Name="Project"><Children><Element Name="Cells"><Data><Image>'
        f"<ImageDescription><Channels>{colors}</Channels><Dimensions>{dimensions}</Dimensions></ImageDescription>"
        f'</Image></Data><Memory Size="{pixels.nbytes}" MemoryBlockID="MemBlock_1"/></Element></Children></Element>'
        "</LMSDataContainerHeader>"
    )
    name = "MemBlock_1"
    head = struct.pack("<IIBI", 0x70, 2 * len(xml) + 5, 0x2A, len(xml)) + xml.encode("utf-16-le")
    block = struct.pack("<IIBQBI", 0x70, 2 * len(name) + 14, 0x2A, pixels.nbytes, 0x2A, len(name))
    return head + block + name.encode("utf-16-le") + pixels.tobytes()


def nd2_bytes(pixels: Pixels, axes: str, *, spacing: Any = (), channels: Any = ()) -> bytes:
    """An ND2 file of version 2; spacing is in micrometres, as Z, Y and X."""
    z, _, x = spacing or (1.0, 1.0, 1.0)
    order = [axes.index(axis) for axis in "TZYXC" if axis in axes]
    sizes = dict(zip(axes, pixels.shape, strict=True))
    count = sizes.get("C", 1)
    frames = pixels.transpose(order).reshape(-1, sizes["Y"], sizes["X"], count)
    bits = 8 * pixels.dtype.itemsize
    attributes = {
        "uiWidth": sizes["X"], "uiWidthBytes": sizes["X"] * count * bits // 8, "uiHeight": sizes["Y"], "uiComp": count,
        "uiBpcInMemory": bits, "uiBpcSignificant": bits, "uiSequenceCount": len(frames), "eCompression": 2,
    }  # fmt: skip
    planes = {
        f"a{k}": {
            "uiCompCount": 1,
            "uiSampleIndex": 0,
            "sDescription": str(name),
            "uiColor": 255,
            "pFluorescentProbe": {
                "m_sName": "probe",
                "m_ExcitationSpectrum": {"uiCount": 0},
                "m_EmissionSpectrum": {"uiCount": 0},
            },
        }
        for k, name in zip(
            range(count), itertools.chain(channels, map(str, itertools.count())), strict=False
        )
    }
    metadata = {
        "bCalibrated": True,
        "dCalibration": x,
        "sPicturePlanes": {"uiCount": count, "sPlaneNew": planes},
    }
    loops: dict[str, Any] = {}
    if "Z" in sizes:
        high = z * (sizes["Z"] - 1)
        pars = {"uiCount": sizes["Z"], "dZStep": z, "dZLow": 0.0, "dZHigh": high, "iType": 0, "dZHome": 0.0, "bAbsolute": True, "dReferencePosition": 0.0}  # fmt: skip
        loops = {"eType": 4, "uLoopPars": pars}
    if "T" in sizes:
        pars = {"uiCount": sizes["T"], "dPeriod": 100.0, "dStart": 0.0, "dDuration": 0.0, "dMinPeriodDiff": 0.0, "dMaxPeriodDiff": 0.0, "dAvgPeriodDiff": 0.0}  # fmt: skip
        inner = {"ppNextLevelEx": {"no_name": loops}} if loops else {}
        loops = {"eType": 1, "uLoopPars": pars, **inner}
    parts = {"ImageAttributes!": _variant(attributes), "ImageMetadataSeq|0!": _variant(metadata)}
    if loops:
        parts["ImageMetadata!"] = _variant(loops)
    for k, frame in enumerate(frames):
        parts[f"ImageDataSeq|{k}!"] = bytes(8) + np.ascontiguousarray(frame).tobytes()
    signature = b"ND2 FILE SIGNATURE CHUNK NAME01!"
    data = struct.pack("<IIQ", 0x0ABECEDA, 32, 64) + signature + b"Ver2.0".ljust(64, b"\0")
    data = data.ljust(4096, b"\0")
    places = b""
    for name, part in parts.items():
        places += name.encode() + struct.pack("<QQ", len(data), len(part))
        data += _chunk(name.encode(), part)
    last = struct.pack("<32sQ", b"ND2 CHUNK MAP SIGNATURE 0000001!", len(data))
    return data + _chunk(b"ND2 FILEMAP SIGNATURE NAME 0001!", places + last)


def _chunk(name: bytes, data: bytes) -> bytes:
    """A chunk, whose data start 4096 bytes after it, with the eight bytes of a frame's time."""
    reserve = 4072
    head = struct.pack("<IIQ", 0x0ABECEDA, reserve, len(data)) + name.ljust(reserve, b"\0")
    return head + data


def _variant(values: dict[str, Any]) -> bytes:
    return f"<variant><no_name>{_fields(values)}</no_name></variant>".encode()


def _fields(values: dict[str, Any]) -> str:
    kinds = {bool: "bool", int: "lx_uint32", float: "double", str: "CLxStringW"}
    text = ""
    for name, value in values.items():
        if isinstance(value, dict):
            text += f"<{name}>{_fields(value)}</{name}>"
        else:
            text += f'<{name} runtype="{kinds[type(value)]}" value="{value}"/>'
    return text

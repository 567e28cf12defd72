"""The frames of a video as arrays, and back.

Frames of luma and chroma are denoised as red, green and blue: the channels of a camera are so similar that they are
denoised jointly, with groups of patches in common, whereas luma and chroma are uncorrelated by design and would be
denoised apart, the chroma without the help of the details that only the luma shows.  The conversion is linear, in
floats, and neither rounds nor clips: colours that no screen can show, and values beyond black and white, come back as
they were.  Chroma of half the size is repeated rather than interpolated, and averaged on the way back, so that a frame
from which nothing is removed comes back bit by bit.  Gray frames and frames of red, green and blue are taken as they are.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .library import pyav

Pixels = npt.NDArray[Any]
Plane = npt.NDArray[Any]

_DEPTHS = ("", "9le", "10le", "12le", "14le", "16le")
PLANAR = (
    *(f"gray{depth}" for depth in _DEPTHS),
    *(
        f"yuv{alpha}{layout}p{depth}"
        for alpha in ("", "a")
        for layout in ("420", "422", "444", "440", "411", "410")
        for depth in _DEPTHS
    ),
    *(f"yuvj{layout}p" for layout in ("420", "422", "444", "440", "411")),
    *(f"gb{alpha}rp{depth}".replace("gbarp", "gbrap") for alpha in ("", "a") for depth in _DEPTHS),
)
"""The names of formats with one plane for each component, of 8 to 16 bits; not all of them exist."""
_LOSSES = (
    0x3F  # of resolution, depth, colours and transparency; the other flags are of what is gained
)
_FULL_RANGE = 2
# The weights of red and blue in the luma, by the number of the matrix; see ITU-T H.273.
_WEIGHTS = {
    1: (0.2126, 0.0722),
    4: (0.30, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
    10: (0.2627, 0.0593),
}
_HIGH_DEFINITION = 576  # rows; if the matrix is not named, larger videos have that of BT.709


class Channels(NamedTuple):
    """The meaning of the planes of a frame."""

    planes: tuple[int, ...]
    """Of gray; of luma and two chroma; or of red, green and blue."""
    bits: int
    shrink: tuple[int, int]
    """How many rows and columns share a value of chroma."""
    to_rgb: npt.NDArray[np.float32] | None
    """The matrix from luma and chroma, less their zeros, to red, green and blue; None if none is needed."""
    zeros: npt.NDArray[np.float32]

    @property
    def peak(self) -> int:
        """The largest value of a pixel."""
        return int(2**self.bits - 1)

    @property
    def channel_axis(self) -> int | None:
        """The channel axis of the array of a frame."""
        return None if len(self.planes) == 1 else 0


def planar(frame: Any) -> Any:
    """Return the frame with one plane for each component, which loses nothing; refuse formats for which it would."""
    name = frame.format.name
    if name in PLANAR:
        return frame
    av = pyav()
    known = [other for other in PLANAR if other in av.video.frame.supported_np_pix_fmts]
    alpha = any(component.is_alpha for component in frame.format.components)
    best, loss = av.codec.codec.find_best_pix_fmt_of_list(known, name, alpha)
    if best is None or loss & _LOSSES:
        raise ValueError(
            f"its pixels are of format {name}; expected gray, RGB or Y'CbCr of 8 to 16 bits"
        )
    return frame.reformat(format=best.name, **_same_colours(frame))


def reformatted(frame: Any, name: str) -> Any:
    """Return the frame in another format, with the same matrix and range."""
    return (
        frame if frame.format.name == name else frame.reformat(format=name, **_same_colours(frame))
    )


def _same_colours(frame: Any) -> dict[str, Any]:
    full = "JPEG" if frame.format.name.startswith("yuvj") else frame.color_range
    ranges = {"src_color_range": full, "dst_color_range": full} if full else {}
    return {"src_colorspace": frame.colorspace, "dst_colorspace": frame.colorspace} | ranges


def channels_of(frame: Any) -> Channels:
    """Return the meaning of the planes of a frame, whose format is planar."""
    colours = [part for part in frame.format.components if not part.is_alpha]
    planes = tuple(part.plane for part in colours)
    bits = colours[0].bits
    unit = pyav().VideoFormat(frame.format.name, 64, 64)
    shrink = (64 // unit.chroma_height(), 64 // unit.chroma_width())
    none = np.zeros((len(planes), 1, 1), np.float32)
    if len(planes) == 1 or frame.format.is_rgb:
        return Channels(planes, bits, (1, 1), None, none)
    full = frame.color_range == _FULL_RANGE or frame.format.name.startswith("yuvj")
    peak, unit_of_range = 2**bits - 1, 2 ** (bits - 8)
    black, luma, chroma = (0, peak, peak) if full else np.array([16, 219, 224]) * unit_of_range
    default = 1 if frame.height > _HIGH_DEFINITION else 6
    red, blue = _WEIGHTS.get(frame.colorspace, _WEIGHTS[default])
    green = 1 - red - blue
    from_rgb = np.array(
        [
            [red, green, blue],
            np.array([-red, -green, 1 - blue]) / (2 * (1 - blue)),
            np.array([1 - red, -green, -blue]) / (2 * (1 - red)),
        ]
    )
    scaled = np.array([[luma], [chroma], [chroma]]) / peak * from_rgb
    zeros = np.array([black, 2 ** (bits - 1), 2 ** (bits - 1)], np.float32).reshape(3, 1, 1)
    return Channels(planes, bits, shrink, np.linalg.inv(scaled).astype(np.float32), zeros)


def pixels_of(frame: Any, channels: Channels) -> Pixels:
    """Return a frame as an array of shape (height, width) or (3, height, width), from 0 to `channels.peak`."""
    height, width = frame.height, frame.width
    planes = [plane_of(frame, k) for k in channels.planes]
    if len(planes) == 1:
        return np.array(planes[0])  # the memory belongs to the frame
    if channels.to_rgb is None:
        return np.stack(planes)
    rows, columns = channels.shrink
    values = np.empty((3, height, width), np.float32)
    values[0] = planes[0]
    for value, plane in zip(values[1:], planes[1:], strict=True):
        value[...] = plane.repeat(rows, 0)[:height].repeat(columns, 1)[:, :width]
    return _transformed(channels.to_rgb, values - channels.zeros)


def put_pixels(frame: Any, channels: Channels, pixels: Pixels) -> None:
    """Replace the pixels of a frame, rounded and clipped; its transparency stays."""
    frame.make_writable()  # the decoder may still refer to the old ones
    values = pixels[None] if len(channels.planes) == 1 else pixels
    if channels.to_rgb is not None:
        values = _transformed(np.linalg.inv(channels.to_rgb), values) + channels.zeros
    for k, (number, value) in enumerate(zip(channels.planes, values, strict=True)):
        if k and channels.shrink != (1, 1):
            value = _means(value, *channels.shrink)
        np.clip(np.rint(value), 0, channels.peak, out=plane_of(frame, number), casting="unsafe")


def plane_of(frame: Any, number: int) -> Plane:
    """Return a plane of a frame, as an array that shares its memory."""
    plane = frame.planes[number]
    dtype = np.dtype("<u2" if frame.format.components[0].bits > 8 else "u1")
    lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    return lines[: plane.height, : plane.width * dtype.itemsize].view(dtype)


def _transformed(matrix: npt.NDArray[Any], values: Pixels) -> Pixels:
    """Return combinations of three channels."""
    return (matrix.astype(np.float32) @ values.reshape(3, -1).astype(np.float32)).reshape(
        values.shape
    )


def _means(values: Pixels, rows: int, columns: int) -> Pixels:
    """Return the means of blocks; those at the end may be smaller."""
    height, width = values.shape
    padded = np.pad(values, ((0, -height % rows), (0, -width % columns)), "edge")
    blocks = padded.reshape(padded.shape[0] // rows, rows, -1, columns)
    means: Pixels = blocks.mean((1, 3))
    return means

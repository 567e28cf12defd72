"""The frames of a video as arrays, and back.

Luma and chroma are denoised separately, each at its own size: the luma as a gray image, the two chroma planes as an image
of two channels. In frames that are denoised together, similar patches of chroma are those of the luma. Noise that is white in red, green and blue has different standard deviations in luma and chroma, so each
needs a noise model of its own, and the noise of enlarged chroma is no longer white. In red, green and blue, on the other
hand, the noise of the luma is the same in all channels, and a model of independent channels accounts for little more than
half of it: the result loses 1.4 to 4 dB. Values are not converted, so a frame from which nothing is removed stays the same
to the bit. Gray frames are one image, and frames of red, green and blue are one image of three channels.
"""

from typing import Any, NamedTuple

import numpy as np

from ...types import Pixels
from .library import pyav

Images = tuple[Pixels, ...]

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
# The flags for losses of resolution, depth, colors and transparency; other flags are for gains.
_LOSSES = 0x3F


class Parts(NamedTuple):
    """The images that a frame consists of."""

    planes: tuple[tuple[int, ...], ...]
    """The planes of each image: gray; luma, and both chroma planes; or red, green and blue."""
    bits: int
    shrink: tuple[int, int]
    """The numbers of rows and columns that share a value of chroma."""

    @property
    def peak(self) -> int:
        """The largest value of a pixel."""
        return int(2**self.bits - 1)


def planar(frame: Any) -> Any:
    """Return the frame with one plane for each component; refuse formats for which the conversion is not lossless."""
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
    return frame.reformat(format=best.name, **_same_colors(frame))


def reformatted(frame: Any, name: str) -> Any:
    """Return the frame in another format, with the same matrix and range."""
    return (
        frame if frame.format.name == name else frame.reformat(format=name, **_same_colors(frame))
    )


def _same_colors(frame: Any) -> dict[str, Any]:
    full = "JPEG" if frame.format.name.startswith("yuvj") else frame.color_range
    ranges = {"src_color_range": full, "dst_color_range": full} if full else {}
    return {"src_colorspace": frame.colorspace, "dst_colorspace": frame.colorspace} | ranges


def as_shown(frame: Any) -> Pixels:
    """Return a frame as a player shows it: upright, as (height, width, 3) in red, green and blue of 8 bits."""
    colors = {name: value for name, value in _same_colors(frame).items() if "src" in name}
    pixels: Pixels = frame.reformat(format="rgb24", **colors).to_ndarray()
    return np.rot90(pixels, round(frame.rotation / 90))


def parts_of(frame: Any) -> Parts:
    """Return the images that a frame, whose format is planar, consists of."""
    colors = [part for part in frame.format.components if not part.is_alpha]
    planes = tuple(part.plane for part in colors)
    unit = pyav().VideoFormat(frame.format.name, 64, 64)
    shrink = (64 // unit.chroma_height(), 64 // unit.chroma_width())
    whole = len(planes) == 1 or frame.format.is_rgb
    return Parts((planes,) if whole else (planes[:1], planes[1:]), colors[0].bits, shrink)


def images_of(frame: Any, parts: Parts) -> Images:
    """Return the images of a frame, of shape (height, width), or (channels, height, width) for several planes."""
    return tuple(
        np.stack([plane_of(frame, number) for number in planes])
        if len(planes) > 1
        else np.array(plane_of(frame, planes[0]))  # the memory belongs to the frame
        for planes in parts.planes
    )


def luma_of(images: Images, parts: Parts) -> Pixels:
    """Return the luma of a frame at the size of its chroma, as means of the pixels that share a value of chroma.

    Similar patches of chroma are searched for in it: noise changes it less than chroma, which has less contrast.
    """
    rows, columns = parts.shrink
    luma = images[0]
    padding = [(0, -length % factor) for length, factor in zip(luma.shape, parts.shrink, strict=True)]  # fmt: skip
    luma = np.pad(luma.astype(np.float32), padding, "edge")
    height, width = luma.shape
    blocks: Pixels = luma.reshape(height // rows, rows, width // columns, columns).mean((1, 3))
    return blocks


def put_images(frame: Any, parts: Parts, images: Images) -> None:
    """Replace the pixels of a frame, rounded and clipped; its transparency stays."""
    frame.make_writable()  # the decoder may still refer to the old ones
    for planes, image in zip(parts.planes, images, strict=True):
        for number, values in zip(planes, image if len(planes) > 1 else [image], strict=True):
            np.clip(np.rint(values), 0, parts.peak, out=plane_of(frame, number), casting="unsafe")


def plane_of(frame: Any, number: int) -> Pixels:
    """Return a plane of a frame, as an array that shares its memory."""
    plane = frame.planes[number]
    dtype = np.dtype("<u2" if frame.format.components[0].bits > 8 else "u1")
    lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    return lines[: plane.height, : plane.width * dtype.itemsize].view(dtype)

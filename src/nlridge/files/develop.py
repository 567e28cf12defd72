"""Raw pictures for viewing: developed by LibRaw, always in the same way."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from ..checks import not_installed
from ..types import Pixels
from .camera_metadata import Metadata, blob
from .dng import RawFile, dng_bytes
from .picture import Layer, Picture

_PREVIEW = 1024  # pixels of the longer side


def developed(picture: Picture, bits: int = 16) -> Picture:
    """Return a raw picture in sRGB, upright; brightness is not adjusted from file to file."""
    from .formats.raw import raw_file

    file = raw_file(picture)
    pixels = _postprocess(file, output_bps=bits)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return replace(
        picture,
        format="developed",
        layers=[Layer(pixels, "YXC")],
        profile=profile,
        exif=blob(Metadata(file.order, file.tags)),
        turn=1,
        origin=None,
    )


def preview_of(file: RawFile) -> npt.NDArray[np.uint8]:
    """Return a small image of a raw file, in the orientation of its pixels."""
    pixels = _postprocess(file, output_bps=8, half_size=min(file.pixels.shape) > 64, user_flip=0)
    image = Image.fromarray(pixels)
    image.thumbnail((_PREVIEW, _PREVIEW))
    return np.asarray(image)


def _postprocess(file: RawFile, **options: Any) -> Pixels:
    try:
        import rawpy
    except ImportError:
        raise not_installed("Raw files need", "rawpy") from None
    data = io.BytesIO(dng_bytes(file, compressed=False))
    with rawpy.imread(data) as raw:
        # White is what the file says. LibRaw would take the brightest pixel for it, which noise makes brighter.
        pixels: Pixels = raw.postprocess(
            use_camera_wb=True, no_auto_bright=True, adjust_maximum_thr=0.0, **options
        )
    return pixels

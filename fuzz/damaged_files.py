"""Damaged image files of every format: each is read, or refused in one sentence."""

import bz2
import gzip
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nlridge.apps.jobs.pictures import clean_picture
from nlridge.files import Layer, Picture, format_of, read, suffix_of, suffixes, write

from .intact_files import Random, intact_file

_COLOR_ONLY = (".webp", ".bmp", ".ppm")  # gray is read back as color
_COLOR_IF_TRANSPARENT = (".heic", ".heif", ".hif")
_LARGEST = 20_000  # larger images are read and written, but not denoised
_EXTREMES = (0, 1, 2, 3, 5, 255, 256, 4096, 65535, 2**20, 2**31 - 1, 2**31, 2**32 - 1)


def warm_up() -> None:
    """Compile the kernels for gray images and colors, in both types."""
    image = np.random.default_rng(0).normal(100, 10, (16, 16, 3))
    for dtype in (np.float32, np.float64):
        for pixels, axes in ((image[..., 0], "YX"), (image, "YXC")):
            picture = Picture("npy", [Layer(pixels.astype(dtype), axes)])
            clean_picture(picture, lambda share: None, method="fast", workers=1)


def run(seed: int, folder: Path) -> None:
    """Make a file, damage it and read it; if it can be read, clean it and write it in some format."""
    rng = np.random.default_rng(seed)
    suffix, data = intact_file(rng)
    for _ in range(rng.integers(1, 4)):
        data = _DAMAGES[rng.integers(len(_DAMAGES))](rng, data)
    if suffix == ".png" and rng.random() < 0.7:
        data = with_checksums(data)  # or it would be refused before anything else is read
    if suffix.endswith((".gz", ".bz2")):
        data = bz2.compress(data) if suffix.endswith(".bz2") else gzip.compress(data, mtime=0)
        if rng.random() < 0.3:
            data = _flip(rng, data)
    source = folder / f"damaged{suffix}"
    source.write_bytes(data)
    writable = [name for name in suffixes() if hasattr(format_of(name), "write")]
    same = suffix in writable and rng.random() < 0.5
    target = folder / f"cleaned{suffix if same else rng.choice(writable)}"
    axes = rng.choice([None, "YX", "YXC", "CYX", "ZYX"])
    try:
        _clean(source, target, axes)
    finally:
        assert source.read_bytes() == data, "the input was written to"
        others = {file.name for file in folder.iterdir()} - {source.name, target.name}
        assert not others, f"files are left over: {sorted(others)}"


def _clean(source: Path, target: Path, axes: str | None) -> None:
    before = read(source, axes)
    after = before
    if sum(layer.pixels.size for layer in before.layers) <= _LARGEST:
        after, _ = clean_picture(before, lambda share: None, method="fast", workers=1)
    for old, new in zip(before.layers, after.layers, strict=True):
        assert new.pixels.shape == old.pixels.shape, f"the shape became {new.pixels.shape}"
        assert new.pixels.dtype == old.pixels.dtype, f"the type became {new.pixels.dtype}"
        if np.isfinite(old.pixels).all():
            assert np.isfinite(new.pixels).all(), "the result of finite pixels is not finite"
    try:
        write(target, after)
    except BaseException:
        assert not target.exists(), "there is an output though writing failed"
        raise
    _expect_readable(target, after)


def _expect_readable(target: Path, written: Picture) -> None:
    """The output can be read, and holds as many pixels as were written."""
    axes = "YXC" if written.alpha is not None else written.layers[0].axes
    plain = suffix_of(target) in (".npy", ".h5", ".hdf5", *format_of(".fits").SUFFIXES)
    try:
        again = read(target, axes if plain and len(axes) > 2 else None)
    except ValueError as error:
        raise AssertionError(f"the output cannot be read: {error}") from error
    sizes = [sum(layer.pixels.size for layer in picture.layers) for picture in (written, again)]
    if written.alpha is not None and plain:
        sizes[0] += written.alpha.size
    color_only = _COLOR_ONLY + (_COLOR_IF_TRANSPARENT if written.alpha is not None else ())
    colored = target.suffix in color_only and sizes[1] == 3 * sizes[0]  # what was gray
    colored |= target.suffix == ".gif" and sizes[0] == 3 * sizes[1]  # colors that were all gray
    assert sizes[0] == sizes[1] or colored, f"{sizes[0]} numbers were written, {sizes[1]} read"


def _place(rng: Random, data: bytes) -> int:
    """A position, more often in the header, on which more depends."""
    most = len(data) if rng.random() < 0.5 else min(len(data), 300)
    return int(rng.integers(most)) if most else 0


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: _place(rng, data)]


def _cut_end(rng: Random, data: bytes) -> bytes:
    return data[: -int(rng.integers(1, 50))]


def _flip(rng: Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        if flipped:
            flipped[_place(rng, data)] ^= 1 << int(rng.integers(8))
    return bytes(flipped)


def _overwrite(rng: Random, data: bytes) -> bytes:
    at, length = _place(rng, data), int(rng.integers(1, 40))
    filler = rng.bytes(length) if rng.random() < 0.5 else bytes([rng.choice([0, 255])]) * length
    return data[:at] + filler + data[at + length :]


def _repeat(rng: Random, data: bytes) -> bytes:
    at, length = _place(rng, data), int(rng.integers(1, 200))
    return data[: at + length] + data[at:]


def _remove(rng: Random, data: bytes) -> bytes:
    at, length = _place(rng, data), int(rng.integers(1, 200))
    return data[:at] + data[at + length :]


def _swap(rng: Random, data: bytes) -> bytes:
    a, b, c = sorted(_place(rng, data) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _splice(rng: Random, data: bytes) -> bytes:
    _, other = intact_file(rng)
    at = _place(rng, data)
    return data[:at] + other[_place(rng, other) :]


def _append(rng: Random, data: bytes) -> bytes:
    return data + (rng.bytes(100) if rng.random() < 0.5 else intact_file(rng)[1])


def _set_number(rng: Random, data: bytes) -> bytes:
    at, form = _place(rng, data), rng.choice(["<H", "<I", ">H", ">I"])
    length = struct.calcsize(form)
    value = int(rng.choice(_EXTREMES)) % 256**length
    return data[:at] + struct.pack(form, value) + data[at + length :]


def _set_text(rng: Random, data: bytes) -> bytes:
    """Another number in a text: a size in FITS or NPY, a count in OME-XML or ImageJ."""
    numbers = list(re.finditer(rb"-?\d+", data[:100_000]))
    if not numbers:
        return data
    number = numbers[rng.integers(len(numbers))]
    value = str(int(rng.choice([-5, 0, 1, 2, 99, 10**6, 10**10, 10**19]))).encode() if rng.random() < 0.9 else b"x"  # fmt: skip
    if rng.random() < 0.7 and len(value) <= len(number[0]):
        value = value.rjust(len(number[0]))
    return data[: number.start()] + value + data[number.end() :]


def _set_tag(rng: Random, data: bytes) -> bytes:
    """Another code, type, count or value of a tag of a TIFF file."""
    if data[:4] not in (b"II*\0", b"MM\0*"):
        return _set_number(rng, data)
    order = "<" if data[:2] == b"II" else ">"
    (start,) = struct.unpack(order + "I", data[4:8])
    if start + 2 > len(data):
        return data
    (count,) = struct.unpack(order + "H", data[start : start + 2])
    at = start + 2 + 12 * int(rng.integers(max(count, 1)))
    at += int(rng.choice([0, 2, 4, 8]))
    form = order + ("H" if (at - start - 2) % 12 in (0, 2) else "I")
    value = int(rng.choice(_EXTREMES)) % 256 ** struct.calcsize(form)
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]


def _empty(rng: Random, data: bytes) -> bytes:
    return b""


_DAMAGES: list[Callable[[Random, bytes], bytes]] = [
    _cut, _cut_end, _flip, _flip, _overwrite, _repeat, _remove, _swap, _splice, _append, _set_number, _set_text,
    _set_text, _set_tag, _set_tag,
] * 4 + [_empty]  # fmt: skip


def with_checksums(data: bytes) -> bytes:
    """A PNG file with the right checksums, as far as its chunks can be followed."""
    at, repaired = 8, data[:8]
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        body = data[at + 4 : at + 8 + length]
        if len(body) < 4 + length:
            break
        repaired += data[at : at + 4] + body + struct.pack(">I", zlib.crc32(body))
        at += 12 + length
    return repaired + data[at:]

"""Files of instruments: what is kept when each of them is read, written and read again, and what becomes of damaged ones.

Each cell is measured on the files of the folder `formats` of the data. Formats that cannot be written become OME-TIFF.
"""

import tempfile
from pathlib import Path

import numpy as np

from nlridge.files import output_suffix, read, suffix_of, suffixes, write

from .progress import shown

_LOSSY = (".heic", ".heif", ".avif", ".jpg", ".webp")
# Cards of FITS that describe the array; their comments may differ.
_STRUCTURE = ("SIMPLE", "XTENSION", "BITPIX", "NAXIS", "EXTEND", "PCOUNT", "GCOUNT", "BSCALE", "BZERO")  # fmt: skip
_DAMAGED = 40  # copies of each file, half of them truncated, all with five wrong bytes


def add_arguments(parser):
    pass


def run(options):
    folder = Path(options.data or ".") / "formats"
    known = [path for path in sorted(folder.rglob("*")) if suffix_of(path) in suffixes()]
    files = [path for path in known if path.is_file() and ".zarr" not in str(path)]
    if not files:
        print(f"\nThere are no files of instruments: {folder} does not exist, or is empty.")
        return
    print(
        f"\nFiles of instruments; damaged: of {_DAMAGED} copies, refused in a sentence + read + anything else"
    )
    print("| file | read | written | axes | pixel size | type | metadata | damaged |")
    print("|---|---|---|---|---|---|---|---|")
    for path in shown(files, "formats"):
        print(f"| {path.parent.name}/{path.name} | {' | '.join(row(path))} |", flush=True)


def row(path):
    """Return the cells of a file."""
    axes = None
    try:
        before = read(path, axes)
    except ImportError as error:
        return [str(error), *[""] * 6]
    except ValueError as error:
        if "axes" not in str(error) and "axis" not in str(error):
            return [f"refused: {error}", *[""] * 5, damaged(path, axes)]
        axes = "QYX"  # a stack that does not name its axes
        before = read(path, axes)
    suffix = output_suffix(suffix_of(path))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / path.name.replace(suffix_of(path), suffix)
        write(target, before)
        after = read(target, axes)
        metadata = compared(path, target, before, after)
    pairs = list(zip(before.layers, after.layers, strict=False))
    same_count = len(before.layers) == len(after.layers)
    pixels = same_count and all(np.array_equal(*of("pixels", pair)) for pair in pairs)
    first = before.layers[0]
    shape = " x ".join(map(str, first.pixels.shape))
    return [
        f"{first.axes} {shape}" + (f", {len(before.layers)} arrays" if len(before.layers) > 1 else ""),
        f"{suffix}, {'same pixels' if pixels else 'lossy' if suffix in _LOSSY else 'OTHER PIXELS'}",
        in_words(first.axes, all(plain(one) == plain(other) for one, other in (of("axes", p) for p in pairs))),
        in_words(size(first), all(close(*of("spacing", p)) and one_unit(p) for p in pairs)),
        in_words(first.pixels.dtype.name, all(a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=") for a, b in (of("pixels", p) for p in pairs))),
        metadata,
        damaged(path, axes),
    ]  # fmt: skip


def of(name, pair):
    return [getattr(layer, name) for layer in pair]


def plain(axes):
    """Return axes with one letter for all those without a meaning, which formats name differently."""
    return "".join(axis if axis in "TZCYX" else "Q" for axis in axes)


def one_unit(pair):
    one, other = of("unit", pair)
    return one == other


def close(one, other):
    if one is None or other is None:
        return one is other
    return np.allclose(one, other, rtol=1e-5, atol=0, equal_nan=True)


def in_words(value, is_kept):
    return f"{value or 'none'}{'' if is_kept or not value else ', NOT KEPT'}"


def size(layer):
    if layer.spacing is None:
        return ""
    sizes = " x ".join(f"{one:.3g}" for one in layer.spacing if np.isfinite(one))
    return f"{sizes} {layer.unit}".strip()


def compared(path, target, before, after):
    """Return what else was compared, and whether it is the same."""
    parts = {"channels": (before.channels, after.channels), "EXIF": (before.exif, after.exif)}
    parts |= {"profile": (before.profile, after.profile), "turn": (before.turn, after.turn)}
    parts |= own_metadata(path, target)
    there = {name: pair for name, pair in parts.items() if pair[0] not in ([], None, 1, {})}
    words = [name if one == other else f"{name} CHANGED" for name, (one, other) in there.items()]
    return ", ".join(words) or "none"


def own_metadata(path, target):
    """Return the metadata that a format has of its own, before and after."""
    suffix = suffix_of(path)
    if suffix in (".nii", ".nii.gz"):
        import nibabel

        return {"header": tuple(nibabel.load(one).header.binaryblock for one in (path, target))}
    if suffix in (".mrc", ".map"):
        import mrcfile

        headers = []
        for one in (path, target):
            with mrcfile.open(one, permissive=True) as opened:
                headers.append((opened.header.tobytes(), opened.extended_header.tobytes()))
        return {"header": tuple(headers)}
    if suffix in (".fits", ".fit"):
        from astropy.io import fits

        return {"headers of images": tuple(cards_of(fits, one) for one in (path, target))}
    if suffix == ".dcm":
        return {"elements": dicom_elements(path, target)}
    if suffix in (".tif", ".tiff", ".ome.tif", ".ome.tiff"):
        import tifffile

        metadata = []
        for one in (path, target):
            with tifffile.TiffFile(one) as opened:
                metadata.append((opened.ome_metadata, opened.imagej_metadata))
        name = "OME-XML" if metadata[0][0] else "ImageJ metadata"
        return {name: tuple(metadata)} if any(metadata[0]) else {}
    return {}


def cards_of(fits, path):
    """Return all cards of images but those that describe the array; astropy sorts those of tables."""
    with fits.open(path) as opened:
        cards = [card for unit in opened if unit.is_image for card in unit.header.cards]
    return [str(card) for card in cards if card.keyword and not card.keyword.startswith(_STRUCTURE)]


def dicom_elements(path, target):
    """Return all elements but those that a derived, uncompressed image has to have of its own."""
    import pydicom

    own = ("PixelData", "SOPInstanceUID", "SeriesInstanceUID", "ImageType", "DerivationDescription")
    own += (
        "SourceImageSequence",
        "DerivationCodeSequence",
        "SmallestImagePixelValue",
        "LargestImagePixelValue",
    )
    found = []
    for one in (path, target):
        data = pydicom.dcmread(one)
        found.append({str(e.tag): str(e.value) for e in data if e.keyword not in own})
    before, after = found
    return before, {tag: value for tag, value in after.items() if tag in before}


def damaged(path, axes):
    """Return how many damaged copies are refused, read, or make something else happen."""
    content, rng = path.read_bytes(), np.random.default_rng(0)
    refused = accepted = 0
    others = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for k in range(_DAMAGED):
            part = bytearray(content[: int(rng.integers(len(content)))] if k % 2 else content)
            for place in rng.integers(min(len(part), 5000), size=5) if part else ():
                part[place] = rng.integers(256)
            copy.write_bytes(part)
            try:
                read(copy, axes)
                accepted += 1
            except (ValueError, OSError):
                refused += 1
            except Exception as error:  # a defect: it is shown in the table
                others.append(type(error).__name__)
    return " + ".join([str(refused), str(accepted), str(len(others)), *sorted(set(others))])

"""The demonstration: a noisy image and its denoised version side by side."""

import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ... import denoise, denoise_with_details
from ...atomic import expect_new
from ...errors import ArgumentError
from ...files import Layer, Picture, format_of, write
from ...files.apart import read_apart
from ...files.orientation import upright
from ...types import Pixels
from ..jobs.words import option_of, printable, recorded_warnings
from .printing import report_note

_DEFAULT_OUTPUT = "demo.png"


def demonstrate(path: str | None, sigma: float | None, method: str, output: str | None) -> str:
    """Denoise an image, save it side by side with the noisy one, and return a summary.

    Without a path, noise is added to a sample photograph, whose clean version is known. Without sigma, the noise of
    the image at `path` is estimated. Only the default output may exist; it is replaced.
    """
    may_replace = output is None
    output = _DEFAULT_OUTPUT if output is None else output
    if path is not None and Path(output).resolve() == Path(path).resolve():
        raise ArgumentError("output", output, "another name", "is {value}, which is the input")
    expect_new("output", output, overwrite=may_replace)
    format_of(Path(output).suffix)
    if path is None:
        name, truth = "a photograph of a cameraman", _sample()
        sigma = 25.0 if sigma is None else sigma
        noise = np.random.default_rng(0).normal(0, 1, truth.shape)
        noisy = (truth + sigma * noise).astype(np.float32)
    else:
        name, truth = Path(path).name, None
        noisy = _read(path)
    channel_axis = -1 if noisy.ndim == 3 else None

    # Compile before measuring.
    with recorded_warnings():  # the level is that of the whole image, and may not fit this part
        denoise(noisy[:32, :32], sigma or 1.0, method=method, channel_axis=channel_axis)
    start = time.perf_counter()
    with recorded_warnings() as warnings:
        details = denoise_with_details(
            noisy, sigma, method=method, channel_axis=channel_axis, progress=sys.stderr.isatty()
        )
    seconds = time.perf_counter() - start
    for warning in warnings:
        report_note(warning)
    clean = details.image

    labels = ["noisy", f"denoised in {seconds:.2f} s"]
    report = [f"denoised {printable(name)}, {noisy.shape[1]} x {noisy.shape[0]} pixels"]
    report.append(details.describe(option_of))
    report.append(f'method "{method}": {seconds:.2f} s')
    if truth is not None:
        before, after = _psnr(noisy, truth), _psnr(clean, truth)
        labels = [f"{labels[0]}: {before:.2f} dB", f"{labels[1]}: {after:.2f} dB"]
        report.append(f"PSNR: {before:.2f} dB noisy, {after:.2f} dB denoised")
    eight_bits = truth is not None or noisy.dtype == np.uint8
    low, high = (0, 255) if eight_bits else (float(np.nanmin(clean)), float(np.nanmax(clean)))
    pair = np.asarray(_side_by_side([noisy, clean], labels, low, high))
    write(Path(output), Picture("png", [Layer(pair, "YX" if pair.ndim == 2 else "YXC")], origin=[]))
    report.append(f"side by side: {printable(output)}")
    return "\n".join(report)


def _sample() -> Pixels:
    # By Lav Varshney, who placed it in the public domain (CC0); it is also one of scikit-image's images.
    with Image.open(Path(__file__).with_name("cameraman.png")) as image:
        return np.asarray(image)


def _read(path: str) -> Pixels:
    """Read the first frame of a file, with channels last if it is in color."""
    try:
        layer = upright(read_apart(Path(path))).layers[0]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    frame = layer.pixels[next(layer.frames())]
    return frame if layer.channel_axis is None else np.moveaxis(frame, layer.channel_axis, -1)


def _psnr(estimate: Pixels, truth: Pixels) -> float:
    error = np.clip(estimate, 0, 255) - truth.astype(np.float64)
    return float(10 * np.log10(255**2 / np.mean(error**2)))


def _side_by_side(
    pictures: list[Pixels], labels: list[str], low: float, high: float
) -> Image.Image:
    """Draw pictures side by side under their labels; `low` is black and `high` is white in all of them."""
    height, width = pictures[0].shape[:2]
    mode = "RGB" if pictures[0].ndim == 3 else "L"
    text_size = max(12, min(20, width // 28))
    font = ImageFont.load_default(size=text_size)
    margin = 2 * text_size
    size = len(pictures) * width + (len(pictures) - 1) * 8, height + margin
    canvas = Image.new(mode, size, "white")
    draw = ImageDraw.Draw(canvas)
    for i, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        scaled = np.nan_to_num((picture - low) * (255 / max(high - low, 1e-12)))
        scaled = np.clip(scaled, 0, 255)
        left = i * (width + 8)
        canvas.paste(Image.fromarray(np.rint(scaled).astype(np.uint8)), (left, margin))
        draw.text((left + width // 2, margin // 2), label, fill="black", font=font, anchor="mm")
    return canvas

"""Any other program, as a command line: "program --noise {sigma} {input} {output}".

{input} and {output} become names of TIFF files of floats.  A suffix asks for another format, "{input}.png" and
"{output}.npy"; of PNG, values are rounded and clipped, which is other noise.
"""

import re
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image


def denoiser(template):
    for name in ("{input}", "{output}", "{sigma}"):
        if name not in template:
            raise ValueError(f"the command is {template!r}; expected one with {name}")

    def call(noisy, sigma):
        with tempfile.TemporaryDirectory() as folder:
            words, files = filled(shlex.split(template), Path(folder), sigma)
            _write(files["input"], noisy)
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode or not files["output"].exists():
                said = (done.stderr or done.stdout).strip().splitlines()
                raise RuntimeError(f"{words[0]} wrote no result: {said[-1] if said else 'it says nothing'}")  # fmt: skip
            return _read(files["output"])

    return call


def filled(words, folder, sigma):
    """The words of a command line with their values, and the files among them."""
    files = {}

    def value(match):
        name, suffix = match.groups()
        files[name] = folder / f"{name}{suffix or '.tif'}"
        return str(files[name])

    return [
        re.sub(r"\{(input|output)\}(\.\w+)?", value, word).replace("{sigma}", f"{sigma:g}")
        for word in words
    ], files


def _write(path, image):
    if path.suffix == ".npy":
        np.save(path, image)
    elif path.suffix in (".tif", ".tiff"):
        tifffile.imwrite(path, image)
    else:
        Image.fromarray(np.clip(image + 0.5, 0, 255).astype(np.uint8)).save(path)


def _read(path):
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix in (".tif", ".tiff"):
        return tifffile.imread(path)
    return np.asarray(Image.open(path))

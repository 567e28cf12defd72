"""The PyTorch engine on the CPU compared with the compiled one: PSNR, seconds, and peak memory.

For GPUs, use `python -m benchmarks.gpu`.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import nlridge

from .images import color, image_sets, psnr, with_noise
from .results import record

FIGURES = ("compiled", "PyTorch", "seconds compiled", "seconds of PyTorch")

_MEMORY = """
import resource, sys
import torch
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
imported = peak()
from nlridge.torch import NLRidge
noisy = torch.linspace(0, 1, 512) + 25 / 255 * torch.randn(1, 1, 512, 512)
with torch.inference_mode():
    NLRidge(sys.argv[1])(noisy, 25 / 255)
print(peak() - imported)
"""


def add_arguments(parser):
    del parser  # no arguments


def run(options):
    try:
        import torch
    except ImportError:
        print("torch is not installed")
        return
    from nlridge.torch import NLRidge

    print("\nsigma 25: PSNR (dB) by the compiled engine and by PyTorch; seconds of both")
    for name, image, seed in _images(options.data):
        noisy = with_noise(image, 25, seed)
        axis = color(image)
        tensor = torch.tensor(noisy if axis is None else np.moveaxis(noisy, axis, 0))
        for method in nlridge.method_names():
            start = time.perf_counter()
            compiled = nlridge.denoise(noisy, 25, method=method, channel_axis=axis, data_range=255)
            middle = time.perf_counter()
            with torch.inference_mode():
                result = NLRidge(method, data_range=255)(tensor.view(1, -1, *tensor.shape[-2:]), 25)
            end = time.perf_counter()
            result = result[0, 0] if axis is None else result[0].movedim(0, axis)
            both = psnr(compiled, image), psnr(result.numpy(), image)
            print(
                f"  {name:20s} {method:10s} {both[0]:.3f} {both[1]:.3f} ({both[1] - both[0]:+.4f})"
                f"   {middle - start:.2f} s {end - middle:.2f} s",
                flush=True,
            )
            figures = dict(zip(FIGURES, (*both, middle - start, end - middle), strict=True))
            columns = {
                f"{Path(name).stem}, {key}": round(float(v), 3) for key, v in figures.items()
            }
            record(options, "tensors", {method: columns})
    print("\npeak memory in addition to that of a process that has imported torch, 512 x 512")
    for method in ("standard", "nl-ridge", "best"):
        program = [sys.executable, "-c", _MEMORY, method]
        grown = subprocess.run(program, check=True, capture_output=True, text=True).stdout
        print(f"  {method:10s} {float(grown):.0f} MB", flush=True)
        record(options, "memory of tensors", {method: {"MB": round(float(grown))}})


def _images(data):
    """Images as (name, image, seed): three gray ones and one in color, or two of scikit-image's."""
    if data is None:
        from skimage import data as bundled

        return [
            ("camera", bundled.camera()[::2, ::2], 0),
            ("astronaut", bundled.astronaut()[::3, ::3], 1),
        ]
    gray = image_sets(data, ["set12"], None)["set12"]
    in_color = image_sets(data, ["cbsd68"], ":1")["cbsd68"]
    chosen = [gray[0], gray[6], gray[8], *in_color]
    return [(name, image, seed) for seed, name, image in chosen]

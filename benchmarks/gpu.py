"""The PyTorch engine on a device: images per second, memory and PSNR of each method.

    python -m benchmarks.gpu [--device cuda] [--size 512] [--batch 4] [--sigma 25]

Images are scikit-image's, cropped to one size.  The time is that of the fastest repetition, after one to warm up.
"""

import argparse
import resource
import sys
import time

import torch

import nlridge
from nlridge.torch import NLRidge

from .images import BUNDLED


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "--device", default=_device(), help="device of PyTorch (default: %(default)s)"
    )
    parser.add_argument(
        "--size", type=int, default=512, help="side of the images in pixels (default: %(default)s)"
    )
    parser.add_argument(
        "--batch", type=int, default=4, help="number of images (default: %(default)s)"
    )
    parser.add_argument(
        "--sigma",
        type=float,
        default=25.0,
        help="standard deviation of the noise, on a scale of 0 to 255",
    )
    parser.add_argument(
        "--repeat", type=int, default=3, help="number of repetitions (default: %(default)s)"
    )
    parser.add_argument("--max-memory", type=int, help="memory limit of NLRidge, in bytes")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    clean, noisy = _images(options, device)
    print(
        f"{_name(device)}, PyTorch {torch.__version__}: {tuple(clean.shape)}, sigma {options.sigma:g}"
    )
    for name in nlridge.method_names():
        module = NLRidge(name, max_memory=options.max_memory)
        _forget(device)
        seconds = []
        with torch.inference_mode():
            for _ in range(options.repeat + 1):
                _wait(device)
                start = time.perf_counter()
                result = module(noisy, options.sigma / 255)
                _wait(device)
                seconds.append(time.perf_counter() - start)
        error = torch.mean((result.clip(0, 1) - clean) ** 2, dim=(1, 2, 3))
        psnr = torch.mean(-10 * torch.log10(error)).item()
        rate = len(noisy) / min(seconds[1:])
        print(f"  {name:10s} {rate:9.2f} images/s {_peak(device):7.0f} MB {psnr:7.2f} dB")


def _images(options, device):
    from skimage import data

    images = []
    for k in range(options.batch):
        image = torch.tensor(getattr(data, BUNDLED[k % len(BUNDLED)])()).float() / 255
        height, width = image.shape
        repeated = image.repeat(-(-options.size // height), -(-options.size // width))
        images.append(repeated[None, : options.size, : options.size])
    clean = torch.stack(images)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    return clean.to(device), (clean + options.sigma / 255 * noise).to(device)


def _device():
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _name(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def _wait(device):
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def _forget(device):
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device):
    """Peak memory in MB: of the device if it is known, and of the whole process otherwise."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


if __name__ == "__main__":
    main()

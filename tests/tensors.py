"""Images and recipes for the tests of the PyTorch engine, and what it waits for."""

import numpy as np
import pytest
from skimage import data

import nlridge
from nlridge.core.algorithm.settings import CoarseScale, Recipe, Rounds, Step
from nlridge.core.families import Ridge, TwoSided

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from nlridge.torch import NLRidge  # noqa: E402

ALL_OF_IT = Recipe(
    TwoSided(),
    Step(7, 24, window=37),
    Step(6, 48, window=45),
    Rounds(3, 0.75, 0.3),
    CoarseScale(
        Recipe(TwoSided(), Step(7, 24, window=37), Step(6, 48, window=45), Rounds(3, 0.75, 0.25))
    ),
)
METHODS = {name: name for name in nlridge.method_names()} | {"all of it": ALL_OF_IT}
SMALL = Recipe(Ridge(tolerance=1.5), Step(4, 8, 3, 9), Step(4, 12, 3, 9))
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def photograph(shape, sigma=0.1, seed=0):
    """A clean image of (..., height, width), from 0 to 1, and a noisy one."""
    image = np.moveaxis(data.astronaut()[60:, 100:] / 255, -1, 0)[:, : shape[-2], : shape[-1]]
    clean = (image if shape[0] == 3 else image[: shape[0]]).astype(np.float32)
    noise = np.random.default_rng(seed).normal(0, sigma, clean.shape)
    return clean, (clean + noise).astype(np.float32)


def psnr(image, truth):
    return -10 * np.log10(np.mean((np.clip(image, 0, 1) - truth) ** 2))


def denoised(image, sigma=0.1, method="standard", **options):
    """A single image of (channels, height, width), as an array."""
    return NLRidge(method, **options)(torch.tensor(image)[None], sigma)[0].numpy()


class Calls(TorchDispatchMode):
    """Counts operations by name, and copies between devices by whether Python waits for them."""

    def __init__(self):
        super().__init__()
        self.count = {}

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        name = function.__name__.split(".")[0]
        if name == "_to_copy" and result.device != arguments[0].device:
            name = "copy, sent" if options.get("non_blocking") else "copy, waited for"
        self.count[name] = self.count.get(name, 0) + 1
        return result

"""LIDIA (Vaksman, Elad and Milanfar, CVPR workshops 2020), by the authors' code: a copy of it is the user's to get.

    git clone https://github.com/grishavak/LIDIA-denoiser checkouts/lidia

The weights for sigma 25 are the file lidia-25 in the folder of weights (model_state_sigma_25_bw.pt of the authors').
None of that code is part of this repository.
"""

import importlib
import sys
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from unittest.mock import patch

import numpy as np
import torch

from . import _weights, folders

_CHUNK = 1_000
"""Patches at a time.  With the 40,000 of the authors' scripts, the result is the same, for more memory and time."""


def denoiser(weights: str = "lidia-{sigma:g}"):
    """`weights` is the name of the file, without its suffix."""

    def call(noisy, sigma):
        network = _network(folders.checkouts / "lidia", _weights.find(weights.format(sigma=sigma)))
        image = torch.tensor(np.asarray(noisy, np.float32) / 127.5 - 1)[None, None]
        with torch.no_grad():
            result = network(image, train=False, save_memory=True, max_chunk=_CHUNK)
        return 127.5 * (result[0, 0].numpy() + 1)

    return call


@cache
def _network(checkout, path):
    code = checkout / "code"
    if not (code / "modules.py").is_file():
        raise FileNotFoundError(
            f"the folder of LIDIA is {str(checkout)!r}; expected a clone of github.com/grishavak/LIDIA-denoiser"
        )
    with _imported(code, "modules", "utils", "data_modules") as (modules, utils, _):
        options = modules.ArchitectureOptions(rgb=False, small_network=False)
        network = modules.NonLocalDenoiser(utils.calc_padding(options)[0], options)
    try:
        network.patch_denoise_net.load_state_dict(_weights.state_dict(path))
    except RuntimeError:
        raise ValueError(
            f"{path.name} does not hold the weights of LIDIA for gray images"
        ) from None
    return network.eval()


@contextmanager
def _imported(folder, *names):
    """Import modules from a folder, and forget them afterwards.

    What they read and write images with is not needed, nor must it be installed.
    """
    unused = ("imageio", "torchvision", "torchvision.transforms")
    with (
        patch.dict(sys.modules, {name: ModuleType(name) for name in unused}),
        patch.object(sys, "path", [str(folder), *sys.path]),
    ):
        yield [importlib.import_module(name) for name in names]

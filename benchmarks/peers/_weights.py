"""Weights from files of the user's, and the plain networks that DnCNN and FFDNet are made of.

A file is one of MatConvNet's (.mat, of MATLAB 5 or 7.3), or a state dict of PyTorch's (.pth, .pt).
"""

import numpy as np
import torch
from torch import nn

from . import folders


def find(name):
    """The file for a network, such as dncnn-25.mat for "dncnn-25"."""
    known = [f"{name}{suffix}" for suffix in (".mat", ".pth", ".pt")]
    for file in known:
        if (folders.weights / file).is_file():
            return folders.weights / file
    raise FileNotFoundError(
        f"the folder of weights is {str(folders.weights)!r}; expected one with {', '.join(known[:-1])} or {known[-1]}"
    )


def state_dict(path):
    """The state dict in a file, by itself or in the checkpoint of a training."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{path.name} is not a file of PyTorch's that holds weights alone"
        ) from error
    for key in ("state_dict", "params", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not (isinstance(content, dict) and all(isinstance(value, torch.Tensor) for value in content.values())):  # fmt: skip
        raise ValueError(f"{path.name} holds {type(content).__name__}; expected a state dict")
    return {key.removeprefix("module."): value for key, value in content.items()}


def convolutions(path):
    """The convolutions of a file in order, as (weight, bias); normalisation is part of them."""
    found = _of_matlab(path) if path.suffix == ".mat" else _of_torch(path)
    ends = [weight.shape[0] for weight, _ in found]
    starts = [weight.shape[1] for weight, _ in found]
    if len(found) < 2 or ends[:-1] != starts[1:]:
        raise ValueError(
            f"{path.name} holds {len(found)} convolutions of {starts} to {ends} channels; "
            "expected one that continues the other"
        )
    return found


def sequence(layers):
    """Convolutions with rectifiers between them."""
    blocks = []
    for weight, bias in layers:
        outputs, inputs, *size = weight.shape
        block = nn.Conv2d(inputs, outputs, size, padding=size[0] // 2)
        block.weight.data, block.bias.data = weight.float(), bias.float()
        blocks += [block, nn.ReLU()]
    return nn.Sequential(*blocks[:-1]).eval().to(memory_format=torch.channels_last)


def _of_torch(path):
    state = state_dict(path)
    found = []
    for key, weight in state.items():
        base = key.removesuffix("weight")
        if key.endswith("weight") and weight.ndim == 4:
            found.append([weight, state.get(f"{base}bias", torch.zeros(len(weight)))])
        elif key.endswith("weight") and f"{base}running_var" in state and found:
            scale = weight / (state[f"{base}running_var"] + 1e-5).sqrt()
            shift = state[f"{base}bias"] - scale * state[f"{base}running_mean"]
            kernel, bias = found[-1]
            found[-1] = [kernel * scale[:, None, None, None], bias * scale + shift]
    return found


def _of_matlab(path):
    with path.open("rb") as file:
        head = file.read(128)
    try:
        return (_of_matlab_7 if b"MATLAB 7.3" in head else _of_matlab_5)(path)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"{path.name} is not a network of MatConvNet's") from error


def _of_matlab_7(path):
    import h5py

    found = []
    with h5py.File(path) as file:
        for layer in file["net/layers"][:, 0]:
            cells = file[layer].get("weights")
            if cells is not None and cells.dtype == object:
                weight, bias = (file[cell][()] for cell in np.ravel(cells))
                # HDF5 has the axes in reverse; a last axis of length 1 is left out.
                weight = weight if weight.ndim == 4 else weight[None]
                found.append(_tensors(weight.transpose(0, 1, 3, 2), bias))
    return found


def _of_matlab_5(path):
    from scipy.io import loadmat

    net = loadmat(path, struct_as_record=False, squeeze_me=True)["net"]
    found = []
    for layer in net.layers:
        if layer.type == "conv":
            weight, bias = layer.weights
            outputs = np.size(bias)
            weight = np.reshape(weight, (*np.shape(weight)[:2], -1, outputs), order="F")
            found.append(_tensors(weight.transpose(3, 2, 0, 1), bias))
    return found


def _tensors(weight, bias):
    return torch.tensor(np.ascontiguousarray(weight)), torch.tensor(np.ravel(bias))

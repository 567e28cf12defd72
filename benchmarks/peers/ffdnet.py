"""FFDNet (Zhang, Zuo and Zhang, TIP 2018): convolutions on an image of half the size, beside a map of the noise level.

One set of weights serves all levels: the file ffdnet-gray or ffdnet-color in the folder of weights.
"""

import numpy as np
import torch
from torch.nn import functional

from ..images import color
from . import _weights


def denoiser():
    def call(noisy, sigma):
        gray = color(noisy) is None
        network = read(_weights.find("ffdnet-gray" if gray else "ffdnet-color"), 1 if gray else 3)
        planes = noisy[None] if gray else np.moveaxis(noisy, -1, 0)
        image = torch.tensor(np.asarray(planes, np.float32) / 255)[None]
        with torch.no_grad():
            denoised = 255 * forward(network, image, sigma / 255)[0].numpy()
        return denoised[0] if gray else np.moveaxis(denoised, 0, -1)

    return call


def read(path, planes):
    layers = _weights.convolutions(path)
    if path.suffix != ".mat" and any("dncnn" in key for key in _weights.state_dict(path)):
        # A later implementation has the noise level first, and predicts the noise.
        raise ValueError(
            f"{path.name} holds the FFDNet of IPOL, another network; expected that of its first authors"
        )
    inputs, outputs = layers[0][0].shape[1], layers[-1][0].shape[0]
    if (inputs, outputs) != (4 * planes + 1, 4 * planes):
        raise ValueError(
            f"{path.name} holds a network of {inputs} to {outputs} channels; "
            f"expected {4 * planes + 1} to {4 * planes} for FFDNet"
        )
    if path.suffix == ".mat":  # where columns come before rows
        order = [4 * plane + pixel for plane in range(planes) for pixel in (0, 2, 1, 3)]
        (first, shift), (last, bias) = layers[0], layers[-1]
        layers[0] = first[:, [*order, inputs - 1]], shift
        layers[-1] = last[order], bias[order]
    return _weights.sequence(layers)


def forward(network, image, sigma):
    height, width = image.shape[2:]
    even = functional.pad(image, (0, width % 2, 0, height % 2), mode="replicate")
    small = functional.pixel_unshuffle(even, 2)
    level = torch.full_like(small[:, :1], sigma)
    return functional.pixel_shuffle(network(torch.cat([small, level], dim=1)), 2)[
        :, :, :height, :width
    ]

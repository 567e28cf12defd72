"""DnCNN (Zhang, Zuo, Chen, Meng and Zhang, TIP 2017): convolutions that predict the noise; one set of weights for each level.

The weights for sigma 25 are the file dncnn-25 in the folder of weights.
"""

import numpy as np
import torch

from . import _weights


def denoiser(weights: str = "dncnn-{sigma:g}"):
    """`weights` is the name of the file, without its suffix."""

    def call(noisy, sigma):
        network = read(_weights.find(weights.format(sigma=sigma)))
        image = torch.tensor(np.asarray(noisy, np.float32) / 255)[None, None]
        with torch.no_grad():
            return 255 * (image - network(image))[0, 0].numpy()

    return call


def read(path):
    layers = _weights.convolutions(path)
    inputs, outputs = layers[0][0].shape[1], layers[-1][0].shape[0]
    if (inputs, outputs) != (1, 1):
        raise ValueError(
            f"{path.name} holds a network of {inputs} to {outputs} channels; expected 1 to 1 for DnCNN"
        )
    return _weights.sequence(layers)

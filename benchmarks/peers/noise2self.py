"""Noise2Self (Batson and Royer, ICML 2019), the version for a single image: a network that never sees the pixel it predicts.

In each iteration, the pixels of a coarse grid are replaced by the mean of their neighbours, and the network is trained
to predict them.  Where pixels have independent noise, the loss differs from the error by a constant.
"""

import torch
from torch import nn
from torch.nn import functional

from ._training import Fit, Trained

_WIDTH = 4
"""Side of the cells of the grid, one pixel of which is masked at a time."""


def denoiser(
    iterations: int = 500,
    seed: int = 0,
    mixed: int = 0,
    learning_rate: float = 0.01,
    channels: int = 64,
    layers: int = 8,
    every: int = 25,
):
    """The settings of the authors' example; the best of the results of each `every` iterations by their loss is kept."""
    return Trained(
        "noise2self", _start, iterations, seed, mixed, learning_rate=learning_rate, channels=channels, layers=layers, every=every
    )  # fmt: skip


def _start(image, learning_rate, channels, layers, every):
    network = _network(image.shape[1], channels, layers)
    optimiser = torch.optim.Adam(network.parameters(), learning_rate)
    kept = {"best": image, "loss": torch.tensor(torch.inf)}

    def step(iteration):
        if iteration and iteration % every == 0:
            judge()
        network.train()
        mask = grid(image, iteration % _WIDTH**2)
        return ((network(without(image, mask)) - image)[mask.expand_as(image)] ** 2).mean()

    @torch.no_grad()
    def judge():
        network.eval()
        result = predicted(network, image)
        loss = functional.mse_loss(result, image)
        if loss < kept["loss"]:
            kept.update(best=result, loss=loss)

    def result():
        judge()
        return kept["best"]

    return Fit(network, optimiser, step, result, kept)


def _network(planes, channels, layers):
    blocks = [nn.Conv2d(planes, channels, 3, padding=1), nn.ReLU()]
    for _ in range(layers - 2):
        blocks += [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]  # fmt: skip
    return nn.Sequential(*blocks, nn.Conv2d(channels, planes, 3, padding=1))


def grid(image, phase):
    """The mask of one pixel of each cell; the phases together cover the image."""
    mask = torch.zeros(image.shape[2:], dtype=torch.bool)
    mask[phase // _WIDTH :: _WIDTH, phase % _WIDTH :: _WIDTH] = True
    return mask


def without(image, mask):
    """The image with the pixels of the mask replaced by the weighted mean of their neighbours."""
    weights = torch.tensor([[0.5, 1, 0.5], [1, 0, 1], [0.5, 1, 0.5]]) / 6
    padded = functional.pad(image, (1, 1, 1, 1), mode="reflect")
    planes = image.shape[1]
    means = functional.conv2d(padded, weights.expand(planes, 1, 3, 3), groups=planes)
    return torch.where(mask, means, image)


def predicted(network, image):
    """Each pixel, predicted without itself."""
    result = torch.empty_like(image)
    for phase in range(_WIDTH**2):
        mask = grid(image, phase)
        result = torch.where(mask, network(without(image, mask)), result)
    return result

"""Self2Self (Quan, Chen, Pang and Ji, CVPR 2020): dropout makes an ensemble of networks from a single noisy image.

Each iteration keeps a random part of the pixels and trains the network to predict the others.  Partial convolutions
ignore the pixels that are missing.  The result is the mean of many predictions, with dropout as in training.
"""

import torch
from torch import nn
from torch.nn import functional

from ._training import Fit, Trained


def denoiser(
    iterations: int = 450_000,
    seed: int = 0,
    mixed: int = 0,
    learning_rate: float = 1e-4,
    kept: float = 0.7,
    predictions: int = 100,
    channels: int = 48,
    levels: int = 5,
):
    """The published schedule; `kept` is the probability that a pixel is kept, and that a feature is."""
    return Trained(
        "self2self", _start, iterations, seed, mixed, learning_rate=learning_rate, share=kept, predictions=predictions, channels=channels, levels=levels
    )  # fmt: skip


def _start(image, learning_rate, share, predictions, channels, levels):
    network = PartialUNet(image.shape[1], channels, levels, 1 - share)
    optimiser = torch.optim.Adam(network.parameters(), learning_rate)

    def sampled():
        mask = (torch.rand(image.shape) < share).to(image.dtype)
        flips = [axis for axis in (2, 3) if torch.rand(()) < 0.5]
        return mask.flip(flips), image.flip(flips), flips

    def step(iteration):
        mask, target, _ = sampled()
        error = (network(mask * target, mask) - target) * (1 - mask)
        return (error**2).sum() / (1 - mask).sum().clip(min=1)

    def result():
        network.train()  # with dropout
        total = torch.zeros_like(image)
        for _ in range(predictions):
            mask, target, flips = sampled()
            total += network(mask * target, mask).flip(flips)
        return total / predictions

    return Fit(network, optimiser, step, result)


class PartialConvolution(nn.Module):
    """A convolution over the pixels that are known; a pixel is known to the next layer if any of them was."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bias = nn.Parameter(torch.zeros(1, outputs, 1, 1))

    def forward(self, x, known):
        counts = functional.avg_pool2d(known.mean(1, keepdim=True), 3, 1, 1)
        present = (counts > 0).to(x.dtype)
        return (self.weight(x * known) / counts.clip(min=1e-6) + self.bias) * present, present


class PartialUNet(nn.Module):
    """An encoder of partial convolutions, and a decoder of convolutions with dropout."""

    def __init__(self, planes, channels, levels, drop):
        super().__init__()
        self.first = PartialConvolution(planes, channels)
        self.down = nn.ModuleList(PartialConvolution(channels, channels) for _ in range(levels + 1))
        wide = 2 * channels
        depths = [channels] + [wide] * (levels - 1)
        self.up = nn.ModuleList(
            nn.Sequential(_dropped(depth + channels, wide, drop), _dropped(wide, wide, drop))
            for depth in depths[:-1]
        )
        self.last = nn.Sequential(
            _dropped(depths[-1] + planes, 4 * channels // 3, drop),
            _dropped(4 * channels // 3, 2 * channels // 3, drop),
            nn.Dropout(drop),
            nn.Conv2d(2 * channels // 3, planes, 3, padding=1),
        )

    def forward(self, image, known):
        skipped = [image]
        x, known = self.first(image, known)
        x = functional.leaky_relu(x, 0.1)
        for level, block in enumerate(self.down):
            x, known = block(x, known)
            x = functional.leaky_relu(x, 0.1)
            if level < len(self.down) - 1:
                x, known = (functional.max_pool2d(y, 2, ceil_mode=True) for y in (x, known))
                skipped.append(x)
        beside = skipped[-2::-1]  # all but the deepest, from coarse to fine
        for block, other in zip([*self.up, self.last], beside, strict=True):
            x = functional.interpolate(x, size=other.shape[2:])
            x = block(torch.cat([x, other], dim=1))
        return torch.sigmoid(x)


def _dropped(inputs, outputs, drop):
    return nn.Sequential(
        nn.Dropout(drop), nn.Conv2d(inputs, outputs, 3, padding=1), nn.LeakyReLU(0.1)
    )

"""Deep Image Prior (Ulyanov, Vedaldi and Lempitsky, CVPR 2018): an hourglass that is fitted to the noisy image.

The input is noise.  The network fits the image before it fits the noise on it, so that the number of iterations is what
regularises.  The result is the exponential average of the network's outputs.
"""

import torch
from torch import nn
from torch.nn import functional

from ._training import Fit, Trained


def denoiser(
    iterations: int = 3000,
    seed: int = 0,
    mixed: int = 0,
    learning_rate: float = 0.01,
    channels: int = 128,
    levels: int = 5,
    jitter: float = 1 / 30,
    smoothing: float = 0.99,
):
    """The published settings; `jitter` is the noise that is added to the input in each iteration."""
    return Trained(
        "dip", _start, iterations, seed, mixed, learning_rate=learning_rate, channels=channels, levels=levels, jitter=jitter, smoothing=smoothing
    )  # fmt: skip


def _start(image, learning_rate, channels, levels, jitter, smoothing):
    network = Hourglass(_INPUTS, image.shape[1], channels, levels)
    fixed = 0.1 * torch.rand(1, _INPUTS, *image.shape[2:])
    optimiser = torch.optim.Adam(network.parameters(), learning_rate)
    kept = {"fixed": fixed}

    def step(iteration):
        output = network(kept["fixed"] + jitter * torch.randn(fixed.shape))
        now = output.detach().float()
        kept["average"] = smoothing * kept.get("average", now) + (1 - smoothing) * now
        return functional.mse_loss(output, image)

    return Fit(network, optimiser, step, lambda: kept["average"], kept)


_INPUTS = 32


class Hourglass(nn.Module):
    """An encoder and a decoder with narrow connections between them at each of several scales."""

    def __init__(self, inputs, outputs, channels, levels, skipped=4):
        super().__init__()
        sources = [inputs] + [channels] * (levels - 1)
        self.down = nn.ModuleList(
            nn.Sequential(_block(n, channels, 3, 2), _block(channels, channels, 3)) for n in sources
        )
        self.skip = nn.ModuleList(_block(n, skipped, 1) for n in sources)
        self.up = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + skipped),
                _block(channels + skipped, channels, 3),
                _block(channels, channels, 1),
            )
            for _ in sources
        )
        self.last = nn.Conv2d(channels, outputs, 1)

    def forward(self, x):
        skipped = []
        for down, skip in zip(self.down, self.skip, strict=True):
            skipped.append(skip(x))
            x = down(x)
        for up, beside in zip(reversed(self.up), reversed(skipped), strict=True):
            x = functional.interpolate(
                x, size=beside.shape[2:], mode="bilinear", align_corners=False
            )
            x = up(torch.cat([x, beside], dim=1))
        return torch.sigmoid(self.last(x))


def _block(inputs, outputs, size, stride=1):
    # Near the coarsest scale of a small image, a reflection would be wider than the image.
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, padding_mode="replicate" if size > 1 else "zeros"),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(0.2),
    )  # fmt: skip

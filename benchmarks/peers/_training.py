"""Networks that are trained on the noisy image itself: a run shows its progress, and can be stopped and resumed."""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from ..images import color
from ..progress import shown
from . import folders

_EVERY = 100
"""Iterations between two checkpoints."""


@dataclass
class Fit:
    """A network, and how it is trained on one image."""

    network: torch.nn.Module
    optimiser: torch.optim.Optimizer
    step: Callable[[int], torch.Tensor]
    """Compute the loss of an iteration."""
    result: Callable[[], torch.Tensor]
    """Return the denoised image; called after the iterations."""
    kept: dict[str, torch.Tensor] = field(default_factory=dict)
    """What the result depends on besides the network, by name."""

    def state(self):
        return {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "kept": self.kept,
            "random": torch.get_rng_state(),
        }

    def restore(self, state):
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.kept.update(state["kept"])
        torch.set_rng_state(state["random"])


class Trained:
    """A denoiser that trains a network on each image, for a number of iterations.

    `start` takes the noisy image, a tensor of shape (1, channels, height, width) on a scale of 0 to 1, and returns a
    `Fit`.  A checkpoint is kept for each image; a run with more iterations resumes from it.  With `mixed`, training
    computes convolutions in bfloat16, which takes half the time on processors that support it.
    """

    def __init__(self, name, start, iterations, seed, mixed, **settings):
        self.name, self.start, self.iterations, self.seed = name, start, iterations, seed
        self.mixed, self.settings = bool(mixed), settings
        self.earlier_seconds = 0.0
        """Seconds that the checkpoint of the last call had taken."""

    def __call__(self, noisy, sigma):
        noisy = np.asarray(noisy, np.float32)
        planes = noisy if color(noisy) is None else np.moveaxis(noisy, -1, 0)
        image = torch.tensor(planes / 255).reshape(1, -1, *noisy.shape[:2])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            result = self._train(image, self._checkpoint(noisy))
        denoised = 255 * result[0].numpy()
        return denoised[0] if color(noisy) is None else np.moveaxis(denoised, 0, -1)

    def _checkpoint(self, noisy):
        case = repr(
            (self.name, self.seed, self.mixed, sorted(self.settings.items()), noisy.shape)
        ).encode()
        digest = hashlib.sha256(case + noisy.tobytes()).hexdigest()
        return folders.checkpoints / f"{self.name}-{digest[:16]}.pt"

    def _train(self, image, checkpoint):
        fit = self.start(image, **self.settings)
        fit.network.to(memory_format=torch.channels_last)  # faster convolutions
        first, self.earlier_seconds = 0, 0.0
        saved = _read(checkpoint)
        if saved and saved["iteration"] <= self.iterations:
            fit.restore(saved["state"])
            first, self.earlier_seconds = saved["iteration"], saved["seconds"]
        longer = saved is not None and saved["iteration"] > self.iterations
        began = time.perf_counter()
        for iteration in shown(range(first, self.iterations), self.name):
            fit.network.train()
            fit.optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.mixed):
                loss = fit.step(iteration)
            loss.backward()
            fit.optimiser.step()
            done = iteration + 1
            if not longer and (done % _EVERY == 0 or done == self.iterations):
                seconds = self.earlier_seconds + time.perf_counter() - began
                _write(checkpoint, {"iteration": done, "seconds": seconds, "state": fit.state()})
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(self.seed)
            return fit.result()


def _read(path: Path):
    return torch.load(path, weights_only=True) if path.exists() else None


def _write(path: Path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    torch.save(content, beside)
    beside.replace(path)

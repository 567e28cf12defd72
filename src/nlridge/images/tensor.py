"""Images that are tensors of PyTorch, on any device: (planes, batch, height, width)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.algorithm import filtering, pyramid
from ..core.algorithm.filling import fill_planes
from ..core.algorithm.images import Images
from ..core.algorithm.inputs import StepInputs
from ..core.algorithm.passes import Pass
from ..core.arrays import as_array_like
from ..core.engines.frame_grid import Motion
from ..core.engines.torch import run_pass
from ..types import Shape
from .flicker import gains_of
from .motion import motions_of


@dataclass(frozen=True, eq=False)
class Tensors(Images):
    """Batches of images, or of frames that belong together."""

    max_memory: int
    """The number of bytes to use at a time."""
    motions: Sequence[Motion] | None = None
    """The motion of each frame of a batch; None for unrelated images."""
    height: int = 0
    """The height of the frames to which the motion refers."""
    repeats: Sequence[bool] = ()
    """For a video: which frames are the same as the one before."""

    def run_pass(
        self, inputs: StepInputs, pass_: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[Tensor, Tensor]:
        return run_pass(
            inputs,
            pass_,
            groups,
            max_memory=self.max_memory,
            motions=self.motions,
            height=self.height,
        )

    def each(self, function: Callable[..., Any], *images: Any, shape: Shape | None = None) -> Any:
        return function(*images)

    coarser = staticmethod(pyramid.coarser)
    coarser_noise = staticmethod(pyramid.coarser_noise)
    with_coarse = staticmethod(pyramid.with_coarse)
    filtered = staticmethod(filtering.filtered)

    def filled(self, image: Tensor) -> Tensor:
        return torch.stack([fill_planes(plane) for plane in image])

    def steadied(self, noisy: Tensor, source: Any) -> tuple[Images, Tensor, Tensor | None]:
        if not self.repeats:
            return self, noisy, None
        frames = noisy[:1].detach().movedim(1, 0).cpu().numpy()
        gains = np.array(list(gains_of(iter(frames))))[:, None, None]
        about = zip(self.repeats, 1 / gains.ravel(), strict=True)
        motions = list(motions_of(iter(frames / gains[:, None]), about))
        moving = replace(self, motions=motions)
        if np.all(gains == 1):
            return moving, noisy, None
        gain: Tensor = as_array_like(gains[None], noisy)
        return moving, noisy / gain, gain


def images_for(device: torch.device, max_memory: int | None = None) -> Tensors:
    """Batches of images on a device, with a share of its memory unless some is given."""
    return Tensors(max_memory or _share_of_memory(device))


def frames_for(
    device: torch.device,
    height: int,
    repeats: Sequence[bool],
    max_memory: int | None = None,
    *,
    is_video: bool,
) -> Tensors:
    """Frames that belong together, of some height."""
    still = [Motion()] * len(repeats)
    return replace(
        images_for(device, max_memory),
        motions=still,
        height=height,
        repeats=repeats if is_video else (),
    )


def _share_of_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 2**27
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused) // 4

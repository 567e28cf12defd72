"""`denoise` for a tensor of PyTorch: by the compiled engine where that can be, and by `NLRidge` elsewhere."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..algorithm.settings import Recipe
from ..job import typical_ends
from ..messages import shown
from ..noise.estimation import noise_of
from ..noise.gaussian import GaussianNoise
from ..torch import NLRidge
from .arguments import checked_image, checked_levels, checked_noise, frame_of


def denoise_tensor(
    denoise: Callable[..., Any], image: Tensor, sigma: Any, *, mask: Any, **options: Any
) -> Tensor:
    """The image denoised, as floats of its own type and on its own device.

    `denoise` is the function for arrays, whose options these are.  A tensor on the CPU that needs no gradient is as
    good as an array, and the compiled engine is faster.
    """
    wanted = image.dtype if image.is_floating_point() else torch.float32
    sigma, mask = _on_host(sigma), _on_host(mask)
    on_cpu = image.device.type == "cpu"
    if on_cpu and not (torch.is_grad_enabled() and image.requires_grad):
        return torch.as_tensor(denoise(_on_host(image), sigma, mask=mask, **options)).to(wanted)
    where = "that needs a gradient" if on_cpu else f"on {image.device}"
    for name, value in (("mask", mask), *((name, options.pop(name)) for name in _FOR_THREADS)):
        if value is not None and value is not False:
            words = "given" if name == "mask" else shown(value)
            raise ValueError(f"{name} is {words}; expected none for a tensor {where}")
    return _denoised_frames(image, sigma, where, **options).to(wanted)


_FOR_THREADS = ("workers", "progress")


def _denoised_frames(
    image: Tensor,
    sigma: Any,
    where: str,
    *,
    noise: Any,
    strength: float,
    method: str | Recipe,
    channel_axis: int | None,
    stack_axis: int | None,
    data_range: float | None,
) -> Tensor:
    """Each frame of a stack by itself; what is not given is found out from a copy on the host."""
    same_shape = np.broadcast_to(np.float32(0), tuple(image.shape))
    _, _, layout = checked_image(same_shape, None, stack_axis, channel_axis)
    noise = checked_noise(sigma, noise)
    levels = None if noise is None else checked_levels(noise, layout)
    clean = []
    for k, frame in enumerate(layout.frames(image)):
        own = noise_of(_on_host(frame), None) if noise is None else noise
        if not isinstance(own, GaussianNoise):
            raise ValueError(
                f"noise is {shown(own)}; expected Gaussian noise for a tensor {where}: "
                "pass sigma, or the image as an array"
            )
        level = np.reshape(own.level, (-1, 1, 1)) if levels is None else frame_of(levels, k)
        floats = frame if frame.is_floating_point() else frame.float()
        if not np.any(level):  # nothing to remove
            clean.append(floats)
            continue
        module = NLRidge(
            method,
            data_range=_range(_on_host(frame)) if data_range is None else data_range,
            strength=strength,
        )
        clean.append(module(floats[None], torch.tensor(level))[0])
    found: Tensor = layout.like_image(torch.stack(clean))
    return found


def _range(pixels: Any) -> float:
    """Of all channels, on average."""
    ends = np.array([typical_ends(channel) for channel in pixels])
    return max(1e-200, float(np.sqrt(np.mean(np.diff(ends) ** 2))))


def _on_host(values: Any) -> Any:
    """A tensor as an array; NumPy has no bfloat16."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()

"""`denoise` for PyTorch tensors: with the compiled engine if possible, otherwise with `NLRidge`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..algorithm.tuning import DEFAULT
from ..checks import shown
from ..noise import Noise
from ..noise.correlated import CorrelatedNoise
from ..noise.gaussian import GaussianNoise
from ..planning.blind import estimated_noise
from ..planning.doubts import doubt_about, doubt_about_colour, warn_about
from ..planning.layout import layout_of
from ..planning.levels import levels_of
from ..planning.options import Options, checked_dtype
from ..planning.plan import share_and_tuning, share_of
from ..planning.ranges import known_ends, typical_ends
from ..progress import Progress
from ..torch import NLRidge
from ..video.planning import SequenceAxis
from .arguments import checked_progress, checked_workers, expect_none, frame_of
from .conversion import to_dtype
from .in_memory import denoise_array, frames_of
from .sequences import denoise_sequences, sequences_of


def denoise_tensor(
    image: Tensor,
    options: Options,
    *,
    mask: Any,
    stack_axis: Any,
    channel_axis: Any,
    sequence: SequenceAxis | None,
    dtype: Any,
    workers: int | None,
    progress: Progress,
) -> Tensor:
    """Denoise a tensor; returns one of type `dtype`, or else floats of the same type, on the same device.

    A tensor on the CPU that needs no gradient is treated as an array, since the compiled engine is faster.
    """
    target = _checked_dtype(image, dtype)
    on_cpu = image.device.type == "cpu"
    needs_gradient = torch.is_grad_enabled() and image.requires_grad
    where = "for a tensor " + ("that needs a gradient" if needs_gradient else f"on {image.device}")
    if needs_gradient and not target.is_floating_point:
        raise ValueError(f"dtype is {shown(dtype)}; expected a floating-point type {where}")
    if on_cpu and not needs_gradient:
        options = replace(options, dtype=_integers(target))
        threads, progress = checked_workers(workers), checked_progress(progress)
        axes: dict[str, Any] = {"stack_axis": stack_axis, "channel_axis": channel_axis}
        on_cpu_as = {"mask": on_host(mask), "workers": threads, **axes}
        if sequence is None:
            frames = frames_of(on_host(image), options, **on_cpu_as)
            return torch.as_tensor(denoise_array(frames, threads, progress)).to(target)
        sequences = sequences_of(on_host(image), options, sequence, **on_cpu_as)
        return torch.as_tensor(denoise_sequences(sequences, threads, progress)).to(target)
    if mask is not None:
        raise ValueError(f"mask is given; expected None {where}")
    expect_none(where, workers=workers, progress=progress)
    if sequence is not None:
        result = _denoise_sequences(image, options, sequence, where, stack_axis, channel_axis)
        return _as_type(result, target)
    return _as_type(_denoise_frames(image, options, where, stack_axis, channel_axis), target)


def _denoise_frames(
    image: Tensor, options: Options, where: str, stack_axis: Any, channel_axis: Any
) -> Tensor:
    """Denoise each frame separately; noise and range are estimated on a copy in host memory if not given."""
    layout = layout_of(tuple(image.shape), np.dtype(np.float32), stack_axis, channel_axis)
    levels = None if options.noise is None else levels_of(options.noise, layout)
    clean = []
    for k, frame in enumerate(layout.frames(image)):
        noise = options.noise or _estimated(on_host(frame), options.kind)
        _check_noise(noise, where)
        level = np.reshape(noise.level, (-1, 1, 1)) if levels is None else frame_of(levels, k)
        floats = frame if frame.is_floating_point() else frame.float()
        if not np.any(level):
            clean.append(floats)
            continue
        ends = known_ends(_dtype_of(image), 0.0, options.data_range) or [
            typical_ends(channel) for channel in on_host(frame)
        ]
        if k == 0:  # the same noise for all
            typical = np.broadcast_to(np.median(level, axis=(1, 2)), len(frame))
            pixels = frame[0].numel()
            warn_about(
                doubt_about(options.noise, typical, ends, _dtype_of(image), pixels)
                or doubt_about_colour(options.tuning.colour, [len(frame)])
            )
        data_range = options.data_range or _range(ends)
        correlation = getattr(noise, "correlation", None)
        module = NLRidge(options.method, data_range=data_range, correlation=correlation)
        share, module.tuning = share_and_tuning(noise, options.tuning)
        (changed,), _ = module.with_doubt(floats[None], torch.tensor(level))
        clean.append(_in_part(floats, changed, share))
    result: Tensor = layout.like_image(torch.stack(clean))
    return result


def _denoise_sequences(
    image: Tensor,
    options: Options,
    axis: SequenceAxis,
    where: str,
    stack_axis: Any,
    channel_axis: Any,
) -> Tensor:
    """Denoise frames that belong together; they are planned on a copy in host memory."""
    sequences = sequences_of(
        on_host(image),
        options,
        axis,
        mask=None,
        stack_axis=stack_axis,
        channel_axis=channel_axis,
        workers=checked_workers(None),
    )
    clean = []
    for k, frames in enumerate(sequences.layout.frames(image)):
        sequence = sequences.plan(k)
        if options.noise is None and _may_be_texture(sequence.plan.noise):
            gaussian = replace(options, kind="gaussian")
            sequence = sequences._replace(options=gaussian).plan(k)
        plan = sequence.plan
        _check_noise(plan.noise, where)
        if k == 0:  # the same noise for all
            warn_about(plan.doubt)
        floats = frames if frames.is_floating_point() else frames.float()
        if not plan.planes:
            clean.append(floats)
            continue
        # The recipe is chosen, so that the range does not matter.
        correlation = getattr(plan.noise, "correlation", None)
        module = NLRidge(plan.recipe, data_range=1e-200, correlation=correlation, kind="video")
        module.tuning, module.is_video = plan.tuning, sequence.is_video
        levels = sequences.frames(k).levels if sequence.levels is None else sequence.levels[None]
        changed, _ = module.with_doubt(floats, torch.tensor(levels))
        clean.append(_in_part(floats, changed, plan.share))
    result: Tensor = sequences.layout.like_image(torch.stack(clean))
    return result


def _checked_dtype(image: Tensor, dtype: Any) -> torch.dtype:
    """Return the type of the result, which may be given as a type of PyTorch or of NumPy."""
    if dtype is None:
        return image.dtype if image.is_floating_point() else torch.float32
    if not isinstance(dtype, torch.dtype):
        dtype = torch.from_numpy(np.empty(0, checked_dtype(dtype))).dtype
    if dtype.is_complex or dtype == torch.bool:
        raise TypeError(f"dtype is {dtype}; expected a type of integers or floats")
    return dtype


def _integers(dtype: torch.dtype) -> np.dtype[Any] | None:
    """Return an integer type as NumPy calls it; None for floats."""
    return None if dtype.is_floating_point else torch.empty(0, dtype=dtype).numpy().dtype


def _as_type(result: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a result; to integers on the host, by the same rules as arrays."""
    integers = _integers(dtype)
    if integers is None:
        return result.to(dtype)
    return torch.as_tensor(to_dtype(on_host(result), integers)).to(result.device)


def _estimated(pixels: Any, kind: str) -> Noise:
    noise = estimated_noise(pixels, None, kind)
    return estimated_noise(pixels, None, "gaussian") if _may_be_texture(noise) else noise


def _may_be_texture(noise: Noise) -> bool:
    """Whether estimated noise may be texture; it then depends on the brightness, which tensors do not support."""
    return share_of(noise, DEFAULT) < 1


def _in_part(noisy: Tensor, changed: Tensor, share: float) -> Tensor:
    """Make a share of the changes."""
    return changed if share == 1 else noisy + share * (changed - noisy)


def _check_noise(noise: Noise, where: str) -> None:
    base = noise.noise if isinstance(noise, CorrelatedNoise) else noise
    if not isinstance(base, GaussianNoise):
        raise ValueError(
            f"noise is {shown(noise)}; expected Gaussian noise {where}: "
            "pass sigma, or the image as an array"
        )


def _dtype_of(image: Tensor) -> np.dtype[Any]:
    """Return the type of the image as NumPy calls it."""
    return np.asarray(on_host(image.flatten()[:0])).dtype


def _range(ends: Sequence[tuple[float, float]]) -> float:
    """Return the root mean square of the ranges of all channels."""
    return max(1e-200, float(np.sqrt(np.mean(np.diff(ends) ** 2))))


def on_host(values: Any) -> Any:
    """Convert a tensor to an array in host memory; bfloat16 becomes float32, as NumPy lacks it."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()

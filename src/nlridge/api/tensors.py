"""PyTorch tensors: denoised as arrays if possible, otherwise on their device and with their gradient."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from ..core.engines.grid import whole_window
from ..errors import ArgumentError, ArgumentTypeError
from ..images.tensor import frames_for, images_for
from ..planning.conversion import to_dtype
from ..planning.doubts import warn_about
from ..planning.explained import or_unchanged
from ..planning.frames import noisy_frames
from ..planning.layout import SequenceAxis, window_of
from ..planning.levels import Levels
from ..planning.options import Options, checked_dtype
from ..planning.outliers import Repaired
from ..planning.pixels import NoisyPixels
from ..planning.plan import Plan
from ..planning.way import Planned, denoised_image
from .arguments import checked_workers, expect_none
from .details import Denoised
from .in_memory import planned_for
from .measured import Measured, MeasuredImages, Run
from .quality import Quality
from .sequences import MeasuredSequences


def tensor_for(
    image: Tensor,
    options: Options,
    layout: dict[str, Any],
    sequence: SequenceAxis | None,
    dtype: Any,
    workers: int | None,
) -> Measured:
    """Return a tensor to denoise into the type `dtype`; `layout` has the mask and the axes of the stack and the channels.

    It is measured on a copy in host memory. A tensor on the CPU that needs no gradient is treated as an array, since the
    compiled engine is faster.
    """
    target = _checked_dtype(image, dtype)
    needs_gradient = torch.is_grad_enabled() and image.requires_grad
    where = "for a tensor " + ("that needs a gradient" if needs_gradient else f"on {image.device}")
    if needs_gradient and not target.is_floating_point:
        raise ArgumentError("dtype", dtype, f"a floating-point type {where}")
    on_device = needs_gradient or image.device.type != "cpu"
    if on_device:
        expect_none(where, workers=workers)
    options, threads = replace(options, dtype=_integers(target)), checked_workers(workers)
    as_arrays: dict[str, Any] = {**layout, "mask": on_host(layout["mask"])}
    if sequence is None:
        images = MeasuredImages(on_host(image), options, threads, **as_arrays)
        return ImagesOnDevice(image, images, where) if on_device else HostTensor(image, images)
    frames = MeasuredSequences(on_host(image), options, sequence, threads, **as_arrays)
    return FramesOnDevice(image, frames, where) if on_device else HostTensor(image, frames)


class HostTensor(Measured):
    """A tensor that is denoised as an array, with results as tensors."""

    def __init__(self, image: Tensor, measured: Measured) -> None:
        self.image, self.measured = image, measured

    @property
    def axes(self) -> str:
        return self.measured.axes

    @property
    def noise_given(self) -> bool:
        return self.measured.noise_given

    def plan(self, options: Options) -> Plan:
        return self.measured.plan(options)

    def denoise(self, options: Options, run: Run) -> Tensor:
        target = _checked_dtype(self.image, run.dtype)
        result = self.measured.denoise(options, replace(run, dtype=_integers(target)))
        return torch.as_tensor(result).to(target)

    def details(self, options: Options, run: Run) -> Denoised:
        """See `Measured`. The details are computed on the host, and have no gradient."""
        return self._as_tensors(self.measured.details(options, run))

    def quality(self, options: Options, run: Run, peak: float | None, probes: int) -> Quality:
        quality = self.measured.quality(options, run, peak, probes)
        return replace(quality, denoised=self._as_tensors(quality.denoised))

    def _as_tensors(self, details: Denoised) -> Denoised:
        target = _checked_dtype(self.image, None)
        image, pilot, residual = (
            torch.as_tensor(array).to(self.image.device, target)
            for array in (details.image, details.pilot, details.residual)
        )
        return replace(details, image=image, pilot=pilot, residual=residual)


class ImagesOnDevice(HostTensor):
    """A tensor that is denoised with PyTorch: it is on another device, or a gradient is needed."""

    measured: MeasuredImages

    def __init__(self, image: Tensor, measured: Any, where: str) -> None:
        super().__init__(image, measured)
        self.where = where

    def denoise(self, options: Options, run: Run) -> Tensor:
        expect_none("without time_axis or depth_axis", frame=run.frame)
        expect_none(self.where, workers=run.workers, progress=run.progress)
        layout = self.measured.layout
        whole = slice(None), slice(None), slice(None)
        index = whole
        if run.region is not None:
            window = window_of(run.region, layout)
            index = window.inside(whole_window(self.measured.pixels.shape[2:]))
        clean = [
            _denoise_image(pixels, self.measured.frame(k, options, run.threads), is_first=k == 0)[
                index
            ]
            for k, pixels in enumerate(_floats(layout.frames(self.image)))
        ]
        result: Tensor = layout.like_image(torch.stack(clean))
        return _as_type(result, _checked_dtype(self.image, run.dtype))


class FramesOnDevice(ImagesOnDevice):
    """The same for frames that belong together."""

    measured: MeasuredSequences  # type: ignore[assignment]

    def denoise(self, options: Options, run: Run) -> Tensor:
        expect_none(self.where, workers=run.workers, progress=run.progress)
        wanted, part = self.measured.wanted(run), self.measured.part(run)
        layout = self.measured.layout
        clean = [
            torch.stack(
                [frame[part] for frame in _denoise_frames(frames, self.measured, k, options)]
            )[wanted.start : wanted.stop]
            for k, frames in enumerate(_floats(layout.frames(self.image)))
        ]
        result = self.measured.like_image(torch.stack(clean), run.frame)
        return _as_type(result, _checked_dtype(self.image, run.dtype))


class NoisyTensors(NoisyPixels):
    """Pixels of a tensor, (channels, batch, height, width), with what is known about them in host memory."""

    def __init__(self, plan: Plan, pixels: Tensor, known: Sequence[NoisyPixels]) -> None:
        """`known` is the same for each image of the batch."""
        super().__init__(
            plan, pixels, _batch([one.missing for one in known], pixels), _levels(known, pixels)
        )
        self.known = known

    @cached_property
    def repaired(self) -> Repaired:
        """See `NoisyPixels`. Outliers, which were found on the host, are replaced there; they have no gradient."""
        count = sum(one.repaired.outliers for one in self.known)
        if count == 0:
            return Repaired(self.pixels, 0)
        whole = np.stack([one.repaired.pixels for one in self.known], axis=1)
        before = np.stack([one.pixels for one in self.known], axis=1)
        pixels = cast(Tensor, self.pixels)
        changed = torch.as_tensor(whole != before).to(pixels.device)
        return Repaired(torch.where(changed, torch.as_tensor(whole).to(pixels), pixels), count)

    @cached_property
    def filled(self) -> Any:
        return _batch([one.filled for one in self.known], self.pixels)


def _levels(known: Sequence[NoisyPixels], pixels: Tensor) -> Levels:
    """The levels of a batch, (channels or 1, batch, height or 1, width or 1)."""
    levels = np.stack(np.broadcast_arrays(*(one.levels.all for one in known)), axis=1)
    if levels.shape[2:] == (1, 1) and np.ptp(levels, axis=1).any():
        levels = levels.repeat(pixels.shape[2], 2).repeat(pixels.shape[3], 3)
    return Levels(cast(Any, torch.as_tensor(levels).to(pixels)), known[0].levels.typical, None)


def _batch(masks: Sequence[Any], pixels: Tensor) -> Any:
    """The masks of a batch as a tensor; None if there are none."""
    if all(mask is None for mask in masks):
        return None
    shape = pixels.shape[0], *pixels.shape[2:]
    whole = [np.zeros(shape, bool) if mask is None else mask for mask in masks]
    return torch.as_tensor(np.stack(whole, axis=1)).to(pixels.device)


def _denoise_image(pixels: Tensor, known: NoisyPixels, *, is_first: bool) -> Tensor:
    """Denoise an image of (channels, height, width)."""
    if is_first:  # the same noise for all images of a stack
        warn_about(known.plan.doubt)
    noisy = NoisyTensors(known.plan, pixels[:, None], [known])
    images = images_for(pixels.device)
    result: Tensor = denoised_image(planned_for(known), noisy, images)[:, 0]
    return result if _is_explained(known, result) else noisy.repaired.pixels[:, 0]


def _denoise_frames(
    frames: Tensor, measured: MeasuredSequences, k: int, options: Options
) -> Tensor:
    """Denoise the frames of the k-th sequence, (frames, channels, height, width)."""
    sequence, read = measured.sequence_plan(k, options), measured.frames(k).frame
    plan = sequence.plan
    if k == 0:  # the same noise for all
        warn_about(plan.doubt)
    arrived = (sequence.with_levels(read(number)) for number in range(sequence.count))
    known = list(noisy_frames(arrived, plan, sequence.is_video))
    noisy = NoisyTensors(plan, frames.movedim(1, 0), known)
    levels = cast(Tensor, noisy.levels.all)
    differ = levels.shape[2:] != (1, 1)
    planned = Planned(
        plan,
        plan.levels[:, None, None] if differ else known[0].levels.all,
        len(levels) if differ else None,
        noisy.filled is not None,
    )
    repeats = [one.repeats for one in known]
    images = frames_for(frames.device, frames.shape[2], repeats, is_video=sequence.is_video)
    result = denoised_image(planned, noisy, images).movedim(0, 1)
    results: list[Tensor] = []
    for one, pixels in zip(known, result, strict=True):
        if one.repeats:
            results.append(results[-1])
        else:
            explained = _is_explained(one, pixels)
            results.append(pixels if explained else noisy.repaired.pixels[:, len(results)])
    return torch.stack(results)


def _is_explained(known: NoisyPixels, result: Tensor) -> bool:
    """Whether noise explains what was removed; see `or_unchanged`."""
    on_the_host = on_host(result)
    return or_unchanged(known, on_the_host) is on_the_host


def _floats(image: Tensor) -> Tensor:
    """The image in the type that it is computed in."""
    return image if image.dtype == torch.float64 else image.float()


def _checked_dtype(image: Tensor, dtype: Any) -> torch.dtype:
    """Return the type of the result, which may be given as a type of PyTorch or of NumPy."""
    if dtype is None:
        return image.dtype if image.is_floating_point() else torch.float32
    if not isinstance(dtype, torch.dtype):
        dtype = torch.from_numpy(np.empty(0, checked_dtype(dtype))).dtype
    if dtype.is_complex or dtype == torch.bool:
        raise ArgumentTypeError("dtype", dtype, "a type of integers or floats", "is {value}")
    return dtype


def _integers(dtype: torch.dtype) -> np.dtype[Any] | None:
    """Return an integer type as a type of NumPy; None for floats."""
    return None if dtype.is_floating_point else torch.empty(0, dtype=dtype).numpy().dtype


def _as_type(result: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a result; to integers on the host, by the same rules as arrays."""
    integers = _integers(dtype)
    if integers is None:
        return result.to(dtype)
    return torch.as_tensor(to_dtype(on_host(result), integers)).to(result.device)


def on_host(values: Any) -> Any:
    """Convert a tensor to an array in host memory; bfloat16, which NumPy lacks, becomes float32."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()

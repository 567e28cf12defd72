"""The denoiser as a PyTorch module: for batches of tensors, on any device, alone or inside a network.

Requires PyTorch: ``pip install torch``.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .checks import not_installed

try:
    import torch
except ImportError as error:
    raise not_installed("nlridge.torch needs", "torch") from error
from torch import Tensor

from .algorithm.framework import denoised
from .algorithm.inputs import PlaneNoise
from .algorithm.recipes import KINDS
from .algorithm.settings import Recipe
from .algorithm.tuning import Tuning
from .arrays import as_array_like, to_device_of
from .checks import checked_positive, shown
from .engines.frames import Motion
from .engines.torch import run_pass
from .noise import Noise
from .noise.correlated import CorrelatedNoise
from .noise.gaussian import GaussianNoise
from .patches.matching import FAR
from .planning.blind import estimated_noise
from .planning.doubts import VISIBLE, doubt_about_units, warn_about
from .planning.elsewhere import explained
from .planning.levels import FLOOR, UNKNOWN
from .planning.options import Options, checked_method
from .planning.plan import Facts, Plan, plan_for
from .video.flicker import gains_of
from .video.motion import motions_of
from .video.planning import sampled_numbers, with_depth

__all__ = ["NLRidge"]

Array = npt.NDArray[np.float64]


class NLRidge(torch.nn.Module):
    """Denoise batches of images; a module without weights.

    Parameters
    ----------
    method : str or Recipe, optional
        The algorithm, as for `nlridge.denoise`: a name such as "standard", "nl-ridge", "nl-bayes" or "bm3d", whose
        settings depend on the noise level, or a `Recipe`.
    data_range : float, optional
        The range of the pixel values: 1 for images from 0 to 1, 255 for images from 0 to 255. The settings of a
        named method are chosen by 255 sigma / data_range. Channels whose sigma is at most 1e-4 of the range are
        returned unchanged.
    strength : float, optional
        1 removes noise of the given sigma. Smaller or larger values treat the noise as weaker or stronger by that
        factor.
    colour : float, optional
        Factor on `strength` for the differences of colours, in images whose channels are correlated.
    correlation : array_like, optional
        The autocorrelation of the noise, as for `nlridge.CorrelatedNoise`. By default, the noise is white.
    kind : {"image", "video", "volume"}, optional
        What a batch consists of, as for `nlridge.recipe`: single images, which is the default, the frames of a video in
        order, or the slices of a volume. Similar patches are searched for in the frames before and after as well.
    max_memory : int, optional
        The approximate number of bytes that a call may use at a time, in addition to a few copies of the images. The
        default is a quarter of the free memory of a CUDA device, and 128 MiB elsewhere. If the device runs out of
        memory, a warning is issued, and the pass is repeated with half of it.

    See Also
    --------
    nlridge.denoise : Takes a single tensor as well.

    Notes
    -----
    The result is differentiable with respect to the images. The choices of similar patches, of settings and of the
    colour transform are treated as constants. Intermediate results are not kept for the gradient but computed again.

    Images of a batch that have the same recipe (always if `method` is a `Recipe`) and the same related channels are
    denoised together. Up to rounding, the result is that of each image by itself. The frames of a video or a volume
    are all denoised together, by one recipe.

    Computations are in float64 for float64 images and in float32 for all others, even under autocast. Python waits
    for the device once in a call, to read sigma, the correlation of the channels, and the range of the pixels; if the
    noise is to be estimated, it waits for the images as well.

    Under `torch.compile`, the module is not compiled and causes a graph break.

    Examples
    --------
    >>> import torch
    >>> from nlridge.torch import NLRidge
    >>> clean = torch.linspace(0, 1, 32).expand(2, 1, 32, 32)
    >>> noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    >>> denoise = NLRidge()
    >>> bool((denoise(clean + 0.1 * noise, 0.1) - clean).std() < 0.03)
    True
    >>> bool((denoise(clean + 0.1 * noise) - clean).std() < 0.03)  # estimates the noise
    True
    >>> denoise(clean + 0.1 * noise, torch.tensor([0.1, 0.2])).shape
    torch.Size([2, 1, 32, 32])
    """

    @explained
    def __init__(
        self,
        method: str | Recipe = "standard",
        *,
        data_range: float = 1.0,
        strength: float = 1.0,
        colour: float = 1.0,
        correlation: npt.ArrayLike | None = None,
        kind: str = "image",
        max_memory: int | None = None,
    ) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind is {shown(kind)}; expected 'image', 'video' or 'volume'")
        self.method = checked_method(method)
        self.data_range = checked_positive("data_range", data_range)
        self.tuning = Tuning(strength, colour)
        self.noise: Noise = _WHITE if correlation is None else CorrelatedNoise(0, correlation)
        self.kind = kind
        self.is_video = kind == "video"  # which may flicker and move
        self.max_memory = (
            None
            if max_memory is None
            else int(min(checked_positive("max_memory", max_memory), 2.0**62))
        )

    def extra_repr(self) -> str:
        method = self.method if isinstance(self.method, str) else type(self.method.family).__name__
        words = (
            f"method={method!r}, data_range={self.data_range:g}, strength={self.tuning.strength:g}"
        )
        if self.tuning.colour != 1:
            words += f", colour={self.tuning.colour:g}"
        if isinstance(self.noise, CorrelatedNoise):
            words += f", correlation=an array of shape {self.noise.correlation.shape}"
        return words if self.kind == "image" else f"{words}, kind={self.kind!r}"

    @torch.compiler.disable
    def forward(self, x: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """Return the denoised images.

        Parameters
        ----------
        x : Tensor of shape (batch, channels, height, width)
            The noisy images, or the frames of a video or a volume, of any floating-point type and on any device.
        sigma : float or Tensor, optional
            Standard deviation of the noise, in the units of the images: a number, one number for each image, or a
            map that broadcasts against `x`. An implausible value, such as 25 for images from 0 to 1, raises a warning.
            By default, that of white noise is estimated, for each channel of each image, or of all frames of a video
            or a volume, on a copy in host memory.

        Returns
        -------
        Tensor
            The denoised images, with the shape, dtype and device of `x`.
        """
        result, doubt = self.with_doubt(x, sigma)
        warn_about(doubt)
        return result

    @torch.compiler.disable
    def with_doubt(self, x: Tensor, sigma: float | Tensor | None) -> tuple[Tensor, str]:
        """Return the denoised images, and why sigma is implausible, in a sentence, or an empty one."""
        _check_images(x)
        images = x if x.dtype == torch.float64 else x.to(torch.float32)
        sigmas = self._estimated(images) if sigma is None else _checked_sigma(sigma, images)
        with torch.autocast(x.device.type, enabled=False):
            result, doubt = self._denoised(images, sigmas)
        return result.to(x.dtype), doubt

    def _estimated(self, images: Tensor) -> Tensor:
        """Estimate the level of white noise in each channel of each image, or of all frames that belong together."""
        if isinstance(self.noise, CorrelatedNoise):
            raise ValueError("sigma is None; expected a number or a tensor with correlation")
        batch = images.detach().cpu().numpy()
        _expect_finite(int(np.count_nonzero(~np.isfinite(batch))))
        together = self.kind != "image"
        sample = [batch[k] for k in sampled_numbers(len(batch))] if together else batch
        noises = [estimated_noise(image, None, "gaussian") for image in sample]
        levels = np.stack([np.broadcast_to(noise.level, images.shape[1]) for noise in noises])
        if together:
            levels = np.median(levels, axis=0, keepdims=True)
        # Channels without noise get a level at which they are returned unchanged.
        levels = np.maximum(levels, VISIBLE / 2 * self.data_range)
        return images.new_tensor(levels)[:, :, None, None]

    def _denoised(self, images: Tensor, sigmas: Tensor) -> tuple[Tensor, str]:
        together = self.kind != "image"
        if together and len(sigmas) > 1:  # patches of a group may have different noise
            sigmas = sigmas.expand(-1, -1, *images.shape[2:])
        as_measured = _one_below_the_other if together else _as_it_is
        typical = _median(as_measured(sigmas).flatten(2))[..., None, None]
        scaled = images / typical  # in units of the noise
        levels, covariances, ends = _measured(
            as_measured(images), sigmas, typical, as_measured(scaled)
        )
        plans = self._plans(levels, covariances, tuple(images.shape))
        repeats = _repeats(images, sigmas) if self.is_video else [False] * len(images)
        engine = partial(run_pass, max_memory=self.max_memory or _share_of_memory(images.device))
        result = images.clone()
        for members in _images_by_plan(plans):
            rows = to_device_of(images, list(members))[:, None]
            first = plans[members[0]]
            # The same channels of all members.
            for parts in zip(*(plans[k].planes for k in members), strict=True):
                columns = to_device_of(images, parts[0].channels)
                rotation = as_array_like(np.stack([planes.matrix for planes in parts]), images)
                noisy = torch.einsum("bpc,bchw->pbhw", rotation, scaled[rows, columns])
                variance = _variance(sigmas / typical, images.shape, rotation, rows, columns)
                gain, run = None, engine
                if together:
                    motions = [Motion()] * len(images)
                    if self.is_video:
                        gain, motions = _changes(noisy, repeats)
                    run = partial(engine, motions=motions, height=images.shape[2])
                if gain is not None:
                    noisy, variance = noisy / gain, variance / gain**2
                noise = PlaneNoise(variance, first.correlation(parts[0]))
                *_, estimate = denoised(noisy, noise, first.recipe, run, self.tuning)
                if gain is not None:
                    estimate = estimate * gain
                back = torch.einsum("bpc,pbhw->bchw", rotation, estimate)
                result[rows, columns] = back * typical.expand_as(images[..., :1, :1])[rows, columns]
        if any(repeats):
            source = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(images))))
            result = result[to_device_of(images, source)]
        # The range matters only for the choice of a recipe.
        data_range = self.data_range if isinstance(self.method, str) else np.inf
        return result, doubt_about_units(levels, *ends, data_range)

    def _plans(
        self, levels: Array, covariances: Array, shape: tuple[int, int, int, int]
    ) -> list[Plan]:
        """The plan of each image of a batch; the same for all frames that belong together."""
        ends = [(0.0, self.data_range)]
        options = Options(method=self.method, tuning=self.tuning)
        kind = self.kind if shape[0] > 1 else "image"
        plans = [
            plan_for(
                shape[1:],
                Facts(self.noise, level, ends, covariance),
                options,
                1 / np.maximum(level, 1e-300),
                kind,
            )
            for level, covariance in zip(levels, covariances, strict=True)
        ]
        if self.kind == "image":
            return plans
        return [replace(plans[0], recipe=with_depth(plans[0].recipe, shape[0]))] * shape[0]


_WHITE = GaussianNoise(0)  # needs no stabilising; the levels are passed beside it


def _images_by_plan(plans: Sequence[Plan]) -> list[list[int]]:
    """The images of a batch that can be denoised together, by their indices.

    They have the same recipe, the same sets of related channels, and the same correlation of the noise.
    """
    batches: dict[Any, list[int]] = {}
    for k, plan in enumerate(plans):
        if plan.planes:
            channel_sets = tuple(tuple(planes.channels) for planes in plan.planes)
            correlations = tuple(np.array(plan.correlation(p)).tobytes() for p in plan.planes)
            batches.setdefault((plan.recipe, channel_sets, correlations), []).append(k)
    return list(batches.values())


def _check_images(x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x is of type {type(x).__name__}; expected a tensor")
    if x.ndim != 4 or x.numel() == 0:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; expected (batch, channels, height, width) and at least one pixel"
        )
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}; expected floats")


def _checked_sigma(sigma: Any, images: Tensor) -> Tensor:
    """The standard deviation of the noise as a tensor of four dimensions that broadcasts against the images."""
    if not isinstance(sigma, Tensor):
        if isinstance(sigma, str) or (not isinstance(sigma, Sequence) and np.ndim(sigma) == 0):
            number = checked_positive("sigma", sigma)
            if not number <= torch.finfo(images.dtype).max:
                raise ValueError(
                    f"sigma is {shown(sigma)}; expected a number within the range of {images.dtype}"
                )
            return images.new_full((1, 1, 1, 1), number)
        try:
            sigma = torch.as_tensor(sigma)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"sigma is {shown(sigma)}; expected a number or a tensor of numbers"
            ) from None
    if sigma.is_complex() or sigma.dtype == torch.bool:
        raise TypeError(f"sigma has dtype {sigma.dtype}; expected numbers")
    sigmas = sigma.detach().to(images)
    if sigmas.ndim == 1:
        sigmas = sigmas[:, None, None, None]
    while sigmas.ndim < 4:
        sigmas = sigmas[None]
    if sigmas.ndim > 4 or any(
        a not in (1, b) for a, b in zip(sigmas.shape, images.shape, strict=False)
    ):
        raise ValueError(
            f"sigma has shape {tuple(sigma.shape)}; expected a number, one for each image, "
            f"({len(images)},), or a shape that broadcasts against that of x, {tuple(images.shape)}"
        )
    return sigmas


def _as_it_is(images: Tensor) -> Tensor:
    return images


def _one_below_the_other(frames: Tensor) -> Tensor:
    """Frames of (batch, channels, height, width) as one image, (1, channels, batch * height, width)."""
    return frames.movedim(0, 1).flatten(1, 2)[None]


def _repeats(frames: Tensor, sigmas: Tensor) -> list[bool]:
    """Which frames are the same as the one before."""
    same = (frames[1:] == frames[:-1]).flatten(1).all(1)
    if len(sigmas) > 1:
        same &= (sigmas[1:] == sigmas[:-1]).flatten(1).all(1)
    return [False, *same.tolist()]


def _changes(planes: Tensor, repeats: list[bool]) -> tuple[Tensor | None, list[Motion]]:
    """The gain of each frame, or None if all are the same, and the motion of each."""
    frames = planes[:1].detach().movedim(1, 0).cpu().numpy()
    gains = np.array(list(gains_of(iter(frames))))[:, None, None]
    about = zip(repeats, 1 / gains.ravel(), strict=True)
    motions = list(motions_of(iter(frames / gains[:, None]), about))
    return None if np.all(gains == 1) else as_array_like(gains[None], planes), motions


def _median(values: Tensor) -> Tensor:
    """The median of each row; the mean of the middle two of an even number, of which PyTorch returns the lower."""
    return values.median(-1).values / 2 - (-values).median(-1).values / 2


def _measured(
    images: Tensor, sigmas: Tensor, typical: Tensor, scaled: Tensor
) -> tuple[Array, Array, tuple[float, float]]:
    """The noise levels, (batch, channels), the covariances of the channels in units of the noise, and the range of pixels.

    Also checks the values of the images and of sigma. All of it is read from the device at once, since Python has to
    wait for it.
    """
    batch, channels = images.shape[:2]
    centred = scaled.detach().flatten(2)
    centred = centred - centred.mean(-1, keepdim=True)
    facts = (
        (~images.isfinite()).sum(),
        *images.detach().aminmax(),
        *sigmas.aminmax(),
        scaled.detach().abs().max(),
        typical.expand(batch, channels, 1, 1),
        centred @ centred.mT / centred.shape[-1],
    )
    numbers = torch.cat([fact.to(images.dtype).flatten() for fact in facts]).tolist()
    not_finite, darkest, lightest, low, high, brightest, *others = numbers
    levels, covariances = np.split(np.array(others), [batch * channels])
    _expect_finite(not_finite)
    if not (low >= 0 and high < np.inf and levels.min() > 0):
        raise ValueError(
            f"sigma ranges from {low:g} to {high:g}; expected finite numbers, most of them positive"
        )
    if not brightest < float(FAR):
        raise ValueError(
            f"sigma is {levels.min():.4g}; expected at least 1e-15 of the largest value of x"
        )
    shape = batch, channels, channels
    return levels.reshape(batch, -1), covariances.reshape(shape), (darkest, lightest)


def _expect_finite(not_finite: float) -> None:
    if not_finite > 0:
        raise ValueError(f"x has {not_finite:g} non-finite pixels; expected finite values")


def _variance(
    relative: Tensor, shape: tuple[int, ...], rotation: Tensor, rows: Tensor, columns: Tensor
) -> float | Tensor:
    """The variance of the noise in the planes, from its level in the channels relative to the typical level."""
    if relative.shape[2:] == (1, 1):
        return 1.0
    squares = relative.clip(FLOOR, UNKNOWN) ** 2  # bounds how far the weights of pixels can differ
    if relative.shape[1] == 1:
        return squares.expand(shape[0], 1, *shape[2:])[rows[:, 0]].movedim(1, 0)
    return torch.einsum("bpc,bchw->pbhw", rotation**2, squares.expand(shape)[rows, columns])


def _share_of_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 2**27
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (free + unused) // 4

"""The denoiser as a PyTorch module: for batches of tensors, on any device, alone or inside a network.

Requires PyTorch: ``pip install torch``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .checks import not_installed

try:
    import torch
except ImportError as error:
    raise not_installed("nlridge.torch needs", "torch") from error
from torch import Tensor

from .checks import checked_positive
from .core.algorithm.recipes import IMAGE_KINDS
from .core.algorithm.settings import Recipe
from .core.algorithm.tuning import Tuning
from .core.arrays import to_device_of
from .core.patches.matching import FAR
from .errors import ArgumentError, ArgumentTypeError
from .images.tensor import frames_for, images_for
from .noise import Noise
from .noise.correlated import CorrelatedNoise
from .noise.gaussian import GaussianNoise
from .planning.blind import estimated_noise
from .planning.channels import Planes
from .planning.doubts import VISIBLE, doubt_about_units, warn_about
from .planning.elsewhere import explained
from .planning.levels import FLOOR, UNKNOWN, Levels
from .planning.options import Options, checked_method
from .planning.pixels import NoisyPixels
from .planning.plan import Facts, Plan, plan_for
from .planning.sequences import sampled_numbers, with_depth
from .planning.way import Planned, denoised_image
from .types import Array

__all__ = ["NLRidge"]


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
    color : float, optional
        Factor on `strength` for the color differences, in images whose channels are correlated.
    correlation : array_like, optional
        The autocorrelation of the noise, as for `nlridge.CorrelatedNoise`. By default, the noise is white.
    kind : {"image", "video", "volume"}, optional
        What a batch consists of, as for `nlridge.recipe`: single images, which is the default, the frames of a video in
        order, or the slices of a volume. Similar patches are searched for in the frames before and after as well.
    max_memory : int, optional
        The approximate number of bytes that a call may use at a time, besides a few copies of the images. The
        default is a quarter of the free memory of a CUDA device, and 128 MiB elsewhere. If the device runs out of
        memory, a warning is issued, and the pass is repeated with half of it.

    See Also
    --------
    nlridge.denoise : Takes a single tensor as well.

    Notes
    -----
    The result is differentiable with respect to the images. The choices of similar patches, of settings and of the
    color transform are treated as constants. Intermediate results are not kept for the gradient but computed again.

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
        color: float = 1.0,
        correlation: npt.ArrayLike | None = None,
        kind: str = "image",
        max_memory: int | None = None,
    ) -> None:
        super().__init__()
        if kind not in IMAGE_KINDS:
            raise ArgumentError("kind", kind, "'image', 'video' or 'volume'")
        self.method = checked_method(method)
        self.data_range = checked_positive("data_range", data_range)
        self.tuning = Tuning(strength, color)
        self.noise: Noise = _WHITE_NOISE if correlation is None else CorrelatedNoise(0, correlation)
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
        if self.tuning.color != 1:
            words += f", color={self.tuning.color:g}"
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
        _check_images(x)
        images = x if x.dtype == torch.float64 else x.to(torch.float32)
        sigmas = self._estimated(images) if sigma is None else _checked_sigma(sigma, images)
        with torch.autocast(x.device.type, enabled=False):
            result, doubt = self._denoised(images, sigmas)
        warn_about(doubt)
        return result.to(x.dtype)

    def _estimated(self, images: Tensor) -> Tensor:
        """Estimate the level of white noise in each channel of each image, or of all frames that belong together."""
        if isinstance(self.noise, CorrelatedNoise):
            raise ArgumentError("sigma", None, "a number or a tensor with correlation")
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
        relative = sigmas / typical
        repeats = [False] * len(images)
        kind = images_for(images.device, self.max_memory)
        if together:
            repeats = _repeats(images, sigmas) if self.is_video else repeats
            kind = frames_for(
                images.device, images.shape[2], repeats, self.max_memory, is_video=self.is_video
            )
        result = images.clone()
        for members in _images_by_plan(plans):
            rows = to_device_of(images, list(members))
            planned = _planned([plans[k] for k in members], relative)
            known = _relative_levels(relative, rows, len(images))
            noisy = NoisyPixels(planned.plan, scaled[rows].movedim(1, 0), None, known)
            denoised = denoised_image(planned, noisy, kind).movedim(0, 1)
            denoised = denoised * typical.expand_as(images[..., :1, :1])[rows]
            result[rows] = torch.where(_is_denoised(planned.plan, images), denoised, images[rows])
        if any(repeats):
            source = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(images))))
            result = result[to_device_of(images, source)]
        # The range matters only for choosing a recipe.
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


_WHITE_NOISE = GaussianNoise(0)  # needs no stabilising; the levels are passed separately


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
        raise ArgumentTypeError("x", type(x).__name__, "a tensor", "is of type {value}")
    if x.ndim != 4 or x.numel() == 0:
        raise ArgumentError(
            "x",
            tuple(x.shape),
            "(batch, channels, height, width) and at least one pixel",
            "has shape {value}",
        )
    if not x.is_floating_point():
        raise ArgumentTypeError("x", x.dtype, "floats", "has dtype {value}")


def _checked_sigma(sigma: Any, images: Tensor) -> Tensor:
    """The standard deviation of the noise as a tensor of four dimensions that broadcasts against the images."""
    if not isinstance(sigma, Tensor):
        if isinstance(sigma, str) or (not isinstance(sigma, Sequence) and np.ndim(sigma) == 0):
            number = checked_positive("sigma", sigma)
            if not number <= torch.finfo(images.dtype).max:
                raise ArgumentError("sigma", sigma, f"a number within the range of {images.dtype}")
            return images.new_full((1, 1, 1, 1), number)
        try:
            sigma = torch.as_tensor(sigma)
        except (TypeError, ValueError, RuntimeError):
            raise ArgumentTypeError("sigma", sigma, "a number or a tensor of numbers") from None
    if sigma.is_complex() or sigma.dtype == torch.bool:
        raise ArgumentTypeError("sigma", sigma.dtype, "numbers", "has dtype {value}")
    sigmas = sigma.detach().to(images)
    if sigmas.ndim == 1:
        sigmas = sigmas[:, None, None, None]
    while sigmas.ndim < 4:
        sigmas = sigmas[None]
    if sigmas.ndim > 4 or any(
        a not in (1, b) for a, b in zip(sigmas.shape, images.shape, strict=False)
    ):
        raise ArgumentError(
            "sigma",
            tuple(sigma.shape),
            f"a number, one for each image, ({len(images)},), or a shape that broadcasts against that of x, {tuple(images.shape)}",
            "has shape {value}",
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
        raise ArgumentError(
            "sigma",
            low,
            "finite numbers, most of them positive",
            f"ranges from {low:g} to {high:g}",
        )
    if not brightest < float(FAR):
        raise ArgumentError(
            "sigma",
            levels.min(),
            "at least 1e-15 of the largest value of x",
            f"is {levels.min():.4g}",
        )
    shape = batch, channels, channels
    return levels.reshape(batch, -1), covariances.reshape(shape), (darkest, lightest)


def _expect_finite(not_finite: float) -> None:
    if not_finite > 0:
        raise ArgumentError(
            "x", not_finite, "finite values", f"has {not_finite:g} non-finite pixels"
        )


def _planned(plans: Sequence[Plan], relative: Tensor) -> Planned:
    """One plan for images that are in units of their noise, from those of each."""
    first = plans[0]
    ones = np.ones(len(first.levels))
    plane_sets = tuple(
        Planes(planes[0].channels, np.stack([one.matrix for one in planes]))
        for planes in zip(*(plan.planes for plan in plans), strict=True)
    )
    plan = replace(
        first,
        levels=ones,
        scales=ones,
        planes=plane_sets,
        may_have_outliers=np.zeros(len(ones), bool),
    )
    is_map = relative.shape[2:] != (1, 1)
    return Planned(plan, np.ones((1, 1, 1)), relative.shape[1] if is_map else None, False)


def _relative_levels(relative: Tensor, rows: Tensor, count: int) -> Levels:
    """The levels of the noise of some images in units of the typical one, (channels or 1, batch, height, width)."""
    bounded = relative.clip(FLOOR, UNKNOWN)  # bounds how far the weights of pixels can differ
    levels: Any = bounded.expand(count, *bounded.shape[1:])[rows].movedim(1, 0)
    return Levels(levels, np.ones(len(levels)), None)


def _is_denoised(plan: Plan, images: Tensor) -> Tensor:
    """Which channels are denoised, (1, channels, 1, 1)."""
    channels = [channel for planes in plan.planes for channel in planes.channels]
    chosen: Tensor = to_device_of(images, np.isin(np.arange(images.shape[1]), channels))
    return chosen[None, :, None, None]

"""PyTorch: the same algorithm on tensors, on any device, on batches and inside a network.

Needs PyTorch: ``pip install torch``.
"""

from collections.abc import Sequence
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
from .algorithm.settings import Recipe
from .algorithm.tuning import Tuning
from .arrays import like, sent
from .checks import checked_positive, shown
from .engines.torch import run_pass
from .noise.gaussian import GaussianNoise
from .patches.matching import FAR
from .planning.channels import Planes
from .planning.levels import FLOOR, HOPELESS
from .planning.options import Options, checked_method
from .planning.plan import Facts, Plan, plan_for

__all__ = ["NLRidge"]

Array = npt.NDArray[np.float64]


class NLRidge(torch.nn.Module):
    """A denoiser of batches of images, as a module without weights.

    Parameters
    ----------
    method : str or Recipe
        As for `nlridge.denoise`: a name such as "standard", "nl-ridge", "nl-bayes" or "bm3d", which stands for
        settings that depend on the noise, or a `Recipe`.
    data_range : float
        The range of the images' values: 1 for images from 0 to 1, 255 for those from 0 to 255. The settings
        that a name stands for are chosen by 255 sigma / data_range; it has no other influence.
    strength : float
        1 removes the noise as given; less or more counts it as that much weaker or stronger.
    max_memory : int, optional
        How many bytes may be taken at a time, beyond a few images: roughly, and for each call. By default a
        quarter of what a CUDA device has free, and 128 MB elsewhere. Where that is more than there is, it is
        halved and tried again, with a warning.

    See Also
    --------
    nlridge.denoise : takes a single tensor as well, and finds out the noise.

    Notes
    -----
    The result is differentiable with respect to the images: which patches are similar, and which settings and
    colours are chosen, counts as given. What is computed on the way is computed again for the gradient, rather than
    kept.

    Images of a batch whose noise is of one level are denoised together, and so are all of them if `method` is a
    `Recipe`; the result is that of each image by itself, but for rounding.

    Computes in float64 for float64 and in float32 otherwise, also where autocast is on. Python waits for the device
    once a call, to look at sigma, at the correlation of the channels, and for pixels that are not finite.

    Under `torch.compile` the module runs as it is: it is a gap in the compiled graph.

    Examples
    --------
    >>> import torch
    >>> from nlridge.torch import NLRidge
    >>> clean = torch.linspace(0, 1, 32).expand(2, 1, 32, 32)
    >>> noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    >>> denoise = NLRidge()
    >>> bool((denoise(clean + 0.1 * noise, 0.1) - clean).std() < 0.03)
    True
    >>> denoise(clean + 0.1 * noise, torch.tensor([0.1, 0.2])).shape
    torch.Size([2, 1, 32, 32])
    """

    def __init__(
        self,
        method: str | Recipe = "standard",
        *,
        data_range: float = 1.0,
        strength: float = 1.0,
        max_memory: int | None = None,
    ) -> None:
        super().__init__()
        self.method = checked_method(method)
        self.data_range = checked_positive("data_range", data_range)
        self.tuning = Tuning(strength)
        self.max_memory = (
            None
            if max_memory is None
            else int(min(checked_positive("max_memory", max_memory), 2.0**62))
        )

    def extra_repr(self) -> str:
        method = self.method if isinstance(self.method, str) else type(self.method.family).__name__
        return (
            f"method={method!r}, data_range={self.data_range:g}, strength={self.tuning.strength:g}"
        )

    @torch.compiler.disable
    def forward(self, x: Tensor, sigma: float | Tensor) -> Tensor:
        """The denoised images.

        Parameters
        ----------
        x : Tensor of shape (batch, channels, height, width)
            The noisy images, of any float type and on any device.
        sigma : float or Tensor
            Standard deviation of the noise, in the units of the images: a number, one for each image, or a map that
            broadcasts against `x`.

        Returns
        -------
        Tensor
            Of the shape, the type and the device of `x`.
        """
        _check_images(x)
        images = x if x.dtype == torch.float64 else x.to(torch.float32)
        sigmas = _checked_sigma(sigma, images)
        with torch.autocast(x.device.type, enabled=False):
            return self._denoised(images, sigmas).to(x.dtype)

    def _denoised(self, images: Tensor, sigmas: Tensor) -> Tensor:
        typical = _median(sigmas.flatten(2))[..., None, None]
        units = images / typical  # of the noise
        plans = self._plans(*_seen(images, sigmas, typical, units), tuple(images.shape))
        engine = partial(run_pass, max_memory=self.max_memory or _share_of_memory(images.device))
        result = images.clone()
        for (recipe, _), members in _together(plans).items():
            rows = sent(list(members), images)[:, None]
            for parts in zip(*members.values(), strict=True):  # the same channels of all members
                columns = sent(parts[0].channels, images)
                rotation = like(np.stack([planes.matrix for planes in parts]), images)
                noisy = torch.einsum("bpc,bchw->pbhw", rotation, units[rows, columns])
                noise = PlaneNoise(
                    _variance(sigmas / typical, images.shape, rotation, rows, columns)
                )
                *_, found = denoised(noisy, noise, recipe, engine, self.tuning)
                back = torch.einsum("bpc,pbhw->bchw", rotation, found)
                result[rows, columns] = back * typical.expand_as(images[..., :1, :1])[rows, columns]
        return result

    def _plans(
        self, levels: Array, covariances: Array, shape: tuple[int, int, int, int]
    ) -> list[Plan]:
        """A plan for each image of a batch."""
        ends = [(0.0, self.data_range)]
        options = Options(method=self.method, tuning=self.tuning)
        return [
            plan_for(shape[1:], Facts(_GAUSSIAN, level, ends, covariance), options, 1 / level)
            for level, covariance in zip(levels, covariances, strict=True)
        ]


_GAUSSIAN = GaussianNoise(0)  # which is not stabilised; its levels are those of the images


def _together(plans: Sequence[Plan]) -> dict[Any, dict[int, tuple[Planes, ...]]]:
    """Images that are denoised together: of one recipe, and with the same channels apart.

    By the recipe and these channels: the number of each image, and its planes.
    """
    found: dict[Any, dict[int, tuple[Planes, ...]]] = {}
    for k, plan in enumerate(plans):
        if plan.planes:
            split = tuple(tuple(planes.channels) for planes in plan.planes)
            found.setdefault((plan.recipe, split), {})[k] = plan.planes
    return found


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
    """The noise as a tensor of four dimensions that broadcasts against the images."""
    if not isinstance(sigma, Tensor):
        if np.ndim(sigma) == 0:
            number = checked_positive("sigma", sigma)
            if not number <= torch.finfo(images.dtype).max:
                raise ValueError(f"sigma is {shown(sigma)}; expected what {images.dtype} can hold")
            return images.new_full((1, 1, 1, 1), number)
        try:
            sigma = torch.as_tensor(sigma)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"sigma is {shown(sigma)}; expected a number or a tensor of numbers"
            ) from None
    if sigma.is_complex() or sigma.dtype == torch.bool:
        raise TypeError(f"sigma has dtype {sigma.dtype}; expected numbers")
    found = sigma.detach().to(images)
    if found.ndim == 1:
        found = found[:, None, None, None]
    while found.ndim < 4:
        found = found[None]
    if found.ndim > 4 or any(
        a not in (1, b) for a, b in zip(found.shape, images.shape, strict=False)
    ):
        raise ValueError(
            f"sigma has shape {tuple(sigma.shape)}; expected a number, one for each image, "
            f"({len(images)},), or what broadcasts against x, {tuple(images.shape)}"
        )
    return found


def _median(values: Tensor) -> Tensor:
    """The middle of each row, or the mean of the two in the middle, of which PyTorch gives the lower one."""
    return values.median(-1).values / 2 - (-values).median(-1).values / 2


def _seen(images: Tensor, sigmas: Tensor, typical: Tensor, units: Tensor) -> tuple[Array, Array]:
    """What Python has to look at, which is the only time that it waits for the device.

    The levels of the noise, (batch, channels), and the covariances of the channels in units of the noise.
    """
    batch, channels = images.shape[:2]
    centred = units.detach().flatten(2)
    centred = centred - centred.mean(-1, keepdim=True)
    facts = (
        (~images.isfinite()).sum(),
        *sigmas.aminmax(),
        units.detach().abs().max(),
        typical.expand(batch, channels, 1, 1),
        centred @ centred.mT / centred.shape[-1],
    )
    together = torch.cat([fact.to(images.dtype).flatten() for fact in facts])
    wrong, low, high, brightest, *others = together.tolist()
    levels, covariances = np.split(np.array(others), [batch * channels])
    if wrong > 0:
        raise ValueError(f"x has {wrong:g} pixels that are not finite; expected finite ones")
    if not (low >= 0 and high < np.inf and levels.min() > 0):
        raise ValueError(
            f"sigma is from {low:g} to {high:g}; expected finite numbers, most of them positive"
        )
    if not brightest < float(FAR):
        raise ValueError(
            f"sigma is {levels.min():.4g}; expected at least 1e-15 of the largest value of x"
        )
    return levels.reshape(batch, -1), covariances.reshape(batch, channels, channels)


def _variance(
    relative: Tensor, shape: tuple[int, ...], rotation: Tensor, rows: Tensor, columns: Tensor
) -> float | Tensor:
    """That of the noise in the planes, from its level in the channels relative to the typical one."""
    if relative.shape[2:] == (1, 1):
        return 1.0
    squares = relative.clip(FLOOR, HOPELESS) ** 2  # pixels are not trusted more than that, nor less
    if relative.shape[1] == 1:
        return squares.expand(shape[0], 1, *shape[2:])[rows[:, 0]].movedim(1, 0)
    return torch.einsum("bpc,bchw->pbhw", rotation**2, squares.expand(shape)[rows, columns])


def _share_of_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 2**27
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (free + unused) // 4

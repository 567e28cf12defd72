"""`denoise_frames`: a stand-in until frames are matched with each other, which denoises each on its own."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..noise import Noise
from .denoising import Denoised, denoise, denoise_with_details
from .estimating import estimate_noise


def denoise_frames(
    frames: Iterable[npt.ArrayLike],
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    method: str | Recipe = "standard",
    channel_axis: int | None = None,
    data_range: float | None = None,
    workers: int | None = None,
) -> Iterator[npt.NDArray[Any]]:
    """Remove noise from the frames of a video, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (3, 32, 32))
    >>> frames = nlridge.denoise_frames(noisy, sigma=20)
    >>> next(frames).shape
    (32, 32)
    """
    for frame in frames:
        if sigma is None and (noise is None or isinstance(noise, str)):
            noise = estimate_noise(frame, channel_axis=channel_axis, kind=noise or "auto")
        yield denoise(
            frame,
            sigma,
            noise=noise,
            strength=strength,
            method=method,
            channel_axis=channel_axis,
            data_range=data_range,
            workers=workers,
        )


def denoise_sequence(image: Any, axis: int, channel_axis: int | None, **options: Any) -> Denoised:
    """The same for the frames of an array, with details."""
    frames = np.moveaxis(np.asarray(image), axis, 0)
    if channel_axis is not None:
        channel_axis = channel_axis % np.ndim(image) - (
            axis % np.ndim(image) < channel_axis % np.ndim(image)
        )
    progress = options.pop("progress", None)
    results = []
    for k, frame in enumerate(frames):
        results.append(denoise_with_details(frame, channel_axis=channel_axis, **options))
        if callable(progress):
            progress(k + 1, len(frames))
    stacked: dict[str, Any] = {
        name: np.moveaxis(np.stack([getattr(one, name) for one in results]), 0, axis)
        for name in ("image", "pilot", "residual")
    }
    return replace(results[0], **stacked)

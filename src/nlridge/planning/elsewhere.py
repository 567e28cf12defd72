"""The names that arguments of other packages have here."""

import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_IMAGE = ("image", "pass the image as the first argument")
_LEVEL = ("sigma", "pass sigma, the standard deviation of the noise in the units of the image")
_AMOUNT = (
    "strength",
    "how much is removed depends on sigma, the standard deviation of the noise, which is estimated unless you pass it, "
    "and on strength, a factor on it",
)
_COLORS = ("color", "pass color, a factor on strength for differences of color")
_CHANNELS = ("channel_axis", "pass channel_axis=-1 for an image of shape (height, width, channels)")
_JOINTLY = (
    "channel_axis",
    "pass channel_axis, and channels that are correlated are denoised jointly",
)
_SETTINGS = (
    "method",
    'it is part of the method: pass method="fast", "standard" or "best", or a Recipe with your own settings',
)
_UNITS = (
    "dtype",
    "leave it out, since values are never rescaled; pass dtype to round and clip the result",
)
_THREADS = ("workers", "pass workers")

_INSTEAD = {
    # of the packages bm3d and bm4d
    "z": _IMAGE,
    "sigma_psd": ("sigma", "pass sigma if it is a number, and noise=nlridge.CorrelatedNoise.from_spectrum(sigma_psd) if it is a spectrum"),
    "profile": ("method", 'pass method="fast", "standard", "best" or "bm3d"'),
    "stage_arg": ("method", "leave it out; the result of the first step is nlridge.denoise_with_details(image).pilot"),
    "blockmatches": _JOINTLY,
    "colorspace": _JOINTLY,
    # of scikit-image
    "h": _AMOUNT,
    "weight": _AMOUNT,
    "patch_size": _SETTINGS,
    "patch_distance": _SETTINGS,
    "fast_mode": ("method", 'pass method="fast"'),
    "preserve_range": _UNITS,
    "rescale_sigma": _UNITS,
    "multichannel": _CHANNELS,
    "convert2ycbcr": _JOINTLY,
    "average_sigmas": ("mask", "leave it out; estimate_sigma returns one number for each channel"),
    # of OpenCV
    "src": _IMAGE,
    "dst": ("image", "leave it out, since the result is returned"),
    "hColor": _COLORS,
    "hForColorComponents": _COLORS,
    "templateWindowSize": _SETTINGS,
    "searchWindowSize": _SETTINGS,
    "srcImgs": ("time_axis", "pass the frames as the first argument, and time_axis=0"),
    "imgToDenoiseIndex": ("time_axis", "leave it out, since all frames are returned"),
    "temporalWindowSize": _SETTINGS,
    # of bm3dornl, aydin and CAREamics
    "sinogram": _IMAGE,
    "sigma_random": _LEVEL,
    "step_size": _SETTINGS,
    "search_window": _SETTINGS,
    "max_matches": _SETTINGS,
    "noisy": _IMAGE,
    "noisy_image": _IMAGE,
    "chan_axes": ("channel_axis", "pass channel_axis, the number of the axis"),
    "batch_axes": ("stack_axis", "pass stack_axis, the number of the axis"),
    "variant": _SETTINGS,
    "pred_data": _IMAGE,
    "axes": ("stack_axis", "pass channel_axis, stack_axis, time_axis or depth_axis"),
    # of other functions of this package
    "region": ("stack_axis", "pass it to nlridge.prepare(image).denoise(region)"),
    "spacing": ("depth_axis", "pass it to nlridge.prepare(image, depth_axis=0, spacing=spacing)"),
    "mosaic": ("stack_axis", "use nlridge.denoise_mosaic(image, mosaic), or nlridge.prepare_mosaic for details"),
    "out": ("stack_axis", "use nlridge.denoise_to_disk(image, out)"),
    "tile": ("stack_axis", "it is for nlridge.denoise_to_disk(image, out, tile=tile), and for a Dask array, nlridge.prepare(image, tile=tile)"),
    "client": ("stack_axis", "it is for nlridge.denoise_to_disk(image, out, client=client)"),
    "frame": ("stack_axis", "pass it to nlridge.prepare(image, time_axis=0).denoise(frame=frame)"),
    # of others
    "img": _IMAGE,
    "noise_level": _LEVEL,
    "noise_std": _LEVEL,
    "std": _LEVEL,
    "axis": ("stack_axis", "pass channel_axis, stack_axis, time_axis or depth_axis"),
    "n_jobs": _THREADS,
    "num_workers": _THREADS,
    "threads": _THREADS,
    "verbose": ("progress", "pass progress=True for a progress bar"),
}  # fmt: skip
"""For each name, the argument that takes its place, and what to do.

Only functions that have that argument give the advice.
"""


def explained(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function explain what to write instead of an argument that it does not have.

    Its signature stays the same, for type checkers too.
    """
    known = inspect.signature(function).parameters.keys()
    called = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def with_known(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        for name in [name for name in named if name not in known]:
            advice = _advice(name, known)
            if advice:
                raise TypeError(f"{called}() got an unexpected keyword argument {name!r}; {advice}")
        return function(*arguments, **named)

    return with_known


def _advice(name: str, known: Collection[str]) -> str:
    """What to write instead of an unknown argument; empty if there is nothing to say."""
    argument, advice = _INSTEAD.get(name, ("", ""))
    if argument in known:
        return advice
    similar = get_close_matches(name, known, 1, 0.7)
    return f"did you mean {similar[0]!r}?" if similar else ""

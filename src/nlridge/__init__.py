"""nlridge removes noise from images: ``nlridge.denoise(image)``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api.brightness import restore_brightness
    from .api.denoising import denoise, denoise_with_details
    from .api.details import Denoised, Summary
    from .api.estimating import estimate_noise, estimate_quality, estimate_sigma
    from .api.mosaics import denoise_mosaic, prepare_mosaic
    from .api.on_disk import denoise_to_disk
    from .api.prepared import Prepared, prepare
    from .api.quality import Quality
    from .api.sequences import DenoisedFrames, denoise_frames
    from .core.algorithm.recipes import method_names, recipe
    from .core.algorithm.settings import CoarseScale, FrameSearch, Recipe, Rounds, Step
    from .core.families import Estimator, Family
    from .errors import ArgumentError
    from .noise.correlated import CorrelatedNoise
    from .noise.curve import CurveNoise
    from .noise.gaussian import GaussianNoise
    from .noise.poisson import PoissonGaussianNoise
    from .planning.calibration import Calibration
    from .planning.conversion import to_dtype
    from .planning.doubts import NoiseWarning
    from .planning.explained import UnexplainedWarning
    from .planning.mosaic import Mosaic

# NumPy, Numba and the kernels are imported when a name is first used.
_NAMES = {
    ".api.brightness": ("restore_brightness",),
    ".api.denoising": ("denoise", "denoise_with_details"),
    ".api.details": ("Denoised", "Summary"),
    ".api.estimating": ("estimate_noise", "estimate_quality", "estimate_sigma"),
    ".api.mosaics": ("denoise_mosaic", "prepare_mosaic"),
    ".api.on_disk": ("denoise_to_disk",),
    ".api.prepared": ("Prepared", "prepare"),
    ".api.quality": ("Quality",),
    ".api.sequences": ("DenoisedFrames", "denoise_frames"),
    ".core.algorithm.recipes": ("method_names", "recipe"),
    ".core.algorithm.settings": ("CoarseScale", "FrameSearch", "Recipe", "Rounds", "Step"),
    ".core.families": ("Estimator", "Family"),
    ".errors": ("ArgumentError",),
    ".noise.correlated": ("CorrelatedNoise",),
    ".noise.curve": ("CurveNoise",),
    ".noise.gaussian": ("GaussianNoise",),
    ".noise.poisson": ("PoissonGaussianNoise",),
    ".planning.calibration": ("Calibration",),
    ".planning.conversion": ("to_dtype",),
    ".planning.doubts": ("NoiseWarning",),
    ".planning.explained": ("UnexplainedWarning",),
    ".planning.mosaic": ("Mosaic",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = {
    "families": ".core.families",
    "kernels": ".core.kernels",
    "noise": ".noise",
    "torch": ".torch",
}

__all__ = [
    "ArgumentError",
    "Calibration",
    "CoarseScale",
    "CorrelatedNoise",
    "CurveNoise",
    "Denoised",
    "DenoisedFrames",
    "Estimator",
    "Family",
    "FrameSearch",
    "GaussianNoise",
    "Mosaic",
    "NoiseWarning",
    "PoissonGaussianNoise",
    "Prepared",
    "Quality",
    "Recipe",
    "Rounds",
    "Step",
    "Summary",
    "UnexplainedWarning",
    "__version__",
    "denoise",
    "denoise_frames",
    "denoise_mosaic",
    "denoise_to_disk",
    "denoise_with_details",
    "estimate_noise",
    "estimate_quality",
    "estimate_sigma",
    "method_names",
    "prepare",
    "prepare_mosaic",
    "recipe",
    "restore_brightness",
    "to_dtype",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name], __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})

"""nlridge removes noise from images: ``nlridge.denoise(image)``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .algorithm.recipes import method_names, recipe
    from .algorithm.settings import CoarseScale, FrameSearch, Recipe, Rounds, Step
    from .api.conversion import to_dtype
    from .api.denoising import denoise
    from .api.details import Denoised, denoise_with_details
    from .api.estimating import estimate_noise, estimate_sigma
    from .api.quality import Quality, estimate_quality
    from .api.sequences import DenoisedFrames, denoise_frames
    from .families import Estimator, Family
    from .noise.correlated import CorrelatedNoise
    from .noise.curve import CurveNoise
    from .noise.gaussian import GaussianNoise
    from .noise.poisson import PoissonGaussianNoise
    from .planning.calibration import Calibration
    from .planning.mosaic import Mosaic

# NumPy, Numba and the kernels are imported when a name is first used.
_HOMES = {
    "Calibration": ".planning.calibration",
    "CoarseScale": ".algorithm.settings",
    "CorrelatedNoise": ".noise.correlated",
    "CurveNoise": ".noise.curve",
    "Denoised": ".api.details",
    "DenoisedFrames": ".api.sequences",
    "Estimator": ".families",
    "Family": ".families",
    "FrameSearch": ".algorithm.settings",
    "GaussianNoise": ".noise.gaussian",
    "Mosaic": ".planning.mosaic",
    "PoissonGaussianNoise": ".noise.poisson",
    "Quality": ".api.quality",
    "Recipe": ".algorithm.settings",
    "Rounds": ".algorithm.settings",
    "Step": ".algorithm.settings",
    "denoise": ".api.denoising",
    "denoise_frames": ".api.sequences",
    "denoise_with_details": ".api.details",
    "estimate_noise": ".api.estimating",
    "estimate_quality": ".api.quality",
    "estimate_sigma": ".api.estimating",
    "method_names": ".algorithm.recipes",
    "recipe": ".algorithm.recipes",
    "to_dtype": ".api.conversion",
}
_MODULES = ("families", "kernels", "noise", "torch")

__all__ = [
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
    "PoissonGaussianNoise",
    "Quality",
    "Recipe",
    "Rounds",
    "Step",
    "__version__",
    "denoise",
    "denoise_frames",
    "denoise_with_details",
    "estimate_noise",
    "estimate_quality",
    "estimate_sigma",
    "method_names",
    "recipe",
    "to_dtype",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})

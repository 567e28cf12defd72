"""nlridge takes the noise out of images: ``nlridge.denoise(image)``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "CoarseScale",
    "Denoised",
    "Estimator",
    "Family",
    "Gaussian",
    "PoissonGaussian",
    "Quality",
    "Recipe",
    "Rounds",
    "Step",
    "__version__",
    "denoise",
    "denoise_with_details",
    "estimate_noise",
    "estimate_psnr",
    "estimate_sigma",
    "method_names",
    "recipe",
    "to_dtype",
]

if TYPE_CHECKING:
    from .algorithm.recipes import method_names, recipe
    from .algorithm.settings import CoarseScale, Recipe, Rounds, Step
    from .conversion import to_dtype
    from .denoising import Denoised, denoise, denoise_with_details
    from .estimating import estimate_noise, estimate_sigma
    from .families import Estimator, Family
    from .noise.gaussian import Gaussian
    from .noise.poisson import PoissonGaussian
    from .quality import Quality, estimate_psnr

# NumPy, Numba and the kernels are imported when a name is first used.
_HOMES = {
    "to_dtype": ".conversion",
    "Denoised": ".denoising",
    "denoise": ".denoising",
    "denoise_with_details": ".denoising",
    "Estimator": ".families",
    "Family": ".families",
    "Gaussian": ".noise.gaussian",
    "PoissonGaussian": ".noise.poisson",
    "estimate_noise": ".estimating",
    "estimate_sigma": ".estimating",
    "Quality": ".quality",
    "estimate_psnr": ".quality",
    "CoarseScale": ".algorithm.settings",
    "Recipe": ".algorithm.settings",
    "Rounds": ".algorithm.settings",
    "Step": ".algorithm.settings",
    "method_names": ".algorithm.recipes",
    "recipe": ".algorithm.recipes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Building blocks of the compiled kernels: decorators, SIMD vectors and small matrices."""

from .compile import announcing, kernel, part
from .linalg import padded
from .variances import patch_variance

__all__ = ["announcing", "kernel", "padded", "part", "patch_variance"]

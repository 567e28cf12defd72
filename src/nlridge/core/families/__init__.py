"""Families of local denoisers, which define how the patches of a group are combined.

Each family has one file, with its formulas and their compiled kernels side by side.
"""

from .bayes import Bayes
from .bm3d import BM3D
from .family import Estimate, Estimator, Family, GroupNoise
from .ridge import Ridge
from .two_sided import TwoSided

__all__ = ["BM3D", "Bayes", "Estimate", "Estimator", "Family", "GroupNoise", "Ridge", "TwoSided"]

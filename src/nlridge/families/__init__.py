"""Families of local denoisers: how the patches of a group are combined, and nothing else.

One file for each family, with its formulas and their compiled kernels side by side.
"""

from .bayes import Bayes
from .bm3d import BM3D
from .family import Estimate, Estimator, Family, GroupNoise
from .ridge import Ridge
from .two_sided import TwoSided

__all__ = ["BM3D", "Bayes", "Estimate", "Estimator", "Family", "GroupNoise", "Ridge", "TwoSided"]

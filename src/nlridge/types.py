"""The types of arrays, named by what they hold."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.floating[Any]]
"""Floating-point numbers. Formulas that take arrays also take tensors."""
Floats: TypeAlias = npt.NDArray[np.float32]
"""Numbers as kernels take them: weights, parameters, the taps of filters."""
Image: TypeAlias = npt.NDArray[np.float32]
"""The planes of an image as engines compute them, (planes, height, width)."""
Mask: TypeAlias = npt.NDArray[np.bool_]
"""A truth value for each pixel."""
Pixels: TypeAlias = npt.NDArray[Any]
"""An image as users and files have it: numbers of any type, with any axes."""
Positions: TypeAlias = npt.NDArray[np.intp]
"""Indices, coordinates or offsets."""
Shape: TypeAlias = tuple[int, int, int]
"""(planes, height, width), or (channels, height, width)"""

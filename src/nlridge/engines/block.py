"""One block of reference patches of an image: find its groups, denoise them, and add up their patches."""

from collections.abc import MutableMapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import Pass
from ..kernels.simd import LANES
from ..patches.matching import FAR, match
from .grid import BlockPart, Image, Window, group_sizes, whole_window
from .groups import GroupDenoiser, GroupImages, GroupPlaces, GroupShape, GroupSums

Groups: TypeAlias = MutableMapping[tuple[int, int], npt.NDArray[Any]]
"""The offsets of the similar patches in the window of each block, (rows and columns of references, group size), by the
corner of the block's first reference."""


class LineInputs(NamedTuple):
    """The part of the images that a line of blocks reads."""

    window: Window
    inputs: StepInputs


Sums: TypeAlias = tuple[LineInputs, Window, Image, Image, Image]


def denoise_block(
    denoisers: Sequence[GroupDenoiser],
    step: Pass,
    groups: Groups | None,
    shape: tuple[int, int],
    work: tuple[LineInputs, BlockPart],
) -> Sums:
    """Denoise the groups of a block.

    Returns the inputs that were passed, the window that the block covers, the weighted sums of the changes of its
    patches (for both results), and the weights of the patches at their corners.
    """
    line, (block, whole) = work
    inputs, settings = line.inputs, step.settings
    patch, radius = settings.patch_size, settings.window // 2
    # Offsets of groups refer to the window of the whole block.
    top, left = int(whole.ys[0]) - radius, int(whole.xs[0]) - radius
    window = Window(
        range(top, int(whole.ys[-1]) + patch + radius),
        # Kernels work on whole vectors.
        range(left, int(whole.xs[-1]) + patch + radius + 2 * LANES),
    )
    row_length = len(window.columns)
    y = window.cut(inputs.noisy, line.window, 0)
    x = window.cut(inputs.guide, line.window, 0)
    original, keep = y[:0], np.float32(0)
    if inputs.partly is not None:
        keep = np.float32(inputs.partly.keep)
        if inputs.partly.original is not inputs.noisy:  # some noise has been removed already
            original = window.cut(inputs.partly.original, line.window, 0)
    variance = inputs.noise.variance
    if isinstance(variance, np.ndarray):
        v = window.cut(variance, line.window, 1)
    else:
        v = np.full((1, 1, 1), variance, np.float32)
    total, weight = np.zeros_like(y), np.zeros((len(denoisers), *y.shape[1:]), np.float32)
    rest = np.zeros_like(y if keep > 0 else y[:0])
    most = max(denoiser.planes.group_size for denoiser in denoisers)
    sizes = group_sizes(block, shape, settings, most)
    plane = len(window.rows) * row_length
    key = int(whole.ys[0]), int(whole.xs[0])
    shape_of_groups = len(whole.ys), len(whole.xs), most
    inside = np.ix_(*map(np.searchsorted, whole, block))
    if groups is not None and key in groups:
        offsets = groups[key][inside].astype(np.intp).reshape(-1)
    else:
        offsets = np.zeros(len(sizes) * most, np.intp)
        # Where the last rows and columns of patches are not compared, they would not show what is beyond the image.
        height, width = shape
        inner = whole_window((height - step.ignored, width - step.ignored))
        seen = line.window.overlap(inner)
        match(
            window.cut(inputs.similar[seen.inside(line.window)], seen, float(FAR)).reshape(-1),
            row_length,
            plane,
            len(inputs.similar),
            block.ys - top,
            block.xs - left,
            settings.stride,
            patch,
            step.every,
            settings.window,
            v.reshape(-1)[0],
            sizes,
            most,
            offsets,
        )
        if groups is not None:
            found = np.zeros(shape_of_groups, np.min_scalar_type(plane))
            found[inside] = offsets.reshape(len(block.ys), len(block.xs), most)
            groups[key] = found
    for (plane_set, denoise_groups, _), corners in zip(denoisers, weight, strict=True):
        planes, group_size = plane_set
        denoise_groups(
            GroupImages(
                y[planes].reshape(-1),
                x[planes].reshape(-1),
                inputs.guide is inputs.noisy,
                (v if len(v) == 1 else v[planes]).reshape(-1),
                0 if len(v) == 1 else plane,
                np.float32(inputs.noise.factor_of(planes)),
                original[planes].reshape(-1),
                keep,
            ),
            GroupSums(total[planes].reshape(-1), rest[planes].reshape(-1), corners.reshape(-1)),
            GroupPlaces(offsets, offsets, most, np.minimum(sizes, group_size)),
            GroupShape(row_length, plane, plane, plane_set.number, patch, group_size),
        )
    return line, window, total, rest, weight

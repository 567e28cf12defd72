"""The operations of the algorithm on images of any kind."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...types import Shape
from .inputs import Image, PlaneNoise, StepInputs
from .passes import Pass


class Images(Protocol):
    """The operations of the algorithm on one kind of images, (planes, height, width).

    Images may be arrays, tensors, streams of frames, or descriptions of images that are computed later or in parts. They
    can be added, subtracted, multiplied by numbers, raised to powers, and sliced by planes.
    """

    def run_pass(
        self, inputs: StepInputs, pass_: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[Image, Image]:
        """Run a pass: match on `inputs.similar`, denoise each group, average the patches.

        Returns the result, and the result with some of the noise left in it if `inputs.partly` asks for one. Groups are
        stored in `groups`; those that it already contains are not searched for again.
        """

    def each(
        self, function: Callable[..., Any], *images: Image, shape: Shape | None = None
    ) -> Image:
        """Apply a function that treats every pixel alike to images of the same size.

        The first of them may be the source of pixels. `shape` is that of the result; by default, that of the first
        image.
        """

    def coarser(self, image: Image) -> Image:
        """See `pyramid`."""

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise:
        """See `pyramid`."""

    def with_coarse(self, image: Image, coarse: Image, level: int, most: Any) -> Image:
        """See `pyramid`."""

    def filtered(self, image: Image, taps: npt.NDArray[np.float32]) -> Image:
        """See `filtering`."""

    def filled(self, image: Image) -> Image:
        """Fill in the pixels that are NaN; see `filling`."""

    def steadied(self, noisy: Image, source: Image) -> tuple["Images", Image, Image | None]:
        """Measure, from their noisy planes, how frames that belong together change.

        Returns images whose passes follow the motion, the noisy planes divided by the gain of each frame, and the gain;
        None if there are no frames, or none that change.
        """


class ImageOnDemand(ABC):
    """An image of shape (planes, height, width) that is not held in memory, or not yet computed: a stream, files, tasks.

    ``image[:1]`` is the first plane. Sums, differences, multiples and powers are images of the same kind.
    """

    shape: Shape

    @abstractmethod
    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
        """Return the image of so many planes whose pixels are function(pixels, *pixels of the others)."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return self.mapped(len(range(*key.indices(len(self)))), operator.itemgetter(key))

    def __add__(self, other: Any) -> Any:
        return self.mapped(len(self), operator.add, other)

    def __sub__(self, other: Any) -> Any:
        return self.mapped(len(self), operator.sub, other)

    def __rmul__(self, factor: float) -> Any:
        return self.mapped(len(self), partial(operator.mul, factor))

    __mul__ = __rmul__

    def __pow__(self, exponent: float) -> Any:
        return self.mapped(len(self), partial(_power, exponent))


def _power(exponent: float, image: Image) -> Image:
    return image**exponent

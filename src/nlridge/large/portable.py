"""What is sent to other processes."""

from dataclasses import replace

import numpy as np

from ..job import Job


def without_recipe(job: Job) -> Job:
    """A job for the way from pixels to planes and back, which is all that its recipe is not needed for."""
    return replace(job, pixels=np.empty(0), recipe=None)  # type: ignore[arg-type]

"""Arguments of `denoise`, checked before any file is read."""

from typing import Any

import numpy as np

from ... import prepare


def check_arguments(sigma: Any = None, **arguments: Any) -> None:
    """Raise the error that `denoise` would raise for these arguments, with any image."""
    channels = len(sigma) if isinstance(sigma, list) else 1
    image = np.zeros((channels, 1, 1), np.float32)
    prepare(image, 1.0 if sigma is None else sigma, channel_axis=0, **arguments)

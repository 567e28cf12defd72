"""Progress bars of measurements."""

from tqdm import tqdm


def shown(things, what):
    """Iterate over things, with a progress bar on the terminal."""
    return tqdm(things, desc=what, leave=False, disable=None)

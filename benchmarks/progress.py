"""How far a measurement is."""

from tqdm import tqdm


def shown(things, what):
    """The things one by one, with a bar on the terminal while they are worked on."""
    return tqdm(things, desc=what, leave=False, disable=None)

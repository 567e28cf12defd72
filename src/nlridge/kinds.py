"""The kinds of noise that can be estimated, for all interfaces; light, so that help on the command line appears at once."""

NOISE_KINDS = {
    "auto": "for whichever fits the image",
    "gaussian": "if its level is constant",
    "poisson": "if it grows with the signal",
    "correlated": "if it is correlated from pixel to pixel",
}
"""When to choose each kind."""

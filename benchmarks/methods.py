"""Methods by name: functions of a noisy image and sigma, on a scale of 0 to 255.

- A method of nlridge, with changes to its recipe after commas: "nl-ridge", "nl-ridge,m2=60,p2=7",
  "bm3d,threshold=1.414,steps=1".  p1, m1, p2 and m2 are the patch and group sizes of both steps; steps=1 omits the
  second step, steps=3 repeats it on its own result; threshold and noisier are options of the families.
- Another package: one of `OTHERS`.
- A denoiser of others that is written here, with options after commas: "dncnn", "dip,iterations=300"; or a command line
  for any other program.  See `benchmarks.peers`.
- "noisy": the image itself.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

import nlridge
from nlridge.api.arguments import checked_workers
from nlridge.core.algorithm.framework import two_steps
from nlridge.core.algorithm.inputs import PlaneNoise, StepInputs
from nlridge.core.algorithm.passes import passes_of
from nlridge.core.engines import cpu

from . import peers
from .images import color

_SETTINGS = {
    "p1": ("first", "patch_size"),
    "m1": ("first", "group_size"),
    "p2": ("second", "patch_size"),
    "m2": ("second", "group_size"),
}


def denoiser(name, workers=None):
    """The function that a name stands for."""
    if name == "noisy":
        return lambda noisy, sigma: noisy
    if name in OTHERS:
        return OTHERS[name]()
    if peers.is_peer(name):
        return peers.denoiser(name)

    def call(noisy, sigma):
        chosen = recipe(name, sigma)
        if "steps=3" in name:
            return _with_third_step(noisy, sigma, chosen, checked_workers(workers))
        return nlridge.denoise(
            noisy, sigma, method=chosen, channel_axis=color(noisy), workers=workers
        )

    return call


def recipe(name, sigma):
    """The recipe that a name stands for, with its changes."""
    name, *changes = name.split(",")
    changed = nlridge.recipe(name, sigma)
    options = {}
    for change in changes:
        key, value = change.split("=")
        if key in _SETTINGS:
            step, setting = _SETTINGS[key]
            settings = replace(getattr(changed, step), **{setting: int(value)})
            changed = replace(changed, **{step: settings})
        elif key == "steps":
            changed = replace(changed, second=None) if value == "1" else changed
        else:
            options[key] = None if value == "none" else float(value)
    return replace(changed, family=replace(changed.family, **options))


def _with_third_step(noisy, sigma, chosen, workers):
    """Run both steps, and the second once more with its result as the pilot."""
    run = partial(cpu.run_pass, workers=workers, tick=lambda: None)
    scaled = (noisy / sigma)[None].astype(np.float32)
    *_, result = two_steps(scaled, PlaneNoise(1.0), chosen, run)
    inputs = StepInputs(scaled, guide=result, similar=result, noise=PlaneNoise(1.0))
    again, _ = run(inputs, passes_of(chosen)[-1])
    return sigma * again[0]


def _opencv():
    import cv2

    def call(noisy, sigma):
        rounded = np.clip(noisy + 0.5, 0, 255).astype(np.uint8)
        return cv2.fastNlMeansDenoising(rounded, None, h=0.9 * sigma)

    return call


def _nl_means():
    from skimage.restoration import denoise_nl_means

    def call(noisy, sigma):
        s = sigma / 255
        return 255 * denoise_nl_means(noisy / 255, 7, 10, h=0.6 * s, sigma=s)

    return call


def _wavelets():
    from skimage.restoration import denoise_wavelet

    def call(noisy, sigma):
        levels = max(1, int(math.log2(min(noisy.shape))) - 3)
        return 255 * denoise_wavelet(noisy / 255, sigma / 255, "db2", wavelet_levels=levels)

    return call


def _bm3d():
    from bm3d import bm3d as package

    return package


def restore_trapz():
    """Let the bm3d package call `numpy.trapezoid` by the name that it had before NumPy 2."""
    vars(np).setdefault("trapz", np.trapezoid)


OTHERS = {
    "opencv nl-means": _opencv,
    "scikit-image wavelets": _wavelets,
    "scikit-image nl-means": _nl_means,
    "bm3d package": _bm3d,
}


def installed_others():
    """The functions of the other packages that are installed, by name."""
    installed = {}
    for name, load in OTHERS.items():
        try:
            installed[name] = load()
        except ImportError:
            print(f"{name}: not installed")
    return installed

"""What the examples of other families print: the quality and the time of some methods on a photograph."""

import time

import numpy as np
from skimage import data

import nlridge


def compare(methods, sigma=25.0):
    """Print the seconds and the PSNR of methods, {name: method}, for noise of a standard deviation."""
    truth = data.camera()[100:356, 100:356].astype(np.float32)
    noisy = truth + np.random.default_rng(0).normal(0, sigma, truth.shape).astype(np.float32)
    print(f"{truth.shape[0]} x {truth.shape[1]}, sigma {sigma:g}")
    for name, method in methods.items():
        nlridge.denoise(noisy[:64, :64], sigma, method=method)  # compile
        start = time.perf_counter()
        clean = nlridge.denoise(noisy, sigma, method=method)
        seconds = time.perf_counter() - start
        error = np.mean((np.clip(clean, 0, 255) - truth) ** 2)
        print(f"  {name:16s} {seconds:7.3f} s {10 * np.log10(255**2 / error):7.2f} dB")

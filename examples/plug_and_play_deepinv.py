"""Plug-and-play deblurring with deepinv: `NLRidge` takes the place of a trained network.

    pip install deepinv
    python examples/plug_and_play_deepinv.py    deblur a photograph, with two denoisers that need no training

deepinv calls a denoiser with images from 0 to 1, of shape (batch, channels, height, width), and a noise level, which is
how `NLRidge` is called.  Nothing has to be adapted.
"""

import deepinv
import torch
from skimage import data

from nlridge.torch import NLRidge


def main():
    sigma = 0.01
    truth = torch.tensor(data.camera()[60:316, 130:386] / 255, dtype=torch.float32)[None, None]
    physics = deepinv.physics.BlurFFT(
        img_size=truth.shape[1:],
        filter=torch.full((1, 1, 9, 9), 1 / 81),
        noise_model=deepinv.physics.GaussianNoise(sigma, rng=torch.Generator().manual_seed(0)),
    )
    blurred = physics(truth)
    psnr = deepinv.metric.PSNR()
    print(f"{'blurred':16s} {psnr(blurred, truth).item():.2f} dB")
    for denoiser in (deepinv.models.TVDenoiser(), NLRidge("fast"), NLRidge()):
        name = getattr(denoiser, "method", "total variation")
        with torch.inference_mode():
            sharp = deepinv.optim.DPIR(sigma, denoiser)(blurred, physics)
        print(f"{name:16s} {psnr(sharp, truth).item():.2f} dB")


if __name__ == "__main__":
    main()

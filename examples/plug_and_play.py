"""Plug-and-play deblurring: a denoiser is the only model of what images look like.

    python examples/plug_and_play.py [picture.png]    deblur a photograph and save a comparison

The solution should agree with the blurred image and be left unchanged by the denoiser.  Half-quadratic splitting
alternates between two steps: find the image that agrees with the blurred one and is close to the last denoised one,
which has a closed form in the Fourier domain, and denoise it, with a noise level that decreases.
"""

import sys

import numpy as np
import torch

from nlridge.torch import NLRidge


def deblur(blurred, kernel, sigma, denoise, rounds=12, start=0.15):
    """Deblur images that were convolved circularly with a kernel and have noise of standard deviation sigma.

    `blurred` is a batch of images of (..., height, width).  The noise level given to the denoiser decreases from
    `start` to sigma.
    """
    transfer = transfer_function(kernel, blurred.shape[-2:])
    observed = transfer.conj() * torch.fft.rfft2(blurred)
    clean = blurred
    for level in torch.logspace(np.log10(start), np.log10(sigma), rounds).tolist():
        # The weight of the denoised image relative to the blurred one.
        weight = 0.25 * (sigma / level) ** 2
        sharp = (observed + weight * torch.fft.rfft2(clean)) / (transfer.abs() ** 2 + weight)
        clean = denoise(torch.fft.irfft2(sharp, blurred.shape[-2:]), level)
    return clean


def wiener(blurred, kernel, sigma):
    """Deblur with the Wiener filter, for comparison; the factor 100 is the best for the photograph below."""
    transfer = transfer_function(kernel, blurred.shape[-2:])
    sharp = transfer.conj() * torch.fft.rfft2(blurred) / (transfer.abs() ** 2 + 100 * sigma**2)
    return torch.fft.irfft2(sharp, blurred.shape[-2:])


def blur(image, kernel):
    """Convolve an image circularly with a kernel."""
    product = transfer_function(kernel, image.shape[-2:]) * torch.fft.rfft2(image)
    return torch.fft.irfft2(product, image.shape[-2:])


def transfer_function(kernel, shape):
    height, width = kernel.shape
    padded = torch.nn.functional.pad(kernel, (0, shape[1] - width, 0, shape[0] - height))
    return torch.fft.rfft2(padded.roll((-(height // 2), -(width // 2)), (0, 1)))


def psnr(image, truth):
    return -10 * torch.log10(torch.mean((image.clip(0, 1) - truth) ** 2)).item()


def main(picture="plug_and_play.png"):
    from PIL import Image
    from skimage import data

    sigma, kernel = 0.01, torch.full((9, 9), 1 / 81)
    truth = torch.tensor(data.camera()[60:316, 130:386] / 255, dtype=torch.float32)[None, None]
    noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    blurred = blur(truth, kernel) + sigma * noise
    with torch.inference_mode():
        pictures = {
            "blurred": blurred,
            "Wiener filter": wiener(blurred, kernel, sigma),
            "plug-and-play": deblur(blurred, kernel, sigma, NLRidge("fast")),
        }
    for name, image in pictures.items():
        print(f"{name:16s} {psnr(image, truth):.2f} dB")
    side_by_side = torch.cat([image[0, 0] for image in pictures.values()], dim=-1)
    Image.fromarray((255 * side_by_side.clip(0, 1) + 0.5).byte().numpy()).save(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])

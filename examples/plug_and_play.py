"""Deblurring with a denoiser: plug-and-play, where a denoiser stands for all that is known of images.

    python examples/plug_and_play.py [picture.png]    deblur a photograph, and put it side by side

What is sought fits the blurred image and is left alone by the denoiser.  In turn, an image is found that fits the
blurred one and is near the last denoised one, which is exact in the Fourier domain, and that image is denoised; the
noise that is taken from it gets less and less (half-quadratic splitting).
"""

import sys

import numpy as np
import torch

from nlridge.torch import NLRidge


def deblur(blurred, kernel, sigma, denoise, rounds=12, start=0.15):
    """Sharp images from those that were convolved, circularly, with a kernel, and then got noise of level sigma.

    `blurred` is a batch of images of (..., height, width).  The denoiser is told of noise that falls from `start` to
    sigma.
    """
    transfer = transfer_function(kernel, blurred.shape[-2:])
    seen = transfer.conj() * torch.fft.rfft2(blurred)
    clean = blurred
    for level in torch.logspace(np.log10(start), np.log10(sigma), rounds).tolist():
        share = (
            0.25 * (sigma / level) ** 2
        )  # how much the denoised image counts, beside the blurred one
        both = (seen + share * torch.fft.rfft2(clean)) / (transfer.abs() ** 2 + share)
        clean = denoise(torch.fft.irfft2(both, blurred.shape[-2:]), level)
    return clean


def wiener(blurred, kernel, sigma):
    """What can be had in one step and without a denoiser; 100 is the best choice for the photograph below."""
    transfer = transfer_function(kernel, blurred.shape[-2:])
    both = transfer.conj() * torch.fft.rfft2(blurred) / (transfer.abs() ** 2 + 100 * sigma**2)
    return torch.fft.irfft2(both, blurred.shape[-2:])


def blur(image, kernel):
    """The circular convolution."""
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
            "Wiener's filter": wiener(blurred, kernel, sigma),
            "plug-and-play": deblur(blurred, kernel, sigma, NLRidge("fast")),
        }
    for name, image in pictures.items():
        print(f"{name:16s} {psnr(image, truth):.2f} dB")
    side_by_side = torch.cat([image[0, 0] for image in pictures.values()], dim=-1)
    Image.fromarray((255 * side_by_side.clip(0, 1) + 0.5).byte().numpy()).save(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])

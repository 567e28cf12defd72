"""How far denoising moves local means away from those of the noisy image, for each noise model that depends on the signal."""

import numpy as np

import nlridge

from .progress import shown

_LEVELS = (2, 5, 10, 20, 40, 60)
_SIDE = 64  # of the areas over which means are taken
_SHOTS = 4  # of each, whose mean difference counts: the noise of these means themselves is no bias
_KERNEL = np.outer([1, 2, 1], [1, 2, 1]) / 6  # of norm 1, for correlated noise
_STEPS = 16  # of brightness at which noise is measured that has no formula


def add_arguments(parser):
    parser.add_argument(
        "--bias-level",
        type=float,
        nargs="+",
        default=list(_LEVELS),
        help="noise levels at a brightness of 128 (default: %(default)s)",
    )
    parser.add_argument(
        "--bias-model", nargs="+", choices=MODELS, default=list(MODELS), help="default: all"
    )


def run(options):
    print(
        f"\nlargest difference of the means of {_SIDE} x {_SIDE} pixels to those of the noisy image, in standard "
        "deviations\n"
    )
    levels = options.bias_level
    print(f"| noise | {' | '.join(f'{level:g}' for level in levels)} |")
    print("|---|" + "---|" * len(levels))
    for model in shown(options.bias_model, "bias"):
        for stored in (False, True):
            name = f"{model}, 8 bits" if stored else model
            row = [f"{largest_bias(model, level, stored):.3f}" for level in levels]
            print(f"| {name} | {' | '.join(row)} |", flush=True)


def chart():
    """Squares from dark to bright, half of each with stripes of little contrast."""
    values = np.linspace(4, 251, 16).reshape(4, 4)[:, [0, 2, 1, 3]]
    image = np.kron(values, np.ones((_SIDE, _SIDE)))
    columns = np.arange(4 * _SIDE)
    return image + 4 * np.sign(np.sin(columns / 3)) * (columns // (_SIDE // 2) % 2)


def largest_bias(model, level, stored, method="fast"):
    """The largest difference for one model and level; `stored` noise was clipped and rounded to 8 bits."""
    clean, differences = chart(), []
    for seed in range(_SHOTS):
        noisy, noise, sigma = MODELS[model](clean, level, np.random.default_rng(seed))
        if stored:
            noisy = np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
        result = nlridge.denoise(noisy, noise=noise, method=method)
        differences.append((_means(result) - _means(noisy)) / np.sqrt(_means(sigma**2)))
    return float(np.max(np.abs(np.mean(differences, axis=0))))


def _means(image):
    height, width = (length // _SIDE for length in image.shape)
    return np.asarray(image, float).reshape(height, _SIDE, width, _SIDE).mean(axis=(1, 3))


def _with_curve(shape):
    """Noise whose level is a function of the signal from 0 to 1."""

    def noisy(clean, level, random):
        values = np.linspace(0, 255, _STEPS)
        noise = nlridge.CurveNoise(values, level * shape(values / 255))
        sigma = noise.sigma_at(clean)
        return clean + sigma * random.normal(size=clean.shape), noise, sigma

    return noisy


def _correlated(clean, level, random):
    white = random.normal(size=clean.shape)
    blurred = sum(_KERNEL[i, j] * np.roll(white, (i, j), (0, 1)) for i, j in np.ndindex(3, 3))
    _, curve, sigma = MODELS["growing curve"](clean, level, random)
    return clean + sigma * blurred, nlridge.CorrelatedNoise.from_kernel(curve, _KERNEL), sigma


def _photograph(clean, level, random):
    """Noise that was there before the tone curve, whose level is measured."""
    light, step = to_light(clean / 255), 1e-4
    slope = (to_tone(to_light(0.5) + step) - to_tone(to_light(0.5))) / step
    gain = (level / 255 / slope) ** 2 / (to_light(0.5) + 0.01)

    def shot(light):
        noise = np.sqrt(gain * (light + 0.01)) * random.normal(size=light.shape)
        return 255 * to_tone(np.clip(light + noise, 0, 1))

    values = np.linspace(0, 255, _STEPS)
    sigmas = shot(np.repeat(to_light(values / 255)[:, None], 20_000, axis=1)).std(axis=1)
    noise = nlridge.CurveNoise(values, np.maximum(sigmas, 0.1))
    return shot(light), noise, noise.sigma_at(clean)


def _photons(read_noise):
    """Poisson noise, and read noise that is given in units of the level."""

    def noisy(clean, level, random):
        read = read_noise * level
        noise = nlridge.PoissonGaussianNoise((level**2 - read**2) / 128, read)
        pixels = noise.gain * random.poisson(clean / noise.gain)
        sigma = np.sqrt(noise.gain * clean + read**2)
        return pixels + read * random.normal(size=clean.shape), noise, sigma

    return noisy


def to_tone(light):
    """The tone curve of sRGB."""
    light = np.asarray(light, float)
    return np.where(
        light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055
    )


def to_light(tone):
    """The inverse of `to_tone`."""
    tone = np.asarray(tone, float)
    return np.where(tone <= 0.04045, tone / 12.92, ((tone + 0.055) / 1.055) ** 2.4)


MODELS = {
    "growing curve": _with_curve(lambda x: 0.2 + 1.6 * x),
    "falling curve": _with_curve(lambda x: 1.8 - 1.6 * x),
    "curve with a peak": _with_curve(lambda x: 0.1 + 0.9 * np.sin(np.pi * x)),
    "growing curve, correlated": _correlated,
    "photograph": _photograph,
    "Poisson": _photons(0.0),
    "Poisson and read noise": _photons(0.5),
}

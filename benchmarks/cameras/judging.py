"""Judge the estimate of noise by simulated shots that nothing was learned from, of other scenes and by other cameras."""

import warnings

import numpy as np

import nlridge

from ..images import color
from ..progress import shown
from ..real import true_noise
from .shots import COUNTS, JUDGE, shot

_WEAK = 1.2  # weaker noise is not judged
_UNCHANGED = 48  # dB to the image
_STRONG = 2  # noise of this level, of 255, is not to be left


def add_arguments(parser):
    parser.add_argument(
        "--shots", type=int, default=20, help="simulated shots of each kind of camera (default: 20)"
    )


def run(options):
    if not options.data:
        return
    method = (options.methods or ["fast"])[0]
    print(
        f"\nsimulated cameras, {method}: shots; error of the level (median, 90 %); PSNR lost against known noise "
        "(median, 95 %); mean PSNR: noisy, estimated, known; shots below noisy; noise of 2 and more left"
    )
    for kind in COUNTS:
        if kind == "clean":
            _judge_clean(options, method)
        else:
            _judge(kind, options, method)


def _judge(kind, options, method):
    rows, correlated = [], 0
    for seed in shown(range(min(options.shots, COUNTS[kind])), kind):
        taken = shot(kind, seed, options.data, JUDGE)
        if taken.left < _WEAK:
            continue
        noisy, truth = taken.noisy.squeeze(), taken.truth.squeeze() / taken.scale
        known = _scaled(true_noise(noisy / taken.scale, truth), taken.scale)
        found = nlridge.estimate_noise(noisy, channel_axis=color(noisy))
        correlated += isinstance(found, nlridge.CorrelatedNoise)
        results = [noisy, *(_denoised(noisy, noise, method) for noise in (found, known))]
        errors = [np.mean(np.square(image / taken.scale - truth)) for image in results]
        removed = np.std((results[1] - noisy) / taken.scale)
        wrong = abs(np.log(_level(found, noisy) / _level(known, noisy)))
        left = taken.left >= _STRONG and removed < taken.left / 4
        rows.append((wrong, left, *(10 * np.log10(255**2 / error) for error in errors)))
    if not rows:
        print(f"  {kind:10s} no shot with noise to judge")
        return
    wrong, left, *psnr = np.transpose(rows)
    lost = psnr[2] - psnr[1]
    print(
        f"  {kind:10s} {len(rows):4d};  {np.median(wrong):.0%} {np.quantile(wrong, 0.9):.0%};"
        f"  {np.median(lost):.2f} {np.quantile(lost, 0.95):.2f};"
        f"  {' '.join(f'{np.mean(values):.2f}' for values in psnr)};"
        f"  {np.sum(psnr[1] < psnr[0])};  {int(left.sum())}"
        + (f";  taken for correlated: {correlated}" if kind in ("white", "photons") else ""),
        flush=True,
    )


def _judge_clean(options, method):
    changes = []
    for seed in shown(range(min(5 * options.shots, COUNTS["clean"])), "clean"):
        image = shot("clean", seed, options.data, JUDGE).noisy.squeeze()
        noise = nlridge.estimate_noise(image, channel_axis=color(image))
        error = np.mean(np.square(_denoised(image, noise, method) - image.astype(float)))
        changes.append(10 * np.log10(255**2 / max(error, 1e-10)))
    below = sum(change < _UNCHANGED for change in changes)
    print(
        f"  clean {len(changes)}: changed to less than {_UNCHANGED} dB: {below}; least {min(changes):.1f}",
        flush=True,
    )


def _denoised(noisy, noise, method):
    if not np.max(noise.level) > 0:
        return noisy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nlridge.NoiseWarning)
        return nlridge.denoise(noisy, noise=noise, method=method, channel_axis=color(noisy))


def _level(noise, image):
    """The root mean square of the noise of an image."""
    share = getattr(noise, "share", 1.0)
    values = image[None] if image.ndim == 2 else np.moveaxis(image, -1, 0)
    levels = np.asarray(noise.level, np.float64).reshape(-1, 1, 1)
    return max(share * np.sqrt(np.mean(noise.variance(values.astype(float), levels))), 1e-9)


def _scaled(noise, scale):
    """The same noise in units of the pixels."""
    values, sigmas = (scale * np.array(x) for x in (noise.noise.values, noise.noise.sigmas))
    return nlridge.CorrelatedNoise(nlridge.CurveNoise(values, sigmas), noise.correlation)

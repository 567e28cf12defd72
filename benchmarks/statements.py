"""The paper's statements, each with a number, and a sweep around each choice of its Table 1, as a plot.

Images are small (256 x 256 pixels), since many settings are tried.
"""

import numpy as np

import nlridge

from .images import image_sets
from .measuring import measured
from .methods import recipe

SIGMAS = (15, 25, 50)  # one for each row of Table 1
SIDES = (5, 7, 9, 11, 13)
FACTORS = (0.5, 0.7, 1.4, 2)  # by which group sizes are multiplied
SHARES = (0.25, 0.5, 0.8, 1.2, 1.6)  # m / n in step 1

# (statement, method, method that it is compared with)
PAIRS = (
    ("step 2 brings a significant boost over step 1", "nl-ridge", "nl-ridge,steps=1"),
    ("iterating step 2 brings no improvement", "nl-ridge,steps=3", "nl-ridge"),
    (
        "Θ̂₁ₐ does not give satisfying results: against 2.7σ, step 1 alone",
        "bm3d,threshold=none,steps=1",
        "bm3d,threshold=2.7,steps=1",
    ),
    ("and after both steps", "bm3d,threshold=none", "bm3d,threshold=2.7"),
    ("√2σ, prescribed by SURE, against 2.7σ: step 1 alone", "bm3d,threshold=1.41421,steps=1", "bm3d,threshold=2.7,steps=1"),
    ("and after both steps", "bm3d,threshold=1.41421", "bm3d,threshold=2.7"),
)  # fmt: skip


def add_arguments(parser):
    del parser  # no arguments


def run(options):
    sets = _small_images(options)
    count = sum(map(len, sets.values()))
    print(
        f"\nstatements of the paper, mean change of PSNR (dB) ± standard error over {count} images"
    )
    levels = " / ".join(map(str, SIGMAS))
    print(f"\n| statement | sigma {levels} |\n|---|---|")
    for statement, method, other in PAIRS:
        rows = list(measured(options, [method, other], SIGMAS, sets))
        cells = [_difference(rows, sigma, method, other) for sigma in SIGMAS]
        print(f"| {statement} | {' / '.join(cells)} |", flush=True)

    sweeps = {key: _sweep(options, sets, key) for key in ("p1", "m1", "p2", "m2")}
    shares = {name: _shares(options, sets, name) for name in ("nl-ridge", "nl-bayes")}
    print("\nTable 1: gain of the best setting of each sweep over the paper's (dB)")
    for key, curves in sweeps.items():
        for sigma, curve in curves.items():
            best = max(curve, key=curve.get)
            chosen = _setting(key, sigma)
            print(
                f"  sigma {sigma:<3d} {key}: the paper's {chosen}, best {best}, {curve[best]:+.3f}"
            )
    path = options.results / "statements.png"
    _draw(sweeps, shares, path)
    print(f"  {path}")


def _small_images(options):
    """The smaller images of Set12, or the upper left parts of scikit-image's images."""
    sets = image_sets(options.data, ["set12"] if options.data else None, options.part)
    return {
        f"{name}, small": [(i, file, image[:256, :256]) for i, file, image in images if not options.data or image.shape == (256, 256)]
        for name, images in sets.items()
    }  # fmt: skip


def _difference(rows, sigma, method, other):
    one, two = (
        np.array([row.psnr for row in rows if row.sigma == sigma and row.method == name])
        for name in (method, other)
    )
    change = one - two
    if len(change) == 1:
        return f"{change[0]:+.2f}"
    return f"{change.mean():+.2f} ± {change.std(ddof=1) / np.sqrt(len(change)):.2f}"


def _mean(rows, sigma, method):
    return np.mean([row.psnr for row in rows if row.sigma == sigma and row.method == method])


def _setting(key, sigma):
    step = getattr(nlridge.recipe("nl-ridge", sigma), "first" if key[1] == "1" else "second")
    return step.patch_size if key[0] == "p" else step.group_size


def _sweep(options, sets, key):
    """Change of PSNR if one setting of Table 1 is changed, as {sigma: {setting: change}}."""
    curves = {}
    for sigma in SIGMAS:
        paper = _setting(key, sigma)
        values = SIDES if key[0] == "p" else [round(paper * factor) for factor in FACTORS]
        names = {value: f"nl-ridge,{key}={value}" for value in values if value != paper}
        rows = list(measured(options, ["nl-ridge", *names.values()], [sigma], sets))
        base = _mean(rows, sigma, "nl-ridge")
        curve = {value: _mean(rows, sigma, name) - base for value, name in names.items()}
        curves[sigma] = dict(sorted({**curve, paper: 0.0}.items()))
    return curves


def _shares(options, sets, name):
    """PSNR of step 1 by the paper's formula, with the patch size of the recipe, as {sigma: {m / n: PSNR}}."""
    curves = {}
    for sigma in SIGMAS:
        n = recipe(name, sigma).first.patch_size ** 2
        names = {share: f"{name},steps=1,noisier=0,m1={round(share * n)}" for share in SHARES}
        rows = list(measured(options, names.values(), [sigma], sets))
        curves[sigma] = {share: _mean(rows, sigma, names[share]) for share in SHARES}
    return curves


def _draw(sweeps, shares, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    titles = {
        "p1": "side of patches, step 1",
        "m1": "patches in a group, step 1",
        "p2": "side of patches, step 2",
        "m2": "patches in a group, step 2",
    }
    figure, axes = plt.subplots(2, 3, figsize=(12, 7), dpi=100)
    for axis, (key, curves) in zip(axes[:, :2].flat, sweeps.items(), strict=True):
        for k, (sigma, curve) in enumerate(curves.items()):
            axis.plot(curve.keys(), curve.values(), "-", color=f"C{k}", label=f"sigma {sigma}")
            axis.plot(_setting(key, sigma), 0, "o", color=f"C{k}", ms=8)
        axis.set_title(titles[key])
        axis.set_ylabel("change of PSNR (dB)")
        axis.set_ylim(-0.6, 0.1)
    axes[0, 0].legend(title="dots: Table 1", frameon=False)
    for axis, (name, curves) in zip(axes[:, 2], shares.items(), strict=True):
        for k, (sigma, curve) in enumerate(curves.items()):
            axis.plot(curve.keys(), curve.values(), "o-", color=f"C{k}", label=f"sigma {sigma}")
        axis.axvline(1, color="#6b7280", ls="--", lw=1)
        axis.set_xscale("log")
        axis.set_xticks(SHARES, [f"{share:g}" for share in SHARES], minor=False)
        axis.set_xticks([], minor=True)
        axis.set_title(f"{name}, step 1 alone: m / n")
        axis.set_ylabel("PSNR (dB)")
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)

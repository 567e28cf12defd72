"""Outliers: hot and dead pixels are found and replaced, and nothing else is."""

import numpy as np
import pytest
from skimage import data

import nlridge
from nlridge.noise.gaussian import GaussianNoise
from nlridge.noise.poisson import PoissonGaussianNoise
from nlridge.planning.outliers import REACH, outliers

SIDE = 160
Y, X = np.mgrid[:SIDE, :SIDE]


def smooth():
    return 100 + 40 * np.sin(X / 25) * np.cos(Y / 20)


def stars(width, peak=1e4, count=60, seed=0):
    """A field of stars of a given width, whose brightness ranges over three decades."""
    rng = np.random.default_rng(seed)
    field = np.full((SIDE, SIDE), 100.0)
    for _ in range(count):
        y, x = rng.uniform(0, SIDE, 2)
        brightness = peak * 10 ** rng.uniform(-3, 0)
        field += brightness * np.exp(-((Y - y) ** 2 + (X - x) ** 2) / (2 * width**2))
    return field


def page(seed=0):
    """Dark letters of thin strokes with dots on white, and frames around some of them, as on a screen."""
    rng = np.random.default_rng(seed)
    image = np.full((SIDE, SIDE), 240.0)
    for top in range(6, SIDE - 10, 14):
        for left in range(6, SIDE - 8, 7):
            kind = rng.integers(4)
            if kind == 0:  # i
                image[top, left] = image[top + 2 : top + 8, left] = 20
            elif kind == 1:  # a box
                image[top + 2 : top + 8, left : left + 4] = 20
                image[top + 3 : top + 7, left + 1 : left + 3] = 240
            elif kind == 2:  # a colon
                image[top + 3, left] = image[top + 6, left] = 20
            else:  # a slanted stroke
                image[top + np.arange(7), left + np.arange(7) // 2] = 20
    return image


def found(image, noise):
    image = np.asarray(image, np.float64)
    image = image[None] if image.ndim == 2 else image
    return outliers(image, None, noise, np.reshape(np.asarray(noise.level, float), (-1, 1, 1)))


def isolated(share, seed=0):
    """A mask of pixels none of which touch each other."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((SIDE, SIDE), bool)
    for place in rng.permutation(SIDE * SIDE):
        y, x = divmod(int(place), SIDE)
        if not mask[max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3].any():
            mask[y, x] = True
        if mask.sum() >= max(share * mask.size, 3):
            return mask
    raise AssertionError("too many")


def cluster():
    """So many broad stars that there is no background."""
    return stars(2.0, 2000, 400) / 10


SCENES = {
    "smooth": smooth,
    "cluster": cluster,
    "textured": lambda: data.camera()[40 : 40 + SIDE, 40 : 40 + SIDE],
    "stars": lambda: stars(1.3),
}


@pytest.mark.parametrize("share", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
@pytest.mark.parametrize("scene", ["smooth", "textured", "stars"])
def test_hot_and_dead_pixels_are_replaced(scene, kind, share):
    clean = SCENES[scene]().astype(float)
    rng = np.random.default_rng(1)
    if kind == "gaussian":
        noise = GaussianNoise(8)
        noisy = clean + rng.normal(0, 8, clean.shape)
    else:
        noise = PoissonGaussianNoise(1.0)
        noisy = rng.poisson(clean).astype(float)
    deviation = np.sqrt(noise.variance(clean, np.full(clean.shape, 8.0)))
    mask = isolated(share)
    signs = np.where(clean > 15 * deviation, rng.choice([-1, 1], clean.shape), 1)
    broken = np.where(mask, clean + 25 * signs * deviation, noisy)
    broken = np.where(mask & (signs < 0), np.maximum(broken, 0), broken)
    replaced, kept = (
        nlridge.denoise(broken, noise=noise, mask=which, workers=1) for which in (None, False)
    )
    errors = [(result - clean) / deviation for result in (replaced, kept)]
    here = found(broken, noise)
    hit = np.zeros(mask.shape, bool)
    hit[here[:, 1], here[:, 2]] = True
    # Some are so near to stars and edges that they may be a part of them.
    if scene == "smooth" or share > 1e-4:
        assert np.mean(hit[mask]) > (0.97 if scene == "smooth" else 0.3)
    assert np.count_nonzero(hit & ~mask) <= 2e-3 * mask.size
    assert np.mean(errors[0] ** 2) <= np.mean(errors[1] ** 2)
    # Neither they nor their neighbours are left as specks or strokes.
    around = np.zeros(mask.shape, bool)
    for y, x in zip(*np.nonzero(hit & mask), strict=True):
        around[max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4] = True
    near_others = np.zeros(mask.shape, bool)
    for y, x in zip(*np.nonzero(mask & ~hit), strict=True):
        near_others[max(y - 7, 0) : y + 8, max(x - 7, 0) : x + 8] = True
    if scene == "smooth":
        assert np.abs(errors[0][around & ~near_others]).max() < 3
        assert np.abs(errors[1][mask]).max() > 10


@pytest.mark.parametrize("sigma", [2, 5, 15, 25, 50, 100])
def test_noise_alone_has_no_outliers(sigma):
    rng = np.random.default_rng(int(sigma))
    photograph = data.camera().astype(float)
    photograph[468, 20] = 24  # is 45 among pixels of 24
    for clean in (np.zeros((700, 700)), photograph):
        assert not len(found(clean + rng.normal(0, sigma, clean.shape), GaussianNoise(sigma)))


@pytest.mark.parametrize("photons", [0.1, 0.5, 1, 2, 5, 10, 20, 50, 100])
def test_a_photon_is_no_outlier(photons):
    rng = np.random.default_rng(int(10 * photons))
    counts = rng.poisson(photons, (700, 700))
    assert not len(found(counts, PoissonGaussianNoise(1.0)))
    shading = np.tile(np.linspace(0.1, 2, 700), (700, 1))
    assert not len(found(rng.poisson(photons * shading), PoissonGaussianNoise(1.0)))


@pytest.mark.parametrize("width", [0.7, 1.0, 1.3, 2.0])
@pytest.mark.parametrize("peak", [1e3, 1e5])
def test_stars_are_no_outliers(width, peak):
    for seed in range(3):
        field = stars(width, peak, 200, seed)
        rng = np.random.default_rng(seed)
        for sigma in (1, 5, 20):
            noisy = field + rng.normal(0, sigma, field.shape)
            assert not len(found(noisy, GaussianNoise(sigma)))
        assert not len(found(rng.poisson(field), PoissonGaussianNoise(1.0)))


def lines():
    image = np.full((SIDE, SIDE), 50.0)
    image[::9], image[:, ::13] = 200, 200
    image[np.arange(SIDE), np.arange(SIDE)] = 0
    return image


@pytest.mark.parametrize("sigma", [0.5, 2, 5, 15, 25])
@pytest.mark.parametrize(
    "picture",
    [page, lines, lambda: 255.0 * ((X + Y) % 2), lambda: 255.0 * ((X // 3 + Y // 3) % 2)],
    ids=["page", "lines", "checkerboard", "checkers"],
)
def test_text_and_lines_are_no_outliers(picture, sigma):
    clean = picture()
    noisy = clean + np.random.default_rng(0).normal(0, sigma, clean.shape)
    assert not len(found(noisy, GaussianNoise(sigma)))


@pytest.mark.slow
def test_they_do_not_spoil_the_estimate_of_the_noise():
    rng = np.random.default_rng(0)
    mask = isolated(0.02)
    for clean, noisy in (
        (smooth(), smooth() + rng.normal(0, 5, (SIDE, SIDE))),
        (smooth(), rng.poisson(smooth()).astype(float)),
    ):
        broken = np.where(mask, clean - 80, noisy)
        before, after = (
            nlridge.denoise_with_details(image, workers=1) for image in (noisy, broken)
        )
        assert after.level == pytest.approx(before.level, rel=0.1)


def test_they_are_counted_and_kept_on_demand():
    rng = np.random.default_rng(0)
    noisy = smooth() + rng.normal(0, 5, (SIDE, SIDE))
    noisy[40, 50], noisy[100, 20] = 250, 0
    details = nlridge.denoise_with_details(noisy, sigma=5)
    assert details.defects == 2
    assert str(details).endswith("; replaced 2 outliers (hot or dead pixels)")
    assert details.residual[40, 50] == pytest.approx(noisy[40, 50] - details.image[40, 50])
    assert details.removed < 5.5
    assert np.abs(details.image - smooth()).max() < 12
    kept = nlridge.denoise_with_details(noisy, sigma=5, mask=False)
    assert kept.defects == 0
    assert kept.image[40, 50] > 200
    assert np.array_equal(kept.image, nlridge.denoise(noisy, sigma=5, mask=False))
    assert np.array_equal(details.image, nlridge.denoise(noisy, sigma=5))


def spoiled(shape=(3, 150, 130)):
    """Images with outliers, also in the corners and along the borders, and near where parts of them meet."""
    rng = np.random.default_rng(3)
    images = 100 + 20 * np.sin(np.arange(shape[-1]) / 9) + rng.normal(0, 5, shape)
    for image in images:
        for y, x in [(0, 0), (0, 70), (149, 129), (63, 64), (64, 0), (127, 128), (128, 20)]:
            image[y, x] += 120
    return images


@pytest.mark.slow
def test_results_do_not_depend_on_parts(tmp_path):
    image = spoiled()[0]
    whole = nlridge.denoise(image, sigma=5, workers=2)
    assert nlridge.denoise_with_details(image, sigma=5).defects == 7
    window = np.s_[50:100, 40:130]
    assert np.array_equal(nlridge.prepare(image, sigma=5).denoise(window), whole[window])
    in_tiles = nlridge.denoise_to_disk(image, tmp_path / "tiles.npy", sigma=5, tile=64)
    assert np.array_equal(in_tiles, whole)
    dask = pytest.importorskip("dask.array")
    lazy = nlridge.prepare(dask.from_array(image, chunks=50), sigma=5, tile=64).denoise()
    assert np.array_equal(lazy.compute(), whole)


def test_they_are_found_the_same_in_any_part():
    image = spoiled()[0]
    bad = np.random.default_rng(4).random((80, 70)) < 0.04  # some of them in clumps
    image[:80, :70] = np.where(bad, 40, image[:80, :70])
    whole = {tuple(place) for place in found(image, GaussianNoise(5)).tolist()}
    for top in range(0, 150, 25):
        start = max(top - REACH, 0)
        part = found(image[start : top + 25 + REACH], GaussianNoise(5))
        inside = {(c, y + start, x) for c, y, x in part.tolist() if top <= y + start < top + 25}
        assert inside == {place for place in whole if top <= place[1] < top + 25}


@pytest.mark.slow
def test_frames_and_channels():
    images = spoiled()
    video = nlridge.denoise(images, sigma=5, time_axis=0)
    kept = nlridge.denoise(images, sigma=5, time_axis=0, mask=False)
    assert np.abs(video[:, 63, 64] - 100).max() < 40 < np.abs(kept[:, 63, 64] - 100).min()
    details = nlridge.denoise_with_details(images, sigma=5, time_axis=0)
    assert details.defects == 21
    color = nlridge.denoise_with_details(images, sigma=5, channel_axis=0)
    assert color.defects == 21
    stack = nlridge.denoise(images, sigma=5, stack_axis=0)
    assert np.array_equal(stack[1], nlridge.denoise(images[1], sigma=5))


def test_missing_pixels_are_no_outliers():
    image = spoiled()[0]
    image[80:95, 20:40] = np.nan
    image[5, 5] = np.nan
    details = nlridge.denoise_with_details(image, sigma=5)
    assert 3 <= details.defects <= 7  # those near missing pixels may be kept
    assert np.isnan(details.image[5, 5])


def test_command_line(tmp_path, capsys):
    from nlridge.apps.cli import main

    image = spoiled()[0].astype(np.float32)
    np.save(tmp_path / "noisy.npy", image)
    for number, arguments in enumerate(([], ["--keep-outliers"])):
        output = tmp_path / f"{number}.npy"
        command = ["denoise", "--sigma", "5", *arguments, str(tmp_path / "noisy.npy")]
        assert main([*command, "-o", str(output)]) == 0
        mask = False if arguments else None
        assert np.array_equal(np.load(output), nlridge.denoise(image, sigma=5, mask=mask))
        assert ("replaced 7 outliers" in capsys.readouterr().out) == (not arguments)


def test_dots_of_a_drawing_are_kept():
    """On a white ground without noise, every pixel is meant, although there is noise elsewhere."""
    rng = np.random.default_rng(0)
    image = np.full((96, 96), 255.0)
    image[48:] = 120 + rng.normal(0, 2, (48, 96))
    image[10:40:10, 10:90:20] = 150
    found = nlridge.denoise_with_details(image, sigma=2.0)
    assert found.defects == 0
    np.testing.assert_allclose(found.image[:40], image[:40], atol=8)


@pytest.mark.parametrize(
    ("scene", "share"), [("smooth", 0.93), ("textured", 0.8), ("stars", 0.5), ("cluster", 0.85)]
)
def test_many_that_touch_each_other(scene, share):
    """Among so many, a group of them is no structure."""
    rng = np.random.default_rng(0)
    image = SCENES[scene]() + rng.normal(0, 5, (SIDE, SIDE))
    bad = rng.random(image.shape) < 0.04
    image[bad] -= rng.uniform(30, 60, bad.sum())
    mask = np.zeros(image.shape, bool)
    mask[tuple(found(image, GaussianNoise(5))[:, 1:].T)] = True
    assert mask[bad].mean() > share
    assert mask[~bad].sum() < 1e-3 * mask.size


def test_what_is_left_of_clumps():
    """Pixels between two others that are worse stand out as soon as these are replaced."""
    rng = np.random.default_rng(1)
    image = smooth() + rng.normal(0, 5, (SIDE, SIDE))
    bad = isolated(0.01)
    image[bad] -= rng.uniform(30, 60, bad.sum())
    middle = np.argwhere(bad)[::5]
    middle = middle[np.all((middle > 2) & (middle < SIDE - 3), axis=1)].T
    for (dy, dx), size in {(0, 0): 32, (0, 1): 60, (1, -1): 60}.items():
        y, x = middle[0] + dy, middle[1] + dx
        image[y, x] = smooth()[y, x] - size
    mask = np.zeros(image.shape, bool)
    mask[tuple(found(image, GaussianNoise(5))[:, 1:].T)] = True
    assert mask[tuple(middle)].mean() > 0.8


def weak_pepper(rng):
    """Noise of 10 with pepper of all sizes, as in an image of M13."""
    noise, bad = rng.normal(0, 10, (400, 400)), rng.random((400, 400)) < 0.045
    return noise - np.where(bad, 100 * (1 - np.sqrt(rng.random(bad.shape))), 0)


def test_tails_of_noise_and_outliers_are_told_apart_in_all_places_alike():
    rng = np.random.default_rng(2)
    tails = rng.laplace(0, 10, (400, 400))
    level = 10 * np.sqrt(2)
    assert len(found(tails, GaussianNoise(level))) < 5e-4 * tails.size
    pepper = weak_pepper(rng)
    places = found(pepper, GaussianNoise(10))
    clear = pepper < -50
    mask = np.zeros(pepper.shape, bool)
    mask[tuple(places[:, 1:].T)] = True
    assert mask[clear].mean() > 0.99


@pytest.mark.slow
def test_pepper_of_all_sizes_leaves_neither_specks_nor_strokes():
    """Most of it is too weak to be found, and counts as noise."""
    rng = np.random.default_rng(0)
    clean = cluster()
    noisy = clean + rng.normal(0, 5, clean.shape)
    pepper = rng.random(clean.shape) < 0.045
    spoiled = noisy - np.where(pepper, 50 * (1 - np.sqrt(rng.random(clean.shape))), 0)
    errors = [nlridge.denoise(image, method="fast") - clean for image in (noisy, spoiled)]
    rms = [np.sqrt(np.mean(error**2)) for error in errors]
    assert rms[1] < 1.25 * rms[0]
    assert np.mean(np.abs(errors[1]) > 10) < 3e-3


def test_slopes_at_the_border_are_no_outliers():
    """Bright stars that the border cuts, among many outliers."""
    rng = np.random.default_rng(0)
    clean = np.full((SIDE, SIDE), 100.0)
    for y, x in [(40, -1), (90, 1), (SIDE, 60), (70, SIDE - 0.5)]:
        clean += 1500 * np.exp(-((Y - y) ** 2 + (X - x) ** 2) / (2 * 1.3**2))
    broken = isolated(0.02)
    noisy = clean + rng.normal(0, 5, clean.shape) + 60 * broken
    mask = np.zeros(clean.shape, bool)
    mask[tuple(found(noisy, GaussianNoise(5))[:, 1:].T)] = True
    assert mask[broken].mean() > 0.8
    assert not (mask & ~broken & (clean > 150)).any()


@pytest.mark.parametrize("given", [{}, {"sigma": 10}], ids=["estimated", "given"])
def test_outliers_are_searched_for_once(monkeypatch, given):
    noisy = np.random.default_rng(0).normal(100, 10, (64, 80, 3))
    noisy[30, 40] = 255
    prepared = nlridge.prepare(noisy, channel_axis=2, **given)
    first = prepared.denoise()
    monkeypatch.setattr("nlridge.planning.outliers.outliers", None)
    np.testing.assert_array_equal(prepared.denoise(), first)
    assert prepared.summary(first).defects == 3

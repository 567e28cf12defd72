"""What simulated cameras look at: photographs of the test sets, stars and cells, drawings and screens."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from scipy import ndimage, spatial

from ..flux import cells, star_field

_COLOR, _GRAY = ("cbsd68",), ("bsd68", "urban100", "set12")


def photographs(data, half):
    """The files of one half of the test sets, as (color ones, gray ones)."""
    return [
        [file for name in names for file in sorted((Path(data) / name).glob("*.png"))[half::2]]
        for names in (_COLOR, _GRAY)
    ]


def photograph(file, rng, side):
    """A square part of a photograph in units of 0 to 255, (side, side, 3), sharp to the pixel or less so."""
    zoom = 1.0 if rng.random() < 0.4 else rng.uniform(1, 3)  # the lens, or a sensor of many pixels
    part = _part(file, rng, side, zoom)
    if rng.random() < 0.3:  # out of focus
        part = part.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 2.5)))
    return np.asarray(part, np.float64)


def published(file, rng, side):
    """A part of a photograph as it is published, or reduced; enlarging it would show its own grain as noise."""
    zoom = 1.0 if rng.random() < 0.6 else rng.uniform(0.4, 1)
    return np.asarray(_part(file, rng, side, zoom), np.float64)


def _part(file, rng, side, zoom):
    with Image.open(file) as opened:
        image = opened.convert("RGB")
    while side > 2 * zoom * min(image.size):
        image = image.resize([2 * n for n in image.size], Image.Resampling.BICUBIC)
    side = min(side, int(zoom * min(image.size)))
    need = max(int(np.ceil(side / zoom)), 8)
    left, top = (int(rng.integers(max(n - need, 0) + 1)) for n in image.size)
    part = image.crop((left, top, left + need, top + need))
    return part.resize((side, side), Image.Resampling.BICUBIC)


def sky(rng, side):
    """Stars or cells, in any unit: (side, side)."""
    seed = int(rng.integers(1 << 30))
    if rng.random() < 0.5:
        density = np.exp(rng.uniform(np.log(0.003), 0))
        return star_field(seed, density, rng.uniform(0.9, 2.2), size=side)
    image = cells(seed, 200.0, size=side)
    return ndimage.gaussian_filter(image, rng.uniform(0, 2))


def texture(rng, side):
    """Fur, gravel, grass or cloth: (side, side, 1), 0 to 255, of several kinds of light."""
    kind = (_fur, _gravel, _grass, _cloth)[rng.integers(4)]
    grain = kind(rng, side)
    shade = ndimage.gaussian_filter(rng.normal(size=(side, side)), side / rng.uniform(3, 12))
    shade /= shade.std()
    light = np.exp(rng.uniform(0, 1.2) * shade) if rng.random() < 0.5 else 1.0
    image = rng.uniform(80, 160) + rng.uniform(5, 40) * light * grain / grain.std() + 20 * shade
    return np.clip(image, 0, 255)[..., None]


def _fur(rng, side):
    """Like noise, but stronger in some places than in others."""
    places = np.mgrid[:side, :side] / rng.uniform(20, 90, (2, 1, 1)) + rng.uniform(0, 6, (2, 1, 1))
    contrast = np.exp(rng.uniform(0.25, 1.5) * np.sin(places[0]) * np.cos(places[1]))
    return contrast * ndimage.gaussian_filter(rng.normal(size=(side, side)), rng.uniform(0.5, 2, 2))


def _gravel(rng, side):
    """Stones that touch, each of its own brightness, round and lit from one side."""
    size, fine = np.exp(rng.uniform(np.log(2.5), np.log(16))), 2
    pixels = np.moveaxis(np.mgrid[: side * fine, : side * fine], 0, -1).reshape(-1, 2) / fine
    middles = rng.uniform(-size, side + size, (int((side / size + 2) ** 2), 2))
    (near, next_near), (stone, _) = (x.T for x in spatial.KDTree(middles).query(pixels, k=2))
    edge = np.minimum((next_near - near) / size, 0.6)
    tilted = (pixels - middles[stone]) @ rng.normal(size=2) / size
    stones = rng.normal(size=len(middles))[stone] + rng.uniform(1, 5) * edge + tilted
    return _reduced(stones.reshape(side * fine, -1), fine)


def _grass(rng, side):
    """Blades or hairs on top of each other, more or less in one direction."""
    fine = 3
    image = Image.new("F", (side * fine, side * fine))
    draw = ImageDraw.Draw(image)
    length, main, spread = rng.uniform(5, 40), rng.uniform(0, np.pi), rng.uniform(0.1, 1.5)
    for _ in range(int(3 * side**2 / length)):
        x, y = rng.uniform(-length, side + length, 2)
        angle = main + spread * rng.normal()
        end = x + length * np.cos(angle), y + length * np.sin(angle)
        line = [fine * c for c in (x, y, *end)]
        draw.line(line, fill=float(rng.normal()), width=int(rng.integers(2, 8)))
    return _reduced(np.asarray(image, np.float64), fine)


def _cloth(rng, side):
    """Threads that cross, each a little out of place and of its own brightness."""
    y, x = np.mgrid[:side, :side] + rng.uniform(0.2, 1.2) * np.stack(
        [ndimage.gaussian_filter(rng.normal(size=(side, side)), 6) * 15 for _ in range(2)]
    )
    step, angle = rng.uniform(2.5, 9), rng.uniform(0, np.pi)
    across = (x * np.cos(angle) + y * np.sin(angle)) / step
    along = (y * np.cos(angle) - x * np.sin(angle)) / step
    own = rng.uniform(0, 1) * rng.normal(size=(2, 4 * side))
    threads = [
        np.cos(2 * np.pi * p) + own[k][np.floor(p).astype(int)]
        for k, p in enumerate((across, along))
    ]
    over = (np.floor(across) + np.floor(along)) % 2
    return ndimage.gaussian_filter(np.where(over, *threads), rng.uniform(0.4, 0.8))


def _reduced(image, factor):
    side = len(image) // factor
    return image.reshape(side, factor, side, factor).mean(axis=(1, 3))


def drawing(rng, side):
    """Flat areas, shaded ones, lines and text, as on a screen: (side, side, 3), 0 to 255."""
    image = Image.new("RGB", (side, side), _color(rng))
    if rng.random() < 0.3:
        ramp = np.linspace(rng.uniform(0, 100), rng.uniform(100, 255), side)
        image = Image.fromarray(np.rint(np.broadcast_to(ramp[:, None, None], (side, side, 3))).astype(np.uint8))  # fmt: skip
    draw = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(3, 30))):
        x, y = np.sort(rng.integers(0, side, (2, 2)))
        box = [int(min(x)), int(min(y)), int(max(x)) + 1, int(max(y)) + 1]
        shape = rng.choice(["rectangle", "ellipse", "line", "text"])
        if shape == "text":
            for row in range(box[1], box[3], 14):
                letters = "".join(chr(c) for c in rng.integers(65, 122, (box[2] - box[0]) // 6 + 1))
                draw.text((box[0], row), letters, fill=_color(rng))
        elif shape == "line":
            draw.line(box, fill=_color(rng), width=int(rng.integers(1, 5)))
        else:
            getattr(draw, shape)(box, fill=_color(rng))
    return np.asarray(image, np.float64)


def _color(rng):
    return tuple(int(c) for c in rng.integers(0, 256, 3))

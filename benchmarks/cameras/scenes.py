"""What simulated cameras look at: photographs of the test sets, stars and cells, drawings and screens."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from scipy import ndimage

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
    """Fur, cloth or grass: like noise, but stronger in some places than in others: (side, side, 1)."""
    places = np.mgrid[:side, :side] / rng.uniform(20, 90, (2, 1, 1)) + rng.uniform(0, 6, (2, 1, 1))
    contrast = np.exp(rng.uniform(0.25, 1.5) * np.sin(places[0]) * np.cos(places[1]))
    grain = ndimage.gaussian_filter(rng.normal(size=(side, side)), rng.uniform(0.5, 2, 2))
    shade = ndimage.gaussian_filter(rng.normal(size=(side, side)), 30)
    image = 120 + rng.uniform(5, 40) * contrast * grain / grain.std() + 20 * shade / shade.std()
    return np.clip(image, 0, 255)[..., None]


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

"""Cameras that do not exist, and the pictures they take, with the truth.

A camera is drawn at random: its light and read noise, colors, demosaicking, tone curve, noise reduction, sharpening,
size and file format. Every step is a function of an image in units of 0 to 255 that the noisy picture and the truth pass
through alike. Only the noise and the file format are those of the noisy picture alone.
"""

import io
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy import ndimage

from nlridge.files.dng import RawFile, camera_tags, dng_bytes, raw_tags

from . import scenes

KINDS = (
    "camera",  # the JPEG of a camera
    "telephone",  # few photons, strong noise reduction, clipped blacks
    "raw",  # developed, 16 bits, no JPEG
    "heic",
    "video",  # a frame of H.264
    "gray",
    "enlarged",
    "film",  # a scan: grain that is correlated over any distance
    "filtered",  # white noise that a filter correlated, on any image, stars and cells among them
    "white",
    "photons",  # white noise that grows with the signal
    "clean",  # without noise
    "sky",  # stars and cells, many of them as faint as the white noise
)
DEVELOPED = KINDS[:7]
COUNTS = dict(
    zip(KINDS, (130, 130, 80, 60, 80, 80, 60, 60, 200, 160, 60, 1800, 300), strict=True)
)  # of the shots of each half
LEARN, JUDGE = 1, 0  # the halves of scenes and cameras
_BLACK, _WHITE = 4000, 60000  # of the mosaics, so that noise below black is kept
_LUMA = np.array([0.299, 0.587, 0.114])


class Shot(NamedTuple):
    kind: str
    noisy: np.ndarray
    """(height, width, channels); uint8, uint16 or float32."""
    truth: np.ndarray
    """The same in float32, without rounding."""
    left: float
    """The standard deviation of the noise that the file format left."""
    scale: float
    """The unit: what one step of 255 from black to white is in the values of the pixels."""


def shot(kind, seed, data, half):
    """The picture with a number; those of the other half are of other scenes and by other cameras."""
    rng = np.random.default_rng([half, KINDS.index(kind), seed])
    side = int(rng.integers(240, 385)) if rng.random() < 0.85 else int(rng.integers(64, 200))
    files = scenes.photographs(data, half)
    if kind == "enlarged":
        side //= 2
    if kind in DEVELOPED:
        scene = scenes.photograph(files[0][rng.integers(len(files[0]))], rng, side // 2 * 2)
        return _developed_shot(kind, scene, rng)
    if kind == "clean":
        return _clean_shot(files, rng, side)
    return _added_noise(kind, files, rng, side)


# Cameras


def camera(kind, rng):
    """Draw a camera."""
    telephone = kind in ("telephone", "video") or (kind in ("heic", "gray") and rng.random() < 0.5)
    few = 20 if telephone else 60
    denoises = kind != "raw" and rng.random() < 0.8
    return {
        "photons": np.exp(rng.uniform(np.log(few), np.log(3000 if telephone else 15_000))),
        "read": np.exp(rng.uniform(np.log(0.3), np.log(6))),
        "exposure": np.exp(rng.uniform(np.log(0.15), np.log(1.6))),
        "balance": (rng.uniform(1.3, 2.5), 1.0, rng.uniform(1.2, 2.4)),
        "clipped_raw": rng.random() < 0.5,
        "demosaic": rng.choice(["LINEAR", "VNG", "PPG", "AHD", "DCB", "DHT", "AAHD"]),
        "saturation": rng.uniform(0, 0.6),
        "gamma": rng.choice(["srgb", "power"]),
        "power": rng.uniform(0.4, 0.6),
        "contrast": rng.uniform(-0.1, 0.6),
        "black": rng.uniform(0, 12) if rng.random() < 0.4 else 0.0,
        "color_blur": rng.uniform(0.4, 3.5) if rng.random() < (0.6 if kind != "raw" else 0.15) else 0,
        "soften": rng.uniform(0.3, 1.1) if denoises and rng.random() < 0.7 else 0.0,
        "wiener": rng.uniform(0.2, 1.0) if denoises and rng.random() < 0.3 else 0.0,
        "coring": np.exp(rng.uniform(-1, 1.8)) if denoises and rng.random() < 0.6 else 0.0,
        "adaptive": _adaptive(rng) if denoises and rng.random() < 0.7 else None,
        "sharpen": rng.uniform(0, 1.2) if rng.random() < 0.5 else 0.0,
        "radius": rng.uniform(0.5, 2.0),
        "scale": _scale(kind, rng),
        "quality": int(rng.integers(60, 101)) if rng.random() < 0.7 else int(rng.integers(85, 101)),
        "subsampling": int(rng.integers(3)),
    }  # fmt: skip


def _adaptive(rng):
    """Noise reduction at several scales: how much of the noise is removed at each, from fine to coarse, and of colors."""
    strength, decay = rng.uniform(0.4, 1.0), rng.uniform(0.3, 1.0)
    brightness = [strength * decay**scale for scale in range(int(rng.integers(1, 5)))]
    colors = [rng.uniform(0.6, 1.0) * rng.uniform(0.6, 1.0) ** scale for scale in range(4)]
    return brightness, colors, rng.uniform(0.8, 3.0)


def _scale(kind, rng):
    if kind == "enlarged":
        return rng.uniform(1.1, 2.2)
    return 1.0 if rng.random() < 0.6 else rng.uniform(0.4, 1)


def _developed_shot(kind, scene, rng):
    c = camera(kind, rng)
    light = _linear(scene) * c["exposure"] / np.array(c["balance"])
    mosaic = light[..., 1].copy()
    mosaic[::2, ::2], mosaic[1::2, 1::2] = light[::2, ::2, 0], light[1::2, 1::2, 2]
    frames = 4 if kind == "video" else 1
    noisy = [_developed(_counts(mosaic, c, rng), c) for _ in range(frames)]
    truth = _truth(mosaic, c, rng)
    if c["scale"] != 1:
        noisy, truth = [_resized(x, c["scale"]) for x in noisy], _resized(truth, c["scale"])
    if kind == "gray":
        noisy, truth = [(x @ _LUMA)[..., None] for x in noisy], (truth @ _LUMA)[..., None]
    stored = _stored(noisy, kind, c)
    added = noisy[-1] - truth
    without = _stored([truth] * frames, kind, c).astype(float)
    survived = np.sum((stored.astype(float) / _unit(stored) - without / _unit(stored)) * added)
    left = max(survived / np.sum(added**2), 0) * added.std()
    return Shot(kind, stored, (truth * _unit(stored)).astype(np.float32), left, _unit(stored))


_SHOTS = 6  # of which the truth is the mean, if it is not the picture of a scene without noise


def _truth(mosaic, c, rng):
    """What the camera makes of the scene on average: noise reduction removes details, too, where there is noise."""
    if not (c["adaptive"] or c["wiener"] or c["coring"]):
        return _developed(mosaic, c)
    return np.mean([_developed(_counts(mosaic, c, rng), c) for _ in range(_SHOTS)], axis=0)


def _counts(mosaic, c, rng):
    """The mosaic that the camera sees."""
    counts = rng.poisson(mosaic * c["photons"]) + rng.normal(0, c["read"], mosaic.shape)
    return counts / c["photons"]


def _unit(pixels):
    return 257.0 if pixels.dtype == np.uint16 else 1.0


def _developed(mosaic, c):
    """What a camera makes of its mosaic, in linear light from 0 to 1: a picture of 0 to 255, not rounded."""
    rgb = _demosaicked(mosaic, c["demosaic"])
    if c["clipped_raw"]:
        rgb = np.maximum(rgb, 0)
    rgb = rgb * np.array(c["balance"])
    gray = rgb.mean(axis=2, keepdims=True)
    rgb = np.clip(gray + (1 + c["saturation"]) * (rgb - gray), 0, 1)
    rgb = _encoded(rgb) if c["gamma"] == "srgb" else rgb ** c["power"]
    rgb = 255 * (rgb + c["contrast"] * (3 * rgb**2 - 2 * rgb**3 - rgb))
    rgb = (rgb - c["black"]) * 255 / (255 - c["black"])
    y = rgb @ _LUMA
    rest = rgb - y[..., None]
    if c["color_blur"]:
        rest = ndimage.gaussian_filter(rest, (c["color_blur"], c["color_blur"], 0))
    if c["adaptive"]:
        of_brightness, of_colors, threshold = c["adaptive"]
        y = _adapted(y, of_brightness, threshold)
        rest = np.stack([_adapted(rest[..., k], of_colors, threshold) for k in range(3)], axis=-1)
    if c["wiener"]:
        y = (1 - c["wiener"]) * y + c["wiener"] * _less_noise(y)
    if c["coring"]:
        y = _cored(y, c["coring"])
    y = ndimage.gaussian_filter(y, c["soften"])
    y = y + c["sharpen"] * (y - ndimage.gaussian_filter(y, c["radius"]))
    return np.clip(y[..., None] + rest, 0, 255)


def _demosaicked(mosaic, algorithm):
    """By LibRaw, in the colors of the camera."""
    import rawpy

    pixels = np.clip(np.rint(_BLACK + (_WHITE - _BLACK) * mosaic), 0, 65535).astype(np.uint16)
    height, width = pixels.shape
    area = (0, 0, height, width)
    tags = camera_tags("<", np.eye(3), np.ones(3), b"A camera")
    of_raw = raw_tags("<", "RGGB", [0] * 4, 65535, area, (0, 0, width, height))
    file = io.BytesIO(dng_bytes(RawFile(pixels, area, "<", tags, of_raw), compressed=False))
    with rawpy.imread(file) as raw:
        rgb = raw.postprocess(
            demosaic_algorithm=rawpy.DemosaicAlgorithm[algorithm], output_color=rawpy.ColorSpace.raw,
            gamma=(1, 1), no_auto_bright=True, no_auto_scale=True, user_wb=[1, 1, 1, 1], output_bps=16,
        )  # fmt: skip
    return (rgb.astype(np.float64) - _BLACK) / (_WHITE - _BLACK)


def _less_noise(y):
    """Smoothed where it is calm, as by the noise reduction of a camera."""
    mean = ndimage.uniform_filter(y, 5)
    variance = np.maximum(ndimage.uniform_filter(y**2, 5) - mean**2, 1e-9)
    noise = np.quantile(variance, 0.25)
    return mean + np.maximum(1 - noise / variance, 0) * (y - mean)


def _adapted(plane, strengths, threshold):
    """Without a share of the noise at each scale, but where there are details."""
    kept, smooth = 0.0, plane
    for scale, strength in enumerate(strengths):
        coarse = ndimage.gaussian_filter(smooth, 0.7 * 2**scale)
        details, smooth = smooth - coarse, coarse
        variance = ndimage.uniform_filter(details**2, 2 ** (scale + 1) + 3)
        noise = threshold**2 * np.quantile(variance[:: scale + 1, :: scale + 1], 0.25) + 1e-12
        kept = kept + (1 - strength / (1 + (variance / (2 * noise)) ** 2)) * details
    return kept + smooth


def _cored(y, strength):
    """Without weak details, at two scales: what is left of noise is sparse."""
    result, coarse = 0.0, y
    for width in (0.8, 1.8):
        smooth = ndimage.gaussian_filter(coarse, width)
        details = coarse - smooth
        least = strength * np.quantile(np.abs(details), 0.3)
        result = result + np.sign(details) * np.maximum(np.abs(details) - least, 0)
        coarse = smooth
    return result + coarse


def _resized(image, scale):
    """By averaging or by cubic interpolation."""
    size = [max(int(n * scale), 32) for n in image.shape[1::-1]]
    kind = Image.Resampling.BOX if scale < 0.7 else Image.Resampling.BICUBIC
    planes = [Image.fromarray(image[..., k].astype(np.float32)).resize(size, kind) for k in range(3)]  # fmt: skip
    return np.clip(np.stack([np.asarray(p, np.float64) for p in planes], axis=-1), 0, 255)


def _linear(x):
    x = x / 255.0
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def _encoded(x):
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 1e-9) ** (1 / 2.4) - 0.055)


# Files


def _stored(images, kind, c):
    """The last of some images of 0 to 255, as a file format keeps it."""
    if kind == "raw":
        return np.rint(images[-1] * 257).astype(np.uint16)
    pixels = [np.rint(np.clip(image, 0, 255)).astype(np.uint8) for image in images]
    if kind == "video":
        return _frame(pixels, c)
    if kind == "heic":
        return _heic(pixels[-1], c["quality"])
    return _jpeg(pixels[-1], c["quality"], c["subsampling"])


def _jpeg(pixels, quality, subsampling):
    gray = pixels.shape[-1] == 1
    file = io.BytesIO()
    image = Image.fromarray(pixels[..., 0] if gray else pixels)
    image.save(file, "JPEG", quality=quality, **({} if gray else {"subsampling": subsampling}))
    return np.asarray(Image.open(file)).reshape(pixels.shape)


def _heic(pixels, quality):
    import pillow_heif

    file = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(pixels)).save(file, quality=quality)
    opened = pillow_heif.open_heif(file, convert_hdr_to_8bit=True)
    return np.asarray(opened.to_pillow().convert("RGB"))


def _frame(frames, c):
    """The last frame of a clip by H.264."""
    import av

    height, width = frames[0].shape[:2]
    # FFmpeg converts colors in whole vectors, beyond the end of rows of any other length.
    beyond = [(0, -length % 64) for length in (height, width)] + [(0, 0)]
    frames = [np.pad(pixels, beyond, mode="edge") for pixels in frames]
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        crf = str(int(40 - 0.3 * c["quality"]))
        # As a camera does while it films: without looking ahead, which is not always the same.
        options = {"crf": crf, "preset": "fast", "tune": "zerolatency"}
        stream = container.add_stream("libx264", rate=25, options=options)
        stream.height, stream.width, _ = frames[0].shape
        stream.pix_fmt = "yuv420p"
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file) as container:
        *_, last = container.decode(video=0)
    return last.to_ndarray(format="rgb24")[:height, :width]


# Noise that is added


def _added_noise(kind, files, rng, side):
    color = rng.random() < 0.5
    if kind == "sky" or (rng.random() < 0.2 and kind != "film"):
        clean = scenes.sky(rng, side)[..., None]
        contrast = np.quantile(clean, 0.98) - np.quantile(clean, 0.1)
    else:
        pool = files[0] if color else files[0] + files[1]
        clean = scenes.photograph(pool[rng.integers(len(pool))], rng, side)
        clean, contrast = (clean if color else clean.mean(axis=-1, keepdims=True)), 255.0
    level = contrast / 255 * np.exp(rng.uniform(np.log(1.5), np.log(50)))
    white = rng.normal(size=clean.shape)
    if kind == "photons":
        photons = np.exp(rng.uniform(np.log(3), np.log(1000))) / clean.max()
        noisy = (
            rng.poisson(np.maximum(clean, 0) * photons) / photons
            + rng.uniform(0, 0.3) * level * white
        )
    else:
        noise = white if kind in ("white", "sky") else _correlated(white, kind, rng)
        noisy = clean + level * noise
    left = np.std(noisy - clean) * 255 / contrast
    form = rng.choice(["float", "8 bits", "16 bits"])
    if form == "float" or clean.max() > 255:
        return Shot(kind, noisy.astype(np.float32), clean.astype(np.float32), left, contrast / 255)
    if form == "16 bits":
        stored = np.rint(np.clip(noisy, 0, 255) * 257).astype(np.uint16)
        return Shot(kind, stored, (257 * clean).astype(np.float32), left, 257 * contrast / 255)
    return Shot(kind, np.rint(np.clip(noisy, 0, 255)).astype(np.uint8), clean.astype(np.float32), left, contrast / 255)  # fmt: skip


def _correlated(white, kind, rng):
    """Filter noise, its brightness and its colors, and return it with a standard deviation of 1."""
    channels = white.shape[-1]
    mean = white.mean(axis=-1, keepdims=True)
    parts = [mean * np.sqrt(channels), white - mean]
    amounts = 1.0, np.exp(rng.uniform(np.log(0.2), np.log(1.5)))
    longest = 3.0 if kind == "film" else 1.6
    total = np.zeros(white.shape)
    for part, amount in zip(parts, amounts, strict=True):
        width = rng.uniform(0.45, longest)
        widths = (width, width * (1 if rng.random() < 0.7 else rng.uniform(0.7, 1.4)), 0)
        if rng.random() < 0.2 and kind == "filtered":
            filtered = ndimage.uniform_filter(part, (*2 * [int(rng.integers(2, 5))], 1))
        else:
            filtered = ndimage.gaussian_filter(part, widths)
        if part.any():
            total += amount * filtered / filtered.std()
    if kind == "film":  # grain is not Gaussian, and some is fine
        total += rng.uniform(0, 0.4) * white
    return total / total.std()


# Pictures without noise


def _clean_shot(files, rng, side):
    draw, gray = rng.random(), rng.random() < 0.4
    if draw < 0.15:
        clean = scenes.drawing(rng, side)
    elif draw < 0.25:
        clean = np.clip(scenes.sky(rng, side)[..., None], 0, 255)
    elif draw < 0.45:
        clean = scenes.texture(rng, side)
        clean = clean * rng.uniform(0.5, 1, 3)
    else:
        pool = files[0] + files[1] if gray else files[0]
        clean = scenes.published(pool[rng.integers(len(pool))], rng, side)
    if gray:
        clean = clean.mean(axis=-1, keepdims=True)
    if rng.random() < 0.3 and clean.shape[-1] == 3:
        clean = _resized(clean, rng.uniform(0.5, 1.8))
    if rng.random() < 0.3:
        clean = clean + rng.uniform(0, 1.2) * (clean - ndimage.gaussian_filter(clean, (1, 1, 0)))
    stored = np.rint(np.clip(clean, 0, 255)).astype(np.uint8)
    if rng.random() < 0.6:
        stored = _jpeg(stored, int(rng.integers(50, 101)), int(rng.integers(3)))
    return Shot("clean", stored, stored.astype(np.float32), 0.0, 1.0)

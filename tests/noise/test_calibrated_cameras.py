"""Maps of offset, gain and read-out noise, as those of a calibrated sCMOS camera."""

import json

import numpy as np
import pytest
import tifffile
from skimage import data

import nlridge
from nlridge.apps.cli import main
from nlridge.noise.poisson import PoissonGaussianNoise
from nlridge.planning.calibration import CalibratedNoise, Calibration

SHAPE = 96, 112
GAIN, OFFSET = 2.2, 100.0


def camera(seed=0, shape=SHAPE):
    """Maps of an sCMOS: offset and gain differ a little, and one pixel in a hundred is far noisier than the others."""
    rng = np.random.default_rng(seed)
    offset = OFFSET + rng.normal(0, 2, shape)
    gain = GAIN * (1 + rng.normal(0, 0.03, shape))
    electrons = 1.4 * np.exp(rng.normal(0, 0.25, shape))
    hot = rng.random(shape) < 0.01
    electrons[hot] *= rng.uniform(3, 15, np.count_nonzero(hot))
    return offset, gain, electrons * gain


def scene(peak):
    return peak * (data.camera()[100 : 100 + SHAPE[0], 200 : 200 + SHAPE[1]] / 255.0)


def exposure(photons, maps, seed=1):
    offset, gain, sigma = maps
    rng = np.random.default_rng(seed)
    values = offset + gain * rng.poisson(photons) + rng.normal(0, sigma, photons.shape)
    return np.clip(np.rint(values), 0, 65535).astype(np.uint16)


def decibels(result, photons):
    """The PSNR of what all pixels would be without noise and with the typical offset and gain."""
    truth = OFFSET + GAIN * photons
    return 10 * np.log10(np.ptp(truth) ** 2 / np.mean((result - truth) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize(("peak", "gained"), [(5, 1.0), (50, 0.2), (1000, 0.8)])
def test_maps_of_a_camera_raise_the_psnr(tmp_path, peak, gained):
    """Against the noise model of the typical pixel, and against an estimated one, both without maps."""
    maps, photons = camera(), scene(peak)
    tifffile.imwrite(tmp_path / "image.tif", exposure(photons, maps))
    options = []
    for name, values in zip(("offset", "gain", "sigma"), maps, strict=True):
        tifffile.imwrite(tmp_path / f"{name}.tif", values.astype(np.float32))
        options += [f"--{name}-map", str(tmp_path / f"{name}.tif")]
    command = ["denoise", str(tmp_path / "image.tif"), "--method", "fast", "--quiet"]
    assert main([*command, *options]) == 0
    result = tifffile.imread(tmp_path / "image_denoised.tif")
    assert result.dtype == np.uint16
    image = exposure(photons, maps)
    typical = PoissonGaussianNoise(GAIN, float(np.median(maps[2])), OFFSET)
    without = [nlridge.denoise(image, noise=noise, method="fast") for noise in (None, typical)]
    gains = [decibels(result, photons) - decibels(other, photons) for other in without]
    assert min(gains) > gained, gains


def test_an_equalised_image_has_the_noise_of_the_model():
    maps, photons = camera(), np.full(SHAPE, 40.0)
    calibration = Calibration(*maps)
    stack = np.stack([exposure(photons, maps, seed) for seed in range(200)])
    equal = calibration.equalised(stack, "QYX")
    assert equal.dtype == np.float32
    np.testing.assert_allclose(equal.mean(axis=0), OFFSET + GAIN * 40, atol=4 * maps[2].max() / 14)
    noise = calibration.noise_in(equal[0])
    assert isinstance(noise, CalibratedNoise)
    variance = noise.variance(np.full(SHAPE, OFFSET + GAIN * 40), noise.level)
    ratio = equal.var(axis=0) / variance
    assert np.median(ratio) == pytest.approx(1, abs=0.03)
    assert np.quantile(np.abs(ratio - 1), 0.95) < 0.3
    # After the transform, the level is what the map says.
    stable = noise.stabilise(equal).std(axis=0) / noise.level
    assert np.median(stable) == pytest.approx(1, abs=0.03)


def test_equal_pixels_are_those_of_the_typical_camera():
    """With constant maps, there is nothing to equalise, and the noise model is the usual one."""
    image = exposure(scene(50), (OFFSET, GAIN, 3.0))
    flat = [np.full(SHAPE, value) for value in (OFFSET, GAIN, 3.0)]
    calibration = Calibration(*flat)
    np.testing.assert_array_equal(calibration.equalised(image), image.astype(np.float32))
    assert calibration.noise_in(image) == PoissonGaussianNoise(GAIN, 3.0, OFFSET)
    assert Calibration(*flat[:2], 3.0).noise_in(image) == PoissonGaussianNoise(GAIN, 3.0, OFFSET)
    assert Calibration(*flat[:2]).noise_in(image) is None
    assert Calibration(flat[0], None, flat[2]).noise_in(image) == nlridge.GaussianNoise(flat[2])


def test_defective_pixels_take_the_values_of_their_neighbours():
    maps, photons = camera(), scene(200)
    image = exposure(photons, maps)
    image[10, 10], image[50, 60] = 65535, 0
    offset, gain, sigma = (values.copy() for values in maps)
    gain[10, 10], sigma[50, 60] = 0, np.inf
    calibration = Calibration(offset, gain, sigma)
    equal = calibration.equalised(image)
    result = nlridge.denoise(equal, noise=calibration.noise_in(equal), method="fast")
    assert np.isfinite(result).all()
    for y, x in ((10, 10), (50, 60)):
        around = result[y - 2 : y + 3, x - 2 : x + 3]
        assert around.min() <= result[y, x] <= around.max()
        assert abs(result[y, x] - OFFSET - GAIN * photons[y, x]) < 0.3 * GAIN * 200


def test_the_frames_of_a_stack_share_the_maps(tmp_path, capsys):
    maps = camera()
    photons = np.stack([scene(100)] * 3)
    pixels = np.stack([exposure(frame, maps, k) for k, frame in enumerate(photons)])
    tifffile.imwrite(tmp_path / "a.tif", pixels, imagej=True, metadata={"axes": "TYX"})
    for name, values in zip(("offset", "gain"), maps, strict=False):
        np.save(tmp_path / f"{name}.npy", values)
    words = ["denoise", str(tmp_path / "a.tif"), "--method", "fast", "--json", "--sigma", "3"]
    words += [f"--{name}-map={tmp_path / name}.npy" for name in ("offset", "gain")]
    assert main(words) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["noise"][0]["kind"] == "CalibratedNoise"
    assert (
        "all pixels now have the same offset 99.98 and gain 2.2 (medians of the maps)"
        in line["notes"]
    )
    result = tifffile.imread(tmp_path / "a_denoised.tif")
    assert decibels(result, photons) > decibels(pixels, photons) + 6


@pytest.mark.parametrize(
    ("maps", "options", "sentence"),
    [
        ({"gain": np.ones((5, 6))}, [], "maps have the shape (5, 6); expected (96, 112), the height"),
        ({"gain": np.zeros(SHAPE)}, [], "with values that are not positive; expected positive"),
        ({"sigma": -np.ones(SHAPE)}, [], "with values that are not positive; expected positive"),
        ({"offset": np.ones((2, 5, 6))}, [], "--offset-map is "),
        ({"offset": np.ones((5, 6)), "gain": np.ones((6, 5))}, [], "maps have the shapes"),
        ({}, ["--gain-map", "nowhere.tif"], "--gain-map is nowhere.tif, which does not exist; expected"),
        ({"gain": np.ones(SHAPE)}, ["--sigma", "1,2"], "expected one number with maps of a camera"),
        ({"gain": np.ones(SHAPE)}, ["--tile", "64"], "expected no gain_map for processing in tiles"),
    ],
)  # fmt: skip
def test_wrong_maps_get_one_sentence(tmp_path, capsys, maps, options, sentence):
    tifffile.imwrite(tmp_path / "a.tif", np.ones(SHAPE, np.uint16))
    for name, values in maps.items():
        np.save(tmp_path / f"{name}.npy", values)
        options = [*options, f"--{name}-map", str(tmp_path / f"{name}.npy")]
    assert main(["denoise", str(tmp_path / "a.tif"), *options]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("maps", "sentence"),
    [
        ({}, r"no map is given; expected an offset, a gain or a sigma of each pixel"),
        ({"sigma": 3.0}, r"no map is given; expected"),
        ({"gain": [[1.0, 2.0]], "sigma": [[1.0]]}, r"maps have the shapes \[\(1, 1\), \(1, 2\)\]"),
        ({"offset": 100.0}, r"offset has shape \(\); expected \(height, width\)"),
        ({"gain": "map.tif"}, r"gain is 'map.tif'; expected an array of numbers"),
    ],
)
def test_a_calibration_refuses(maps, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        nlridge.Calibration(**maps)


def test_an_image_that_does_not_fit_the_maps_is_refused():
    calibration = nlridge.Calibration(gain=np.ones(SHAPE), sigma=3.0)
    for method in (calibration.equalised, calibration.noise_in):
        with pytest.raises(ValueError, match=r"maps have the shape \(96, 112\); expected \(5, 6\)"):
            method(np.ones((5, 6)))
        with pytest.raises(ValueError, match="axes is 'XY'; expected a letter for each of the 2"):
            method(np.ones(SHAPE), "XY")
        with pytest.raises(TypeError, match="image is None; expected an array of numbers"):
            method(None)

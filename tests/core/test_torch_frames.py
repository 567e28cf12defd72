"""Frames that belong together, as tensors: they agree with those of the compiled engine."""

from dataclasses import replace

import numpy as np
import pytest
from skimage import data
from tensors import SMALL, psnr

import nlridge
from nlridge.core.algorithm.settings import FrameSearch

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from nlridge.torch import NLRidge  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")
BEST = pytest.param(
    "best", marks=pytest.mark.long
)  # its many rounds on frames take as long as all others


def clip(frames, height, width, channels=1, sigma=0.1, gains=None, speed=3):
    """Clean and noisy frames of (frames, channels, height, width) from 0 to 1; the camera moves."""
    image = np.moveaxis(data.astronaut()[100:, 180:] / 255, -1, 0)[:channels]
    clean = np.stack(
        [image[:, 2 * k : 2 * k + height, speed * k : speed * k + width] for k in range(frames)]
    )
    if gains is not None:
        clean = (2 + 0.4 * clean) * np.reshape(gains, (-1, 1, 1, 1))
    noise = np.random.default_rng(0).normal(0, sigma, clean.shape)
    return clean.astype(np.float32), (clean + noise).astype(np.float32)


def by_both_engines(noisy, sigma=0.1, **options):
    """The results for an array, and for a tensor that needs a gradient, which is checked to be finite."""
    arguments = {"channel_axis": 1, "data_range": 1, **options}
    images = torch.tensor(noisy, requires_grad=True)
    result = nlridge.prepare(images, sigma, **arguments).denoise()
    assert result.requires_grad
    (gradient,) = torch.autograd.grad(result.square().sum(), images)
    assert gradient.isfinite().all()
    assert gradient.any()
    return nlridge.prepare(noisy, sigma, **arguments).denoise(), result.detach().numpy()


def assert_agree(expected, result):
    """Within 0.01 of 255; where two patches are equally similar, one or the other is chosen."""
    assert result.dtype == expected.dtype
    assert np.sqrt(np.mean((result - expected) ** 2)) < 0.01 / 255


@pytest.mark.parametrize(
    "method", [BEST if name == "best" else name for name in nlridge.method_names()]
)
def test_frames_of_a_tensor_agree_with_the_compiled_engine(method):
    for channels in (1, 3):
        assert_agree(*by_both_engines(clip(3, 30, 34, channels)[1], time_axis=0, method=method))


@pytest.mark.parametrize("method", ["fast", BEST, "nl-ridge", "bm3d"])
@pytest.mark.parametrize("spacing", [(1, 1, 1), (4, 1, 1)])
def test_slices_of_a_tensor_agree_with_the_compiled_engine(method, spacing):
    _, noisy = clip(4, 28, 32)
    assert_agree(*by_both_engines(noisy, depth_axis=0, method=method, spacing=spacing))


@pytest.mark.parametrize(
    "noisy",
    [
        clip(1, 30, 34)[1],
        clip(2, 30, 34)[1],
        clip(4, 5, 9)[1],
        clip(3, 1, 7)[1],
        clip(5, 64, 80, gains=[1, 1.1, 0.95, 1.05, 0.9])[1],
        clip(4, 70, 80, speed=11)[1],
    ],
    ids=[
        "one frame",
        "two frames",
        "small frames",
        "rows",
        "flicker",
        "fast motion",
    ],
)
def test_unusual_frames_of_a_tensor_agree_with_the_compiled_engine(noisy):
    assert_agree(*by_both_engines(noisy, time_axis=0))


def test_repeated_frames_of_a_tensor_count_once():
    numbers = [0, 0, 1, 1, 1, 2]
    noisy = clip(3, 30, 34)[1][numbers]
    expected, result = by_both_engines(noisy, time_axis=0)
    for frames in (expected, result):
        for k in (1, 3, 4):
            np.testing.assert_array_equal(frames[k], frames[k - 1])
    assert_agree(expected, result)


@pytest.mark.parametrize("shape", [(4, 1, 1, 1), (4, 1, 30, 34), (1, 1, 30, 34)])
def test_noise_that_differs_from_frame_to_frame(shape):
    _, noisy = clip(4, 30, 34, channels=3)
    levels = np.random.default_rng(1).uniform(0.05, 0.15, shape)
    result = NLRidge(kind="video")(torch.tensor(noisy), torch.tensor(levels)).numpy()
    sigma = np.broadcast_to(levels[:, 0], (4, 30, 34))
    assert_agree(nlridge.denoise(noisy, sigma, time_axis=0, channel_axis=1, data_range=1), result)


def test_frames_on_the_cpu_are_denoised_by_the_compiled_engine():
    _, noisy = clip(3, 24, 28)
    video = noisy[:, 0].astype(np.float64)
    result = nlridge.denoise(torch.tensor(video), 0.1, time_axis=0)
    assert result.dtype == torch.float64
    np.testing.assert_array_equal(result, nlridge.denoise(video, 0.1, time_axis=0))


def test_several_videos_of_a_tensor_whose_noise_is_estimated():
    noisy = np.stack([clip(3, 40, 44, sigma=sigma)[1][:, 0] for sigma in (0.05, 0.2)])
    expected, result = by_both_engines(
        noisy, None, channel_axis=None, stack_axis=0, time_axis=1, noise="gaussian"
    )
    assert_agree(expected, result)


def test_correlated_noise_of_frames():
    """Whitened group by group: the noise of different frames is independent, even if they have few rows."""
    stripes = np.ones((1, 17)) * 0.7
    stripes[0, 8] = 1
    noise = nlridge.CorrelatedNoise(0.1, stripes)
    _, noisy = clip(3, 12, 30)
    small = replace(SMALL, frames=FrameSearch(1))
    assert_agree(*by_both_engines(noisy, None, noise=noise, time_axis=0, method=small))


def test_memory_has_no_influence_on_frames():
    noisy = torch.tensor(clip(4, 30, 34)[1])
    whole, parts = (
        NLRidge("best", kind="video", max_memory=memory)(noisy, 0.1) for memory in (None, 2**17)
    )
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=0)


def test_a_module_for_videos():
    clean, noisy = clip(5, 36, 40)
    module = NLRidge("fast", kind="video")
    assert "kind='video'" in repr(module)
    alone = NLRidge("fast")(torch.tensor(noisy), 0.1).numpy()
    together = module(torch.tensor(noisy), 0.1).numpy()
    assert psnr(together, clean) > psnr(alone, clean) + 0.5
    with pytest.raises(ValueError, match="kind is 'film'; expected 'image', 'video' or 'volume'"):
        NLRidge(kind="film")


def test_a_recipe_for_videos_denoises_images_of_a_batch_alone():
    _, noisy = clip(2, 24, 28)
    module = NLRidge(nlridge.recipe("fast", 25, kind="volume"))
    both = module(torch.tensor(noisy), 0.1)
    torch.testing.assert_close(both[1:], module(torch.tensor(noisy[1:]), 0.1))


def test_noise_of_frames_that_may_be_texture():
    """It is treated as in arrays: a share of it is removed."""
    y, x = np.mgrid[:96, :128]
    grain = np.random.default_rng(0).normal(size=x.shape)
    for axis in (0, 1, 0, 1):
        grain = (np.roll(grain, 1, axis) + 2 * grain + np.roll(grain, -1, axis)) / 4
    grain /= grain.std()
    contrast = np.exp(1.5 * np.sin(x / 50) * np.cos(y / 40))
    image = np.rint(110 + 60 * np.sin(x / 90) + 6 * contrast * grain).astype(np.float32)
    assert nlridge.estimate_noise(image).share < 1
    video = np.stack([image, image[::-1]])
    options = {"time_axis": 0, "method": replace(SMALL, frames=FrameSearch(1)), "data_range": 255}
    with_gradient = nlridge.denoise(torch.tensor(video, requires_grad=True), **options)
    expected = nlridge.denoise(video, **options)
    assert_agree(expected / 255, with_gradient.detach().numpy() / 255)

"""`NLRidge` as a part of PyTorch, and tensors given to `denoise`: gradients, devices, memory, messages."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from groups import Custom, custom_recipe
from images import texture
from memory import PEAK
from tensors import ALL_OF_IT, SMALL, Calls, denoised, methods, photograph, psnr

import nlridge
import nlridge.core.algorithm.framework
from nlridge.core.algorithm.inputs import PlaneNoise
from nlridge.core.algorithm.settings import CoarseScale, Recipe, Rounds, Step
from nlridge.core.families import Ridge, TwoSided

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from nlridge.images.tensor import Tensors  # noqa: E402
from nlridge.torch import NLRidge  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


# Within PyTorch.


def test_inference_mode_autocast_and_compile():
    _, noisy = photograph((3, 40, 40))
    x = torch.tensor(noisy)[None]
    module = NLRidge()
    expected = module(x, 0.1)
    with torch.inference_mode():
        torch.testing.assert_close(module(x, 0.1), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(module(x, 0.1), expected)
    torch.testing.assert_close(torch.compile(module, backend="eager")(x, 0.1), expected)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), torch.nn.ReLU()).requires_grad_(False)

    @torch.compile(backend="eager")
    def around(x):
        return module(network(x), 0.1) + 1

    torch.testing.assert_close(around(x), module(network(x), 0.1) + 1)


@pytest.mark.parametrize(
    "family",
    [Ridge(), Ridge(tolerance=1.0), TwoSided(), nlridge.recipe("bm3d", 9).family,
     nlridge.recipe("nl-bayes", 9).family],
    ids=["ridge", "low rank", "two-sided", "bm3d", "bayes"],
)  # fmt: skip
def test_the_gradient_is_the_derivative(family):
    rounds, coarse = Rounds(), None
    if isinstance(family, TwoSided):
        rounds = Rounds(2, 0.5, 0.5)
        coarse = CoarseScale(Recipe(family, Step(3, 6, 3, 7), Step(3, 6, 3, 7), rounds))
    recipe = Recipe(family, Step(3, 8, 3, 7), Step(3, 8, 3, 7), rounds, coarse)
    x = torch.rand(1, 1, 10, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    module = NLRidge(recipe)
    assert torch.autograd.gradcheck(partial(module, sigma=0.3), x.requires_grad_(), fast_mode=True)


def test_the_gradient_in_color_reaches_a_preceding_network():
    _, noisy = photograph((3, 24, 24))
    gain = torch.tensor(1.0, requires_grad=True)
    x = torch.tensor(noisy)[None]

    def energy(gain):
        return NLRidge(SMALL)(gain * x, 0.1).square().mean()

    energy(gain).backward()
    slope = (energy(torch.tensor(1.01)) - energy(torch.tensor(0.99))) / 0.02
    assert gain.grad.item() == pytest.approx(slope.item(), rel=0.02)


@methods
def test_python_waits_for_the_device_once_a_call(method):
    """Whatever the size of the image: `_local_scalar_dense` is `.item()`, and `nonzero` is indexing by a mask."""
    waits = {}
    for side in (24, 60):
        with Calls() as calls:
            NLRidge(method, max_memory=2**22)(torch.rand(1, 1, side, side), torch.tensor([0.1]))
        waits[side] = [calls.count.get(n, 0) for n in ("_local_scalar_dense", "nonzero", "equal")]
    assert calls.count["topk"] > 2
    assert waits == {24: [0, 0, 0], 60: [0, 0, 0]}  # `tolist`, the one wait, is not an operation


@methods
def test_a_step_runs_on_the_meta_device(method):
    """On the meta device: all tensors are made on the device of the images, and none is ever read."""
    recipe = nlridge.recipe(method, 25) if isinstance(method, str) else method
    noisy = torch.empty(2, 1, 32, 33, device="meta")
    variance = torch.empty(1, 1, 32, 33, device="meta")
    images = Tensors(max_memory=2**30)
    for known in (1.0, variance):
        with Calls() as calls:
            *_, result = nlridge.core.algorithm.framework.denoised(
                noisy, PlaneNoise(known), recipe, images
            )
        assert result.device.type == "meta"
        assert result.shape == noisy.shape
        assert "copy, waited for" not in calls.count


def running_out(times):
    """A recipe whose formula is out of memory at first."""
    family = TwoSided()
    left = [times]

    def formula(Y, X, noise):
        if left[0] > 0:
            left[0] -= 1
            raise torch.OutOfMemoryError("out of memory")
        return family.pilot.formula(Y, X, noise)

    return Recipe(Custom(nlridge.Estimator(formula)), SMALL.first)


def test_out_of_memory_is_retried_with_half_and_the_option_is_named():
    _, noisy = photograph((1, 30, 30))
    expected = denoised(noisy, method=running_out(0))
    with pytest.warns(
        RuntimeWarning, match=r"with max_memory=\d+ \(pass a smaller max_memory to NLRidge"
    ):
        result = denoised(noisy, method=running_out(2))
    np.testing.assert_allclose(result, expected, atol=1e-6)
    with pytest.raises(torch.OutOfMemoryError), pytest.warns(RuntimeWarning):
        denoised(noisy, method=running_out(100))


def test_a_formula_for_arrays_only_is_refused():
    def formula(Y, X, noise):
        return np.asarray(Y), np.ones(Y[:, 0].shape)

    recipe = Recipe(Custom(nlridge.Estimator(formula)), SMALL.first)
    with pytest.raises(
        TypeError, match="the formula returned ndarray and ndarray; expected tensors"
    ):
        NLRidge(recipe)(torch.rand(1, 1, 20, 20), 0.1)


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_a_formula_that_calls_numpy_with_a_tensor(needs_gradient):
    def formula(Y, X, variance):
        return np.maximum(Y, 0), Y[..., 0, :] * 0 + 1

    image = torch.tensor(texture(24, 30)[None, None], requires_grad=needs_gradient)
    with pytest.raises(
        TypeError, match="called a NumPy function with a tensor; expected operators"
    ):
        NLRidge(custom_recipe(formula))(image, 10.0)


@pytest.mark.parametrize(
    ("x", "sigma", "error", "message"),
    [
        (np.zeros((1, 1, 9, 9)), 1, TypeError, "x is of type ndarray; expected a tensor"),
        (torch.zeros(9, 9), 1, ValueError, r"x has shape \(9, 9\); expected \(batch, channels, "),
        (torch.zeros(1, 0, 9, 9), 1, ValueError, r"x has shape \(1, 0, 9, 9\); .*one pixel"),
        (torch.zeros(1, 1, 9, 9).int(), 1, TypeError, r"x has dtype torch.int32; expected floats"),
        (torch.zeros(1, 1, 9, 9), 0, ValueError, "sigma is 0; expected a positive number"),
        (torch.zeros(1, 1, 9, 9), "a", TypeError, "sigma is 'a'; expected a positive number"),
        (torch.zeros(2, 1, 9, 9), torch.ones(3), ValueError,
         r"sigma has shape \(3,\); expected a number, one for each image, \(2,\), or"),
        (torch.zeros(2, 1, 9, 9), torch.ones(9, 8), ValueError, r"sigma has shape \(9, 8\)"),
        (torch.zeros(2, 1, 9, 9), torch.tensor([1.0, -1.0]), ValueError,
         "sigma ranges from -1 to 1; expected finite numbers, most of them positive"),
        (torch.zeros(2, 1, 9, 9), torch.tensor([1.0, torch.nan]), ValueError, "sigma ranges from nan"),
        (torch.full((1, 1, 2, 9), torch.nan), 1, ValueError, "x has 18 non-finite pixels"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(x, sigma, error, message):
    with pytest.raises(error, match=message):
        NLRidge()(x, sigma)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "magic"}, ValueError, "method is 'magic'; expected one of"),
        ({"data_range": 0}, ValueError, "data_range is 0; expected a positive number"),
        ({"strength": -1}, ValueError, "strength is -1; expected"),
        ({"max_memory": "all"}, TypeError, "max_memory is 'all'; expected a positive number"),
    ],
)
def test_bad_options_get_a_sentence(options, error, message):
    with pytest.raises(error, match=message):
        NLRidge(**options)


# Units, and noise that is not given.


@pytest.mark.parametrize("sigma", [25.0, torch.tensor([5.0, 25.0])])
def test_a_sigma_in_other_units_raises_a_warning(sigma):
    """That points at this line, not at PyTorch, which calls the module."""
    x = torch.tensor(photograph((3, 40, 40))[1]).expand(2, 3, 40, 40)
    message = "sigma is (at least 5|25), but the images range from 0.* to 1.*; expected a standard deviation in the"
    with pytest.warns(UserWarning, match=message) as caught:
        NLRidge("fast")(x, sigma)
    assert [warning.filename for warning in caught] == [__file__]
    NLRidge("fast")(x, 0.1)  # warnings are errors here


def test_a_range_in_other_units_raises_a_warning():
    x = 255 * torch.tensor(photograph((1, 40, 40))[1])[None]
    with pytest.warns(UserWarning, match="sigma is 25 and data_range is 1, but the images range"):
        NLRidge("fast")(x, 25.0)
    NLRidge("fast", data_range=255)(x, 25.0)
    NLRidge(SMALL)(x, 25.0)  # a recipe does not depend on the range


def test_denoise_warns_once_of_a_sigma_in_other_units():
    x = torch.tensor(photograph((1, 40, 40))[1][0], requires_grad=True)
    with pytest.warns(UserWarning, match="sigma is 25, but the image ranges from") as caught:
        nlridge.denoise(x, 25.0, method="fast")
    assert len(caught) == 1


def test_noise_that_is_not_given_is_estimated():
    """For each channel of each image."""
    clean, noisy = photograph((3, 64, 64), sigma=0.1)
    noisier = clean + 2 * (noisy - clean)
    x = torch.tensor(np.stack([noisy, noisier]))
    estimates = [
        nlridge.estimate_noise(image.numpy(), channel_axis=0, kind="gaussian") for image in x
    ]
    sigmas = torch.tensor(np.stack([np.broadcast_to(noise.level, 3) for noise in estimates]))
    module = NLRidge("fast")
    result = module(x)
    torch.testing.assert_close(result, module(x, sigmas[:, :, None, None]), rtol=0, atol=1e-6)
    known = module(x, torch.tensor([0.1, 0.2]))
    for k in range(2):
        assert psnr(result[k].numpy(), clean) > psnr(known[k].numpy(), clean) - 0.3


@pytest.mark.parametrize("kind", ["video", "volume"])
def test_noise_of_frames_is_estimated_once(kind):
    clean, _ = photograph((1, 40, 40))
    frames = np.stack([photograph((1, 40, 40), seed=seed)[1] for seed in range(4)])
    result = NLRidge("fast", kind=kind)(torch.tensor(frames)).numpy()
    known = NLRidge("fast", kind=kind)(torch.tensor(frames), 0.1).numpy()
    assert psnr(result, clean) > psnr(known, clean) - 0.5


def test_images_without_noise_are_returned_as_they_are():
    """Beside others, and if all channels of all images are such."""
    x = torch.tensor(photograph((3, 40, 40))[1]).expand(2, 3, 40, 40).clone()
    x[1], x[0, 2] = 0.5, 0.25
    result = NLRidge("fast")(x)
    torch.testing.assert_close(result[1], x[1], rtol=0, atol=0)
    torch.testing.assert_close(result[0, 2], x[0, 2], rtol=0, atol=0)
    assert (result[0, :2] - x[0, :2]).std() > 0.05
    flat = torch.ones(1, 1, 20, 20)
    torch.testing.assert_close(NLRidge()(flat), flat, rtol=0, atol=0)


def test_what_noise_cannot_be_estimated_from():
    x = torch.rand(1, 1, 20, 20)
    correlated = NLRidge(correlation=[[0.5, 1, 0.5]])
    with pytest.raises(ValueError, match="sigma is None; expected a number or a tensor with corr"):
        correlated(x)
    x[0, 0, 0, :3] = torch.nan
    with pytest.raises(ValueError, match="x has 3 non-finite pixels; expected finite values"):
        NLRidge()(x)


def test_the_module_has_a_readable_repr_and_no_weights():
    assert str(NLRidge("bm3d")) == "NLRidge(method='bm3d', data_range=1, strength=1)"
    assert str(NLRidge(ALL_OF_IT)).startswith("NLRidge(method='TwoSided'")
    assert not NLRidge().state_dict()


def test_a_module_can_be_saved_and_loaded(tmp_path):
    """With a recipe, whose family is a value, and by name."""
    for method in (nlridge.recipe("standard", 25), SMALL, "fast"):
        torch.save(NLRidge(method), tmp_path / "module.pt")
        again = torch.load(tmp_path / "module.pt", weights_only=False)
        assert again.method == method
        x = torch.rand(1, 1, 16, 16)
        torch.testing.assert_close(again(x, 0.1), NLRidge(method)(x, 0.1))


def test_more_strength_removes_more():
    _, noisy = photograph((1, 40, 40))
    weak, strong = (denoised(noisy, strength=strength) for strength in (0.5, 1.5))
    assert np.std(noisy - weak) < np.std(noisy - denoised(noisy)) < np.std(noisy - strong)


# A tensor for `denoise`.


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float64])
def test_denoise_takes_and_returns_a_tensor(dtype):
    _, noisy = photograph((3, 40, 44))
    image = torch.tensor(200 * noisy).clip(0, 255).to(dtype)
    options = {"channel_axis": 0, "data_range": 255.0}
    result = nlridge.denoise(image, torch.tensor([20.0, 20, 20]), **options)
    assert result.dtype == (torch.float32 if dtype == torch.uint8 else dtype)
    array = (image.float() if dtype == torch.bfloat16 else image).numpy()
    expected = torch.tensor(nlridge.denoise(array, [20.0, 20, 20], **options))
    torch.testing.assert_close(result, expected.to(result.dtype), rtol=0, atol=0)


@pytest.mark.parametrize("sigma", [None, 20.0, [20.0, 20, 25], "map"])
def test_denoise_with_a_gradient_uses_the_engine_for_tensors(sigma):
    _, noisy = photograph((3, 40, 44))
    stack = np.stack([200 * noisy, 120 * noisy], axis=-1)
    if sigma == "map":
        sigma = np.tile(np.linspace(10, 20, 44), (40, 1))
    options = {"channel_axis": 0, "stack_axis": -1, "strength": 1.1}
    result = nlridge.denoise(torch.tensor(stack, requires_grad=True), sigma, **options)
    assert result.requires_grad
    np.testing.assert_allclose(result.detach(), nlridge.denoise(stack, sigma, **options), atol=0.01)
    with torch.no_grad():
        result = nlridge.denoise(torch.tensor(stack, requires_grad=True), sigma, **options)
    np.testing.assert_array_equal(result, nlridge.denoise(stack, sigma, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2}, "workers is 2; expected None for a tensor that needs a gradient"),
        ({"progress": True}, "progress is True; expected False for a tensor that needs"),
        ({"channel_axis": 0}, r"image has shape \(9, 9\); expected three dimensions"),
        ({"sigma": [1.0, 2.0]}, "sigma has 2 numbers; expected one"),
    ],
)
def test_unsupported_options_of_tensors_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        nlridge.denoise(torch.rand(9, 9, requires_grad=True), **options)


HOLES = np.random.default_rng(3).random((40, 44)) < 0.05
KERNEL = np.outer([1, 2, 1], [1, 2, 1]) / 16


@pytest.mark.parametrize(
    "options",
    [
        {"sigma": 20.0, "mask": HOLES},
        {"sigma": np.where(np.arange(44) < 20, 10.0, 30.0) * np.ones((40, 1))},
        {"noise": nlridge.PoissonGaussianNoise(2.0, 3.0)},
        {"noise": nlridge.PoissonGaussianNoise(60.0)},  # few photons
        {"noise": nlridge.CorrelatedNoise.from_kernel(20.0, KERNEL)},
        {"noise": nlridge.CurveNoise([0, 100, 255], [5, 15, 25])},
        {"noise": "gaussian"},
    ],
    ids=["mask", "map", "poisson", "few photons", "correlated", "curve", "blind"],
)
@pytest.mark.parametrize("axes", [{}, {"time_axis": 0}], ids=["image", "video"])
def test_all_that_arrays_can_do_with_a_gradient(options, axes, one_torch_thread):
    """Masks, maps and noise models, in images and in videos."""
    y, x = np.mgrid[:40, :44]
    clean = 120 + 60 * np.sin(x / 5) * np.cos(y / 7)
    image = clean + np.random.default_rng(0).normal(0, 20, (4, *clean.shape))
    image[:, 20, 22] = 900  # an outlier
    noisy = (image if axes else image[0]).astype(np.float32)
    tensor = torch.tensor(noisy, requires_grad=True)
    result = nlridge.denoise(tensor, method="fast", data_range=255, **options, **axes)
    expected = nlridge.denoise(noisy, method="fast", data_range=255, **options, **axes)
    np.testing.assert_allclose(result.detach().numpy(), expected, atol=0.1)
    result.sum().backward()
    assert torch.isfinite(tensor.grad).all()
    assert tensor.grad.abs().sum() > 0.5 * noisy.size


# In a process of its own.


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_pytorch_is_never_imported_unless_it_is_used():
    program = "import sys, nlridge, numpy; nlridge.denoise(numpy.ones((9, 9)), 1.0); "
    assert run(program + "print('torch' in sys.modules)").stdout == "False\n"


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform == "win32", reason="how much memory was taken is not known on Windows"
)
def test_memory_is_bounded():
    """By `max_memory`, 128 MB by default, and a few images."""
    program = (
        PEAK
        + """
import torch
from nlridge.torch import NLRidge
torch.set_num_threads(1)
NLRidge("nl-ridge")(torch.rand(1, 1, 20, 20), 0.1)
before = peak()
NLRidge("nl-ridge")(torch.rand(1, 1, 300, 300), 0.1)
print(peak() - before)
"""
    )
    assert float(run(program).stdout) < 200


def test_without_pytorch_the_message_says_how_to_install_it():
    done = run("import sys; sys.modules['torch'] = None; import nlridge.torch")
    assert (
        "ImportError: nlridge.torch needs torch, which is not installed: pip install torch"
        in done.stderr
    )

"""What `import nlridge` offers: names that are imported when they are used, and arguments that have an effect."""

import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import nlridge
from nlridge import GaussianNoise, denoise, denoise_to_disk, denoise_with_details

NOISY = np.random.default_rng(0).normal(100, 10, (20, 24))


def run(program):
    """What a program prints, in a process in which nothing is imported yet."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# Imports.


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'numpy', 'numba', 'PIL', 'tqdm', 'torch', 'dask', 'zarr'}"
    assert run(f"import sys, nlridge; print({heavy} & set(sys.modules))") == "set()\n"


def test_importing_the_package_imports_little():
    """One module of its own, and few of the standard library: it takes milliseconds."""
    program = "import sys; before = set(sys.modules); import nlridge; "
    new = eval(run(program + "print(set(sys.modules) - before)"))
    assert {name for name in new if name.split(".")[0] not in sys.stdlib_module_names} == {"nlridge"}  # fmt: skip
    assert len(new) < 50


def test_families_are_available_after_importing_the_package_alone():
    assert run("import nlridge; print(nlridge.families.Ridge(0.1))") == (
        "Ridge(noisier=0.1, tolerance=0.0)\n"
    )


def test_the_torch_module_is_available_after_importing_the_package_alone():
    pytest.importorskip("torch")
    printed = run("import nlridge; print(nlridge.torch.NLRidge('bm3d'))")
    assert printed == "NLRidge(method='bm3d', data_range=1, strength=1)\n"


def test_every_public_name_is_available_in_a_fresh_process():
    pytest.importorskip("torch")
    program = (
        "import nlridge\nfor name in dir(nlridge): getattr(nlridge, name)\nprint(dir(nlridge))"
    )
    assert (
        run(program) == f"{sorted([*nlridge.__all__, 'families', 'kernels', 'noise', 'torch'])}\n"
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'nlridge' has no attribute 'denoize'"):
        nlridge.denoize  # noqa: B018


# Arguments without an effect.


def sentence(name, value):
    """A pattern of the message for an argument, without its explanation."""
    unset = False if isinstance(value, bool) else None
    return rf"^{name} is {re.escape(repr(value))}; expected {unset} [^\n]+$"


def test_tiles_are_refused_without_a_dask_array():
    with pytest.raises(ValueError, match=sentence("tile", 128)):
        nlridge.prepare(NOISY, 10, tile=128)


@pytest.mark.parametrize(("name", "value"), [("workers", 2), ("progress", True)])
def test_options_that_do_not_apply_to_dask_arrays_are_refused(name, value):
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=sentence(name, value)):
        denoise(dask.from_array(NOISY), 10, **{name: value})


def test_workers_are_refused_with_a_cluster(tmp_path):
    with pytest.raises(ValueError, match=sentence("workers", 2)):
        denoise_to_disk(NOISY, tmp_path / "a.zarr", 10, client="tcp://127.0.0.1:1", workers=2)
    assert not os.listdir(tmp_path)


def test_details_need_an_array_in_memory():
    image = pytest.importorskip("dask.array").from_array(NOISY)
    with pytest.raises(TypeError, match=r"^image is a Dask array; expected [^\n]+$"):
        denoise_with_details(image, 10)


def test_denoise_has_few_arguments():
    assert len(inspect.signature(denoise).parameters) <= 15


# The protocol of noise models.


@dataclass(frozen=True)
class Doubled:
    """Gaussian noise of an image whose values were doubled: a noise model from outside the package."""

    level: float
    black_level: float = 0.0

    def stabilise(self, image):
        return np.asarray(image, np.float64) / 2

    def variance(self, truth, level):
        return np.broadcast_to((2 * np.asarray(level)) ** 2, np.shape(truth))

    def restore(self, estimate):
        return 2 * np.asarray(estimate, np.float64)


def test_a_custom_noise_model_is_accepted():
    expected = denoise(NOISY / 2, 5, data_range=255)
    result = denoise(NOISY, noise=Doubled(5.0), data_range=510)
    np.testing.assert_array_equal(result, 2 * expected)
    assert denoise_with_details(NOISY, noise=Doubled(5.0)).noise == Doubled(5.0)


@pytest.mark.parametrize("member", ["level", "black_level", "stabilise", "variance", "restore"])
def test_a_noise_model_that_lacks_a_member_is_refused(member):
    members = {"level": 10.0, "black_level": 0.0}
    for name in ("stabilise", "variance", "restore"):
        members[name] = getattr(GaussianNoise(10), name)
    whole = type("Whole", (), dict(members))()
    assert denoise(NOISY, noise=whole).shape == NOISY.shape
    del members[member]
    part = type("Part", (), members)()
    for function in (denoise, denoise_with_details, nlridge.estimate_quality):
        with pytest.raises(TypeError, match=r"^noise is .*Part.*; expected [^\n]+$"):
            function(NOISY, noise=part)


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("black_level", "x", "noise.black_level is 'x'; expected a number"),
        ("stabilise", lambda self, image: None, "noise.stabilise returned NoneType; expected"),
        ("stabilise", lambda self, image: image * np.nan, "noise.stabilise returned .*; expected finite"),
        ("restore", lambda self, estimate: estimate[..., :1], "noise.restore returned an array of shape"),
        ("restore", lambda self, estimate: estimate / 0, "noise.restore returned .*; expected finite"),
        ("variance", lambda self, truth, level: None, "noise.variance returned NoneType; expected"),
    ],
)  # fmt: skip
def test_a_noise_model_that_breaks_the_protocol_is_refused(member, value, message):
    model = type("Model", (Doubled,), {member: value})
    instance = model(5.0) if member != "black_level" else Doubled(5.0, value)
    with (
        np.errstate(divide="ignore", invalid="ignore"),
        pytest.raises((TypeError, ValueError), match=message),
    ):
        denoise(NOISY, noise=instance)


def test_the_protocol_of_noise_models_is_there_after_importing_the_package_alone():
    assert run("import nlridge; print(nlridge.noise.Noise.__name__)") == "Noise\n"


def test_numbers_of_numpy_are_numbers():
    assert nlridge.Rounds(2, keep=np.float32(0.5)).keep == 0.5


@pytest.mark.parametrize("sigma", ["5", True, [True, False]])
def test_text_and_truth_values_are_no_standard_deviations(sigma):
    with pytest.raises(TypeError, match="expected a number or an array of numbers"):
        GaussianNoise(sigma)


def test_equal_noise_has_equal_hashes():
    assert hash(GaussianNoise(0.0)) == hash(GaussianNoise(-0.0))

"""Errors about arguments as values: which argument, what it was, and what was expected."""

import pickle

import numpy as np
import pytest

import nlridge
from nlridge.errors import ArgumentError, ArgumentTypeError, Words


@pytest.mark.parametrize(
    ("call", "name", "value", "expected"),
    [
        (lambda: nlridge.GaussianNoise(-1), "sigma", -1, "a non-negative number below 1e300"),
        (lambda: nlridge.PoissonGaussianNoise(0), "gain", 0, "a positive number"),
        (lambda: nlridge.CorrelatedNoise.lines(1, axis=2), "axis", 2, "0 or 1"),
        (lambda: nlridge.CurveNoise([1, 2], [3]), "sigmas", 1, "2, as many as values"),
        (lambda: nlridge.Step(0, 2, 9, 1), "patch_size", 0, None),
        (lambda: nlridge.recipe("slow", 1), "name", "slow", None),
        (lambda: nlridge.denoise(np.zeros((9, 9)), -1), "sigma", -1, "a positive number"),
        (lambda: nlridge.denoise(np.zeros((9, 9)), strength=1e3), "strength", 1e3, "a number from 0.01 to 100"),
    ],
)  # fmt: skip
def test_errors_have_fields(call, name, value, expected):
    with pytest.raises(nlridge.ArgumentError) as caught:
        call()
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.name, error.value) == (name, value)
    assert expected is None or error.expected == expected
    assert str(error).startswith(f"{name} ")
    assert str(error).endswith(f"; expected {error.expected}")


def test_wrong_types_are_type_errors_too():
    with pytest.raises(TypeError, match="strength is 'high'; expected a positive number") as caught:
        nlridge.denoise(np.zeros((9, 9)), strength="high")
    assert isinstance(caught.value, nlridge.ArgumentError)
    assert (caught.value.name, caught.value.value) == ("strength", "high")


@pytest.mark.parametrize("kind", [ArgumentError, ArgumentTypeError])
def test_errors_survive_the_way_to_another_process(kind):
    error = kind("sigma", (3,), "a number, and `channel_axis`", found="has shape (3,)")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (again.name, again.value, again.expected) == (
        "sigma",
        (3,),
        "a number, and channel_axis",
    )
    assert str(again) == str(error) == "sigma has shape (3,); expected a number, and channel_axis"
    assert (
        again.args[0].naming(str.upper)
        == "SIGMA has shape (3,); expected a number, and CHANNEL_AXIS"
    )


def test_only_names_of_arguments_are_replaced():
    words = Words("`sigma` is sigma; expected `noise='poisson'`, `quoted text`, or a ` b")
    assert words == "sigma is sigma; expected noise='poisson', quoted text, or a ` b"
    assert (
        words.naming({"sigma": "--sigma", "noise": "--noise", "quoted text": "text"}.__getitem__)
        == "--sigma is sigma; expected --noise poisson, text, or a ` b"
    )

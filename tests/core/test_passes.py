"""The passes that a recipe stands for: what each works on, which planes go together, how many there are."""

from dataclasses import replace

import numpy as np
import pytest
from groups import Custom
from images import texture
from kinds import RunBy

import nlridge
from nlridge import CoarseScale, Estimator, Recipe, Rounds, Step
from nlridge.core.algorithm.framework import denoised
from nlridge.core.algorithm.inputs import PartialDenoising, PlaneNoise, StepInputs
from nlridge.core.algorithm.passes import Pass, PlaneSet, all_passes, passes_of
from nlridge.core.families import BM3D, Bayes, Ridge, TwoSided

FIRST, SECOND = Step(5, 9, stride=3, window=11), Step(4, 14, stride=2, window=13)


# Inputs.


def some_images(count):
    return [np.full((1, 2, 3), float(k), np.float32) for k in range(count)]


def test_identical_images_stay_identical():
    noisy, guide = some_images(2)
    inputs = StepInputs(noisy, guide=guide, similar=guide, noise=PlaneNoise(4.0))
    moved = inputs.mapped(lambda image: image + 1)
    assert moved.similar is moved.guide
    assert moved.noisy is not moved.guide
    assert moved.noise is inputs.noise
    np.testing.assert_array_equal(moved.noisy, noisy + 1)
    np.testing.assert_array_equal(moved.guide, guide + 1)
    first = StepInputs(noisy, guide=noisy, similar=noisy, noise=PlaneNoise(4.0))
    moved = first.mapped(lambda image: image + 1)
    assert moved.noisy is moved.guide is moved.similar


def test_all_images_are_mapped_once():
    noisy, guide, similar, variance, original = some_images(5)
    inputs = StepInputs(
        noisy, guide, similar, PlaneNoise(variance), PartialDenoising(original=original, keep=0.5)
    )
    seen = []
    moved = inputs.mapped(lambda image: seen.append(image) or image + 1)
    assert sorted(float(image[0, 0, 0]) for image in seen) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(moved.noise.variance, variance + 1)
    np.testing.assert_array_equal(moved.partly.original, original + 1)
    assert moved.partly.keep == 0.5


def test_each_image_is_listed_once():
    noisy, guide = some_images(2)
    inputs = StepInputs(
        noisy, guide=guide, similar=guide, noise=PlaneNoise(4.0), partly=PartialDenoising(noisy, 0)
    )
    images = inputs.images()
    assert len(images) == 2
    assert images[0] is noisy
    assert images[1] is guide


def test_noise_is_kept_only_where_some_is_asked_for():
    (noisy,) = some_images(1)
    inputs = StepInputs(noisy, noisy, noisy, PlaneNoise(4.0))
    assert not inputs.keeps_noise
    assert not replace(inputs, partly=PartialDenoising(noisy, 0.0)).keeps_noise
    assert replace(inputs, partly=PartialDenoising(noisy, 0.1)).keeps_noise


# Planes that share one Θ.


@pytest.mark.parametrize("family", [Ridge(), TwoSided(), Bayes(), BM3D()])
@pytest.mark.parametrize("planes", [1, 2, 3, 4, 5])
def test_brightness_stands_alone_and_colors_go_in_pairs_if_they_can(family, planes):
    step = Pass(family, True, replace(SECOND, chroma_group_size=20))
    first, *others = step.plane_sets(planes)
    assert first == PlaneSet(slice(0, 1), 14)
    assert all(some.group_size == 20 for some in others)
    covered = [k for some in (first, *others) for k in range(planes)[some.planes]]
    assert covered == list(range(planes))
    pairs = (planes - 1) // 2
    expected = (
        [2] * pairs + [1] * ((planes - 1) % 2) if family.stacks_planes else [1] * (planes - 1)
    )
    assert [some.number for some in others] == expected


def test_families_that_combine_patches_stack_planes():
    assert [family.stacks_planes for family in (Ridge(), TwoSided(), Bayes(), BM3D())] == [
        True,
        True,
        False,
        False,
    ]


def test_groups_of_colors_are_as_large_as_others_by_default():
    step = Pass(Ridge(), False, FIRST)
    assert [some.group_size for some in step.plane_sets(3)] == [9, 9]


# How many passes there are.


def counted(recipe, planes=1):
    """The passes that the framework runs, by an engine that does nothing."""
    ran = []

    def run(inputs, step, groups=None):
        ran.append((inputs.noisy.shape[1:], step))
        return inputs.noisy, inputs.noisy

    image = np.stack([texture(31, 40)] * planes).astype(np.float32)
    list(denoised(image, PlaneNoise(100.0), recipe, RunBy(run)))
    return ran


ONE_STEP = Recipe(Ridge(), FIRST)
TWO_STEPS = Recipe(Ridge(), FIRST, SECOND)
IN_ROUNDS = replace(TWO_STEPS, rounds=Rounds(5, 0.5))
SCALES = replace(IN_ROUNDS, coarse=CoarseScale(replace(TWO_STEPS, coarse=CoarseScale(ONE_STEP))))
NAMED = [nlridge.recipe(name, sigma) for name in nlridge.method_names() for sigma in (5, 25)]


@pytest.mark.parametrize("recipe", [ONE_STEP, TWO_STEPS, IN_ROUNDS, SCALES, *NAMED])
def test_the_framework_runs_the_passes_that_are_counted(recipe):
    assert counted(recipe) == list(all_passes(recipe, (31, 40)))
    here = [step for shape, step in counted(recipe) if shape == (31, 40)]
    assert here == passes_of(recipe)


def test_a_recipe_has_one_first_pass_and_one_for_each_round():
    assert passes_of(ONE_STEP) == [Pass(Ridge(), False, FIRST)]
    assert passes_of(TWO_STEPS) == [Pass(Ridge(), False, FIRST), Pass(Ridge(), True, SECOND)]
    first, *rounds = passes_of(IN_ROUNDS)
    assert not first.is_second
    assert all(step.is_second and step.settings == SECOND for step in rounds)
    assert [step.is_shifted for step in rounds] == [False, False, True, True, False]


def test_coarser_images_come_first():
    assert [shape for shape, _ in all_passes(SCALES, (31, 40))] == [
        (8, 10),
        *[(16, 20)] * 2,
        *[(31, 40)] * 6,
    ]


def test_each_step_has_its_own_estimator():
    first, second = (Estimator(lambda Y, X, noise: None) for _ in range(2))
    family = Custom(first, second)
    assert Pass(family, False, FIRST).estimator is first
    assert Pass(family, True, SECOND).estimator is second

"""The plug-in for napari, in a real viewer. `make napari` installs what it takes; elsewhere these tests are skipped."""

import os
import sys
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # those of napari and Qt are not ours
    pytest.importorskip("napari", reason="napari is not installed; make napari installs it")
    pytest.importorskip("pytestqt", reason="pytest-qt is not installed; make napari installs it")
    da = pytest.importorskip("dask.array")
if sys.platform == "linux" and not os.environ.get("DISPLAY"):
    pytest.skip("there is no display; xvfb is one", allow_module_level=True)

import nlridge
from nlridge.apps.napari.samples import cells, particles

pytestmark = pytest.mark.filterwarnings("default")

RNG = np.random.default_rng(0)
NOISY = (100 + 40 * np.sin(np.arange(96) / 9) + RNG.normal(0, 8, (80, 96))).astype(np.float32)
STACK = (NOISY + RNG.normal(0, 8, (4, 80, 96))).astype(np.float32)
PLACE = {
    "scale": (0.5, 0.2, 0.3),
    "translate": (7.0, 3.0, -2.0),
    "rotate": 30,
    "units": ("s", "um", "um"),
    "axis_labels": ("t", "y", "x"),
}


@pytest.fixture
def viewer(make_napari_viewer):
    return make_napari_viewer()


@pytest.fixture
def widget(viewer, qtbot):
    """The widget in its dock, as the menu opens it; it is idle when a test ends."""
    _, widget = viewer.window.add_plugin_dock_widget("nlridge", "Denoise")
    yield widget
    if widget.worker is not None:
        widget.cancel()
        qtbot.waitUntil(lambda: widget.worker is None, timeout=60_000)


@pytest.fixture
def run(viewer, widget, qtbot):
    """Run the widget and return the layer that it adds, or None."""

    def run(**settings):
        widget.method.value = "fast"
        for name, value in settings.items():
            getattr(widget, name).value = value
        before = set(viewer.layers)
        widget.start()
        qtbot.waitUntil(lambda: widget.worker is None, timeout=120_000)
        return next((layer for layer in viewer.layers if layer not in before), None)

    return run


def test_the_manifest_is_valid():
    from npe2 import PluginManifest

    manifest = PluginManifest.from_distribution("nlridge")
    manifest.validate_imports()
    assert {command.id for command in manifest.contributions.commands} == {
        "nlridge.denoise",
        "nlridge.residual",
        "nlridge.cells",
        "nlridge.particles",
    }


def test_a_result_has_the_bits_of_denoise_and_the_place_and_looks_of_its_layer(viewer, run):
    source = viewer.add_image(
        STACK, name="stack", colormap="magma", contrast_limits=(20, 180), gamma=0.8, **PLACE
    )
    before = STACK.copy()
    result = run(frames=None)
    assert np.array_equal(result.data, nlridge.denoise(STACK, method="fast", stack_axis=0))
    assert np.array_equal(source.data, before)
    assert result.name == "stack denoised"
    for name in ("scale", "translate", "rotate", "shear"):
        np.testing.assert_allclose(getattr(result, name), getattr(source, name))
    assert result.units == source.units
    assert result.axis_labels == source.axis_labels
    assert result.colormap.name == "magma"
    assert list(result.contrast_limits) == [20, 180]
    assert result.gamma == 0.8
    assert viewer.layers.index(result) == viewer.layers.index(source) + 1
    assert result.metadata["nlridge"]["method"] == "fast"


def test_the_widget_says_what_was_found(viewer, widget, run):
    viewer.add_image(NOISY)
    run()
    assert "(estimated); removed" in widget.words.value
    run(noise="given", sigma=8.0)
    assert "(given); removed" in widget.words.value


def test_labels_of_axes_choose_channels_and_frames(viewer, widget):
    viewer.add_image(STACK, **PLACE)
    assert widget.frames.value == ("time", 0)
    pixels = np.stack([STACK, STACK], axis=1)
    viewer.add_image(pixels, name="volume", axis_labels=("z", "c", "y", "x"))
    widget.layer.value = viewer.layers["volume"]
    assert widget.channels.value == 1
    assert widget.frames.value == ("depth", 0)
    viewer.add_image(STACK, name="unnamed")
    widget.layer.value = viewer.layers["unnamed"]
    assert widget.frames.value is None


def test_frames_are_denoised_together_or_not(viewer, run):
    viewer.add_image(STACK)
    arguments = {"method": "fast", "sigma": 12.0}
    together = run(frames=("time", 0), noise="given", sigma=12.0)
    assert np.array_equal(together.data, nlridge.denoise(STACK, time_axis=0, **arguments))
    viewer.layers.remove(together)
    depth = run(frames=("depth", 0))
    assert np.array_equal(depth.data, nlridge.denoise(STACK, depth_axis=0, **arguments))


def test_channels_are_denoised_jointly(viewer, run):
    pixels = np.stack([NOISY, 0.5 * NOISY + 10], axis=0)
    viewer.add_image(pixels)
    result = run(channels=0)
    assert np.array_equal(result.data, nlridge.denoise(pixels, method="fast", channel_axis=0))


def test_this_plane_only_stays_where_it_is(viewer, run):
    source = viewer.add_image(STACK, **PLACE)
    viewer.dims.set_current_step(0, 2)
    result = run(plane_only=True)
    assert result.data.shape == (1, 80, 96)
    assert np.array_equal(result.data[0], nlridge.denoise(STACK[2], method="fast"))
    np.testing.assert_allclose(result.data_to_world((0, 5, 6)), source.data_to_world((2, 5, 6)))


@pytest.mark.parametrize("channels", [3, 4])
def test_colors_stay_colors_and_transparency_is_left_alone(viewer, run, channels):
    photo = np.clip(NOISY[..., None] * [1, 0.8, 0.5], 0, 255).astype(np.uint8)
    transparency = RNG.integers(0, 255, (80, 96, channels - 3), dtype=np.uint8)
    viewer.add_image(np.concatenate([photo, transparency], axis=-1), rgb=True)
    result = run()
    assert result.rgb
    assert result.data.dtype == np.uint8
    expected = nlridge.denoise(photo, method="fast", channel_axis=-1)
    assert np.array_equal(result.data[..., :3], nlridge.to_dtype(expected, np.uint8))
    assert np.array_equal(result.data[..., 3:], transparency)


def test_the_widget_has_every_adjustment_where_it_has_an_effect(viewer, widget, run):
    from nlridge.apps.options import ADJUSTMENTS

    assert list(widget.sliders) == list(ADJUSTMENTS)
    for name, option in ADJUSTMENTS.items():
        assert widget.sliders[name].value == option.default
        assert (widget.sliders[name].min, widget.sliders[name].max) == option.slider[:2]
    viewer.add_image(NOISY, name="gray")
    widget.sliders["color"].value = 2.0
    task, _ = widget.task()
    assert "color" not in task.options
    pixels = np.stack([NOISY, 0.8 * NOISY, 0.5 * NOISY], axis=-1)
    pixels += RNG.normal(0, 5, pixels.shape).astype(np.float32)
    photo = np.clip(pixels, 0, 255).astype(np.uint8)
    viewer.add_image(photo, rgb=True, name="photo")
    result = run(layer=viewer.layers["photo"], strength=0.8, color=2.0, noise="given", sigma=8.0)
    expected = nlridge.denoise(photo, 8, method="fast", strength=0.8, color=2.0, channel_axis=-1)
    assert np.array_equal(result.data, nlridge.to_dtype(expected, np.uint8))
    assert result.metadata["nlridge"]["color"] == 2.0


def test_the_noise_is_sampled_from_a_rectangle(viewer, widget, run):
    flat = 50 + RNG.normal(0, 6, (3, 80, 96))
    flat[:, 40:] += RNG.normal(0, 30, (3, 40, 96))
    viewer.add_image(flat, scale=(1, 0.5, 0.5), translate=(0, 10, 0))
    widget.noise.value = "sampled in a rectangle"
    assert run() is None
    assert "no rectangle" in widget.words.value
    widget.draw_rectangle()
    shapes = viewer.layers.selection.active
    assert shapes.mode == "add_rectangle"
    shapes.add([[12, 5], [12, 40], [28, 40], [28, 5]], shape_type="rectangle")  # in the world
    task, _ = widget.task()
    assert task.sample == (1, slice(4, 36), slice(10, 80))
    result = run(plane_only=False)
    expected = np.std(flat[1, 4:36, 10:80])
    assert "(given)" in widget.words.value
    assert np.std(result.data[1, 4:36, 10:80]) < 0.4 * expected
    shapes.data = [np.array([[12, 5], [12, 7], [28, 7], [28, 5]])]
    assert run() is None
    assert "expected at least 8" in widget.words.value


@pytest.mark.parametrize("kind", ["labels", "shapes", "points"])
def test_other_layers_are_refused_in_words(viewer, widget, kind):
    if kind == "labels":
        layer = viewer.add_labels(np.ones((40, 50), int), name="mine")
    else:
        layer = getattr(viewer, f"add_{kind}")(name="mine")
    widget.layer.value = layer
    article = "a"
    assert widget.words.value.startswith(f"mine is {article} {kind} layer; expected an image")
    assert not widget.run.enabled
    widget.start()
    assert widget.worker is None
    assert len(viewer.layers) == 1


def test_errors_are_sentences_in_the_widget(viewer, widget, run):
    viewer.add_image(np.full((40, 50), np.nan, np.float32))
    assert run() is None
    assert widget.words.value == "image has no valid pixels; expected at least one"
    assert widget.run.enabled


class Counted:
    """An array that counts how often it is read."""

    def __init__(self, pixels):
        self.pixels, self.reads = pixels, 0
        self.shape, self.dtype, self.ndim = pixels.shape, pixels.dtype, pixels.ndim

    def __getitem__(self, index):
        self.reads += 1
        return self.pixels[index]


def test_stacks_of_dask_stay_lazy(viewer, widget, run):
    counted = Counted(np.stack([STACK, STACK + 1]))
    lazy = da.from_array(counted, chunks=(1, 1, 80, 96))
    viewer.add_image(lazy, contrast_limits=(0, 200), cache=False)
    counted.reads = 0
    viewer.dims.set_current_step(0, 0)
    widget.method.value = "fast"
    from nlridge.apps.napari.denoising import denoised

    task, _ = widget.task()
    result = denoised(task, lambda share: None).pixels
    assert counted.reads == 0
    assert isinstance(result, da.Array)
    assert result.dtype == np.float32
    frame = result[1, 2].compute()
    assert counted.reads == 1
    assert np.array_equal(frame, nlridge.denoise(STACK[2] + 1, method="fast"))
    layer = run()
    assert isinstance(layer.data, da.Array)


@pytest.mark.parametrize("frames", [None, ("time", 1)])
def test_lazy_results_have_the_pixels_of_others(viewer, run, frames):
    pixels = np.stack([STACK, STACK + 1])[:, :, :64, :64]
    viewer.add_image(pixels, name="in memory")
    viewer.add_image(da.from_array(pixels, chunks=(1, 2, 32, 64)), name="lazy")
    settings = {"frames": frames, "noise": "given", "sigma": 12.0}
    eager = run(layer=viewer.layers["in memory"], **settings)
    lazy = run(layer=viewer.layers["lazy"], **settings)
    assert isinstance(lazy.data, da.Array)
    assert np.array_equal(lazy.data.compute(), eager.data)


def test_it_runs_in_a_thread_and_can_be_stopped(viewer, widget, qtbot):
    noisy = RNG.normal(100, 20, (1200, 1200)).astype(np.float32)
    viewer.add_image(noisy)
    widget.method.value = "best"
    widget.start()
    assert widget.stop.enabled  # it goes on
    assert not widget.run.enabled
    qtbot.waitUntil(lambda: widget.bar.value > 0, timeout=120_000)
    widget.cancel()
    qtbot.waitUntil(lambda: widget.worker is None, timeout=30_000)
    assert len(viewer.layers) == 1
    assert widget.words.value == "Stopped."
    assert widget.run.enabled
    assert not widget.stop.enabled


def test_the_residual_is_what_was_removed(viewer, run):
    from napari._app_model import get_app_model

    source = viewer.add_image(STACK, **PLACE)
    viewer.dims.set_current_step(0, 1)
    result = run(plane_only=True)
    get_app_model().commands.execute_command("nlridge.residual").result()
    residual = viewer.layers[f"{source.name} removed"]
    np.testing.assert_allclose(residual.data[0], STACK[1] - result.data[0], atol=1e-4)
    np.testing.assert_allclose(residual.translate, result.translate)
    low, high = residual.contrast_limits
    assert low == -high


def test_the_residual_of_another_layer_is_refused_in_words(viewer):
    from napari.utils.notifications import notification_manager

    from nlridge.apps.napari.residual import show_residual

    viewer.add_image(NOISY)
    show_residual(viewer)
    assert len(viewer.layers) == 1
    assert "nlridge has denoised" in notification_manager.records[-1].message


@pytest.mark.parametrize(("sample", "key"), [(cells, "cells"), (particles, "particles")])
def test_samples_open_and_are_noisy(viewer, widget, sample, key):
    viewer.open_sample("nlridge", key)
    (layer,) = viewer.layers
    (pixels, _, _), = sample()  # fmt: skip
    assert np.array_equal(layer.data, pixels)
    frame = pixels if pixels.ndim == 2 else pixels[0]
    assert nlridge.estimate_noise(frame).level > 0
    if key == "particles":
        assert widget.frames.value == ("time", 0)
        assert str(layer.units[0]) == "second"

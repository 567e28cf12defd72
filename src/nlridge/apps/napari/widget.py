"""The widget: settings, a button to run and one to stop, progress, and what was found in words."""

from typing import TYPE_CHECKING, Any

import numpy as np
from magicgui.widgets import (
    CheckBox,
    ComboBox,
    Container,
    FloatSlider,
    FloatSpinBox,
    Label,
    ProgressBar,
    PushButton,
)
from napari.layers import Image
from napari.qt.threading import GeneratorWorkerSignals, WorkerBase

from ... import __version__, kernels, method_names
from ..options import ADJUSTMENTS, OPTIONS, Option, words_about
from .denoising import Result, Stopped, Task, denoised
from .layers import (
    Origin,
    appearance,
    axis_in_words,
    expect_image,
    frame_axes,
    origins,
    pixels_of,
    plane_of,
    role,
    voxel_of,
)

if TYPE_CHECKING:
    import napari

FOUND, GIVEN, SAMPLED = "found in the image", "given", "sampled in a rectangle"
_APART = "each on its own"
_RECTANGLE = "noise is sampled here"  # the name of the layer to draw on
_LEAST = 8  # pixels on a side of a rectangle
_STEPS = 1000  # length of the progress bar


class DenoiseWidget(Container[Any]):
    """Denoise a layer; the result is a new layer."""

    def __init__(self, napari_viewer: "napari.viewer.Viewer") -> None:
        self.viewer = napari_viewer
        self.worker: _Worker | None = None
        self.layer = ComboBox(
            label="layer", choices=self._layers, tooltip="The image layer to denoise."
        )
        self.method = ComboBox(
            label="method",
            choices=method_names(),
            value=OPTIONS["method"].default,
            tooltip=_sentence(OPTIONS["method"]),
        )
        self.sliders = {name: _slider(option) for name, option in ADJUSTMENTS.items()}
        self.noise = ComboBox(label="noise", choices=(FOUND, GIVEN, SAMPLED))
        self.sigma = FloatSpinBox(
            label="level",
            min=0,
            max=1e9,
            step=0.001,
            value=10,
            tooltip="Standard deviation of the noise, in the units of the pixels.",
        )
        self.rectangle = PushButton(
            text="Draw a rectangle",
            tooltip="Draw it where the image is flat. The noise is measured there.",
        )
        self.channels = ComboBox(label="channels", choices=self._channel_axes)
        self.frames = ComboBox(
            label="frames",
            choices=self._sequences,
            tooltip="Denoising consecutive images together removes more noise.",
        )
        self.plane_only = CheckBox(
            text="this plane only",
            tooltip="Denoise only the plane that is shown, without its neighbours.",
        )
        self.run = PushButton(text="Run")
        self.stop = PushButton(text="Stop", enabled=False)
        self.bar = ProgressBar(label=" ", min=0, max=_STEPS, value=0, visible=False)
        self.words = Label(value="")
        super().__init__(
            widgets=[
                self.layer, self.method, *self.sliders.values(), self.noise, self.sigma, self.rectangle, self.channels,
                self.frames, self.plane_only, Container(widgets=[self.run, self.stop], layout="horizontal", label=" "),
                self.bar,
            ]
        )  # fmt: skip
        self.append(self.words)  # only now does magicgui align the labels
        self.words.native.setWordWrap(True)
        self.layer.changed.connect(self._describe_layer)
        self.channels.changed.connect(self.frames.reset_choices)
        self.channels.changed.connect(self._show_fields)
        self.noise.changed.connect(self._show_fields)
        self.plane_only.changed.connect(self._show_fields)
        self.rectangle.changed.connect(self.draw_rectangle)
        self.run.changed.connect(self.start)
        self.stop.changed.connect(self.cancel)
        if napari_viewer.layers.selection.active in self.layer.choices:
            self.layer.value = napari_viewer.layers.selection.active
        self._describe_layer()

    # What there is to choose from.

    def _layers(self, _: Any) -> list[Any]:
        return [layer for layer in self.viewer.layers if layer.name != _RECTANGLE]

    def _channel_axes(self, _: Any) -> list[tuple[str, int | None]]:
        layer = self._image()
        if layer is None or layer.rgb:
            return [("colors" if layer else "none", None)]
        axes = range(layer.ndim) if layer.ndim > 2 else ()
        return [("none", None), *((axis_in_words(layer, axis), axis) for axis in axes)]

    def _sequences(self, _: Any) -> list[tuple[str, tuple[str, int] | None]]:
        layer = self._image()
        axes = [] if layer is None else frame_axes(layer, self.channels.value)
        together: list[tuple[str, tuple[str, int] | None]] = [
            (f"together in {kind}: {axis_in_words(layer, axis)}", (kind, axis))
            for axis in axes
            for kind in ("time", "depth")
        ]
        return [(_APART, None), *together]

    def _image(self) -> Any:
        """Return the chosen layer if it can be denoised, otherwise None."""
        try:
            expect_image(self.layer.value)
        except ValueError:
            return None
        return self.layer.value

    def _describe_layer(self, _: Any = None) -> None:
        """Offer the axes of the chosen layer, and choose by their labels."""
        self.channels.reset_choices()
        layer = self._image()
        self.say("" if self.layer.value is None or layer is not None else self._refusal())
        if layer is not None:
            roles = [role(layer, axis) for axis in range(layer.ndim)]
            if not layer.rgb and layer.ndim > 2 and "channel" in roles:
                self.channels.value = roles.index("channel")
            self.frames.reset_choices()
            known = [choice for choice in self.frames.choices if choice is not None]
            named = [(kind, axis) for kind, axis in known if roles[axis] == kind]
            # Time before depth: neighbours in time are usually more alike.
            self.frames.value = min(named, key=lambda one: one[0] != "time", default=None)
        self._show_fields()

    def _refusal(self) -> str:
        try:
            expect_image(self.layer.value)
        except ValueError as error:
            return str(error)
        return ""

    def _show_fields(self, _: Any = None) -> None:
        """Show the fields that have an effect."""
        for name, slider in self.sliders.items():
            slider.visible = self._has_effect(name)
        self.sigma.visible = self.noise.value == GIVEN
        self.rectangle.visible = self.noise.value == SAMPLED
        self.channels.visible = len(self.channels.choices) > 1
        several = len(self.frames.choices) > 1
        self.frames.visible = self.plane_only.visible = several
        self.frames.enabled = not self.plane_only.value
        self.run.enabled = self._image() is not None and self.worker is None

    def _has_effect(self, name: str) -> bool:
        """Return whether an adjustment applies to the chosen layer."""
        layer = self._image()
        in_color = layer is not None and (layer.rgb or self.channels.value is not None)
        return in_color or not ADJUSTMENTS[name].in_color

    # The rectangle.

    def draw_rectangle(self, _: Any = None) -> None:
        """Add a layer to draw a rectangle on, and let the mouse draw."""
        shapes = self._shapes()
        if shapes is None:
            shapes = self.viewer.add_shapes(
                name=_RECTANGLE, ndim=2, edge_color="yellow", face_color="transparent"
            )
        self.viewer.layers.selection.active = shapes
        shapes.mode = "add_rectangle"

    def _shapes(self) -> Any:
        """Return the layer to draw on, if there is one."""
        return next((layer for layer in self.viewer.layers if layer.name == _RECTANGLE), None)

    def _sample(self, layer: Any, plane: tuple[int | slice, ...]) -> tuple[int | slice, ...]:
        """Return the index of the part of a plane that lies in the rectangle that was drawn last."""
        shapes = self._shapes()
        if shapes is None or not shapes.data:
            raise ValueError("There is no rectangle; expected one where the image is flat.")
        corners = np.array([self._in_layer(shapes, layer, corner) for corner in shapes.data[-1]])
        shape = pixels_of(layer).shape
        index = list(plane)
        flat = [axis for axis in range(layer.ndim) if axis != self.channels.value][-2:]
        for axis in flat:
            low, high = np.rint(corners[:, axis].min()), np.rint(corners[:, axis].max())
            start, stop = (int(np.clip(edge, 0, shape[axis])) for edge in (low, high))
            if stop - start < _LEAST:
                raise ValueError(
                    f"The rectangle has {stop - start} pixels on a side within the image; expected at least {_LEAST}."
                )
            index[axis] = slice(start, stop)
        return tuple(index)

    def _in_layer(self, shapes: Any, layer: Any, corner: Any) -> Any:
        """Return where a corner of a shape is in the pixels of a layer, on the plane that is shown."""
        point = np.array(self.viewer.dims.point, float)
        place = shapes.data_to_world(corner)
        point[-len(place) :] = place
        return layer.world_to_data(point)

    # Work.

    def task(self) -> tuple[Task, Origin]:
        """Return what the settings ask for."""
        layer = self.layer.value
        expect_image(layer)
        pixels, channel_axis = pixels_of(layer), self.channels.value
        shown = plane_of(layer, self.viewer.dims.point, channel_axis)
        stacked = frame_axes(layer, channel_axis)
        plane = shown if self.plane_only.value and stacked else None
        kind, axis = self.frames.value or ("", None)
        if plane is not None:
            kind, axis = "", None
        sample = self._sample(layer, shown) if self.noise.value == SAMPLED else None
        if plane is not None:
            # Axes of length 1 keep the plane where it is in the world.
            kept = tuple(slice(k, k + 1) if isinstance(k, int) else k for k in plane)
            pixels = pixels[kept]
            sample = (
                None if sample is None else tuple(0 if isinstance(k, int) else k for k in sample)
            )
        if self.noise.value == GIVEN and not self.sigma.value > 0:
            raise ValueError("The noise level is 0; expected a positive number.")
        task = Task(
            pixels,
            options={
                "method": self.method.value,
                **{name: s.value for name, s in self.sliders.items() if self._has_effect(name)},
            },
            sigma=self.sigma.value if self.noise.value == GIVEN else None,
            sample=sample,
            channel_axis=channel_axis,
            rgb=layer.rgb,
            time_axis=axis if kind == "time" else None,
            depth_axis=axis if kind == "depth" else None,
            voxel=voxel_of(layer, axis) if kind == "depth" and axis is not None else None,
        )
        return task, Origin(layer, plane)

    def start(self, _: Any = None) -> None:
        """Denoise in another thread."""
        if self.worker is not None:
            return
        try:
            task, origin = self.task()
        except ValueError as error:
            self.say(str(error))
            return
        self.worker = worker = _Worker(task)
        worker.yielded.connect(self._show_progress)
        worker.returned.connect(lambda result: self._add(result, task, origin))
        worker.errored.connect(self._show_error)
        worker.finished.connect(self._end)
        self.bar.value = 0
        self.run.enabled, self.stop.enabled, self.bar.visible = False, True, True
        self.say("Denoising ...")
        worker.start()

    def cancel(self, _: Any = None) -> None:
        """Stop; nothing is added."""
        if self.worker is not None:
            self.worker.quit()
            self.say("Stopping ...")

    def say(self, words: str) -> None:
        self.words.value = words

    def _show_progress(self, step: tuple[float, str]) -> None:
        share, words = step
        self.bar.value = round(share * _STEPS)
        if words:
            self.say(words)

    def _add(self, result: Result, task: Task, origin: Origin) -> None:
        """Add the result as a layer, just above the one it comes from."""
        source = origin.layer
        made = {"version": __version__, **task.options}
        layer = Image(
            result.pixels,
            name=f"{source.name} denoised",
            metadata={"nlridge": {**made, "words": result.words}},
            **appearance(source, origin.plane),
        )
        self.viewer.add_layer(layer)
        origins[layer] = origin
        if source in self.viewer.layers:
            self.viewer.layers.move(
                self.viewer.layers.index(layer), self.viewer.layers.index(source) + 1
            )
            if str(source.blending) not in ("translucent", "opaque", "translucent_no_depth"):
                source.visible = False  # the two would be added up
        self.viewer.layers.selection.active = layer
        self.say(result.words)

    def _show_error(self, error: Exception) -> None:
        self.say("Stopped." if isinstance(error, Stopped) else str(error))

    def _end(self) -> None:
        self.worker = None
        self.bar.visible = self.stop.enabled = False
        self.run.enabled = self._image() is not None


def _slider(option: Option) -> FloatSlider:
    least, most, step = option.slider or (0.0, 1.0, 0.1)
    return FloatSlider(
        name=option.name,
        label=option.name,
        min=least,
        max=most,
        step=step,
        value=option.default,
        tooltip=_sentence(option),
    )


def _sentence(option: Option) -> str:
    words = words_about(option)
    return f"{words[0].upper()}{words[1:]}."


class _Worker(WorkerBase):
    """A thread that does a task, and reports its progress."""

    def __init__(self, task: Task) -> None:
        super().__init__(SignalsClass=GeneratorWorkerSignals)
        self.task = task

    def work(self) -> Result:
        share = 0.0

        def progress(done: float) -> None:
            nonlocal share
            if self.abort_requested:
                raise Stopped
            if done == 0 or done >= share + 1 / _STEPS:
                share = done
                self.yielded.emit((done, "Denoising ..." if done else ""))

        def say_compiling(words: str) -> None:
            self.yielded.emit((share, f"{words[0].upper()}{words[1:]} ..."))

        with kernels.announcing(say_compiling):
            result = denoised(self.task, progress)
        if self.abort_requested:
            raise Stopped
        return result

"""The server of the studio: images are opened, measured, denoised and shown."""

import io
import threading
import time

import numpy as np
import pytest
import tifffile
from PIL import Image
from studio_client import Page, picture, png, serving, until

import nlridge
from nlridge.apps.cli import main
from nlridge.apps.studio.limits import Limits
from nlridge.files import read


@pytest.mark.slow
def test_an_image_is_opened_measured_denoised_and_shown(page):
    pixels = picture(300, 280, 3).astype(np.uint8)
    with page.events() as events:
        image = page.open("photo.png", png(300, 280, 3))
        assert (image["width"], image["height"], image["dtype"]) == (280, 300, "uint8")
        assert (image["color"], image["channels"], image["frames"]) == (True, [], ["1 of 1"])
        assert (image["noise"], image["can_save_beside"], image["revision"]) == (None, False, 1)
        page.see(image)
        state = page.finished(image)
        until(lambda: "done" in [event["type"] for event in events])
    assert state["noise"]["kind"] == "gaussian"
    assert 13 < state["noise"]["level"] < 17
    assert "rms" in state["finished"]["removed"]
    kinds = [event["type"] for event in events if event.get("image") == image["id"]]
    assert kinds.index("noise") < kinds.index("tiles") < kinds.index("done")
    states = [event["state"] for event in events if event["type"] == "tiles"]
    assert states == ["fast", "exact"]
    denoised = nlridge.to_dtype(nlridge.denoise(pixels, channel_axis=-1), np.uint8)
    for layer, expected in (("before", pixels), ("after", denoised)):
        for row, column in np.ndindex(2, 2):
            status, tile, headers = page.tile(image, layer, column=column, row=row)
            assert status == 200
            assert headers["x-state"] == "exact"
            assert "immutable" in headers["cache-control"]
            part = expected[256 * row : 256 * (row + 1), 256 * column : 256 * (column + 1)]
            np.testing.assert_array_equal(tile, part)
    assert page.tile(image, column=2)[0] == 404
    status, removed, _ = page.tile(image, "removed")
    assert abs(removed.mean() - 127.5) < 2
    assert 25 < removed.std() < 40  # 4 standard deviations are black and white
    _, half, _ = page.tile(image, "before", level=1)
    assert half.shape == (150, 140, 3)
    blocks = pixels.reshape(150, 2, 140, 2, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(half, blocks, atol=0.51)


def test_a_page_that_listens_is_first_told_everything(page):
    image = page.open("a.png", png(16, 16))
    with page.events() as events:
        until(lambda: events)
    state = page.get("/api/state")[1]
    assert events[0].keys() == {"type", *state}
    assert events[0]["type"] == "state"
    assert image in events[0]["images"]


@pytest.mark.slow
def test_fifty_changes_leave_one_result_the_last(page):
    image = page.open("a.png", png(160, 160))
    page.see(image)
    strengths = np.linspace(0.5, 1.5, 50)
    with page.events() as events:
        revisions = [page.set(image, strength=float(value)) for value in strengths]
        assert revisions == list(range(2, 52))
        page.finished(image)
        until(lambda: "done" in [event["type"] for event in events])
        time.sleep(0.3)
    done = [event["revision"] for event in events if event["type"] == "done"]
    assert done[-1] == 51
    assert len(done) < 25  # the others were cancelled
    pixels = picture(160, 160).astype(np.uint8)
    expected = nlridge.to_dtype(nlridge.denoise(pixels, strength=1.5), np.uint8)
    np.testing.assert_array_equal(page.tile(image, revision=51)[1], expected)
    assert page.set(image, strength=1.5) == 51  # nothing has changed


def test_settings_of_noise_and_a_second_method(page):
    pixels = picture(128, 128).astype(np.uint8)
    image = page.open("a.png", png(128, 128))
    page.see(image)
    revision = page.set(image, noise={"level": 12}, method="fast", other="bm3d")
    state = page.finished(image)
    assert state["settings"]["noise"] == {"level": 12}
    assert "12" in state["noise"]["words"]
    expected = nlridge.to_dtype(nlridge.denoise(pixels, 12, method="fast"), np.uint8)
    np.testing.assert_array_equal(page.tile(image, revision=revision)[1], expected)
    until(lambda: page.tile(image, "other", revision)[2].get("x-state") == "exact")
    expected = nlridge.to_dtype(nlridge.denoise(pixels, 12, method="bm3d"), np.uint8)
    np.testing.assert_array_equal(page.tile(image, "other", revision)[1], expected)
    page.set(image, noise={"kind": "gaussian"})
    assert page.finished(image)["settings"]["noise"] == {"kind": "gaussian"}
    page.set(image, noise={"kind": "correlated"})
    until(lambda: page.state(image)["failed"])
    assert "has no correlated noise" in page.state(image)["failed"]


def test_noise_is_measured_in_a_rectangle(page):
    rng = np.random.default_rng(0)
    pixels = 100 + 0.2 * np.arange(200) + rng.normal(0, 9, (200, 200))
    pixels[:, 100:] += 40 * rng.choice([-1, 1], (200, 100))
    data = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(data, "PNG")
    image = page.open("flat.png", data.getvalue())
    page.see(image)
    page.set(image, noise={"rectangle": [10, 20, 80, 60]})
    state = page.finished(image)
    assert 8.5 < state["noise"]["level"] < 9.5
    commands = page.get(f"/api/images/{image['id']}/commands")[1]
    assert commands["shell"] == f"nlridge denoise --sigma {state['noise']['level']} flat.png"
    assert f"sigma={state['noise']['level']}" in commands["python"]


def test_frames_channels_and_the_range_of_deep_images(page):
    frames = np.stack(
        [[picture(40, 50, seed=k) * 90, picture(40, 50, seed=9) * 10] for k in range(3)]
    )
    data = io.BytesIO()
    names = {"axes": "TCYX", "Channel": {"Name": ["<b>DAPI</b>", "GFP"]}}
    tifffile.imwrite(
        data, frames.astype(np.uint16), ome=True, metadata=names, photometric="minisblack"
    )
    image = page.open("cells.ome.tif", data.getvalue())
    assert image["frames"] == ["1 of 3", "2 of 3", "3 of 3"]
    assert image["together"] == "time"
    assert image["channels"] == ["<b>DAPI</b>", "GFP"]
    page.see(image, frame=2)
    page.finished(image)
    low, high = 1000, 12000
    query = f"?frame=2&channel=1&low={low}&high={high}"
    _, tile, _ = page.tile(image, "before", query=query)
    pixels = frames.astype(np.uint16)[2, 1].astype(float)
    expected = np.clip((pixels - low) * 255 / (high - low), 0, 255)
    np.testing.assert_allclose(tile, expected, atol=0.51)
    assert page.tile(image, query=query)[2]["x-state"] == "exact"
    assert page.tile(image, "before", query="?frame=3")[0] == 404
    assert page.tile(image, "before", query="?channel=2")[0] == 404


def test_frames_of_several_axes_are_numbered_along_each(page):
    data = io.BytesIO()
    frames = np.random.default_rng(0).integers(0, 999, (2, 3, 16, 16), np.uint16)
    tifffile.imwrite(data, frames, ome=True, metadata={"axes": "TZYX"}, photometric="minisblack")
    names = page.open("cells.ome.tif", data.getvalue())["frames"]
    assert names[0] == "T 1 of 2, Z 1 of 3"
    assert names[5] == "T 2 of 2, Z 3 of 3"


@pytest.mark.slow
def test_a_large_image_is_shown_reduced_first_and_denoised_with_little_memory(tmp_path):
    pixels = picture(700, 1900).astype(np.uint8)
    data = io.BytesIO()
    np.save(data, pixels)
    with serving(tmp_path / "work", in_memory=500_000) as running:
        page = Page(running.address)
        image = page.open("large.npy", data.getvalue())
        opened = running.studio.gallery.get(image["id"])
        assert isinstance(opened.layer.pixels, np.memmap)
        assert opened.nbytes == 0
        page.set(image, method="fast")
        page.see(image, scale=0.3)
        page.finished(image)
        status, tile, _ = page.tile(image, revision=2, level=1)
        assert status == 200
        assert tile.shape == (256, 256)
        status, saved, _ = page.save(image)
        assert list((tmp_path / "work").rglob("*.npy"))
        shell = page.get(f"/api/images/{image['id']}/commands")[1]["shell"]
        assert shell == "nlridge denoise --method fast --tile 2048 large.npy"
        (tmp_path / "large.npy").write_bytes(data.getvalue())
        assert main([*shell.split()[1:-1], str(tmp_path / "large.npy"), "--quiet"]) == 0
        result = np.load(io.BytesIO(saved))
        np.testing.assert_array_equal(result, np.load(tmp_path / "large_denoised.npy"))
        status, part, _ = page.tile(image, revision=2, column=3, row=1)
        np.testing.assert_array_equal(part, result[256:512, 768:1024])
        page("DELETE", f"/api/images/{image['id']}")
        assert not list((tmp_path / "work").rglob("*.npy"))


@pytest.mark.slow
@pytest.mark.parametrize("axes", ["TYX", "ZCYX"])
def test_a_large_stack_is_denoised_together_with_little_memory(tmp_path, axes):
    stack = np.stack([(picture(40, 50, seed=k) * 90).astype(np.uint16) for k in range(6)])
    if "C" in axes:
        stack = np.stack([stack[:3], stack[3:]], axis=1)
    path = tmp_path / "stack.ome.tif"
    tifffile.imwrite(path, stack, metadata={"axes": axes}, photometric="minisblack")
    with serving(tmp_path / "work", path, in_memory=4000) as running:
        page = Page(running.address)
        (image,) = page.get("/api/state")[1]["images"]
        assert running.studio.gallery.get(image["id"]).nbytes == 0
        status, answer, _ = page.save(image, where="beside")
        assert status == 200, answer
        saved = read(tmp_path / "stack_denoised.ome.tif").layers[0]
        words = ["-o", str(tmp_path / "other.ome.tif"), "--quiet"]
        assert main(["denoise", str(path), *words]) == 0
        np.testing.assert_array_equal(
            saved.pixels, read(tmp_path / "other.ome.tif").layers[0].pixels
        )


@pytest.mark.slow
def test_a_view_of_a_part_is_exact_before_the_whole_is_done(tmp_path):
    pixels = picture(1100, 1200).astype(np.uint8)
    data = io.BytesIO()
    np.save(data, pixels)
    with serving(tmp_path / "work") as running:
        page = Page(running.address)
        with page.events() as events:
            image = page.open("large.npy", data.getvalue())
            page.set(image, noise={"level": 15})
            page.see(image, x=300, y=400, width=200, height=100)

            def exact():
                kinds = ("tiles", "done")
                return [e for e in events if e["type"] in kinds and e.get("state") != "fast"]

            until(exact)
        first = exact()[0]
        assert first["type"] == "tiles"
        assert first["rectangle"] == [256, 256, 256, 256]
        part = page.tile(image, revision=2, column=1, row=1)[1]
        region = (slice(256, 512), slice(256, 512))
        expected = nlridge.to_dtype(nlridge.prepare(pixels, 15).denoise(region), np.uint8)
        np.testing.assert_array_equal(part, expected)


@pytest.mark.slow
def test_the_gain_follows(page):
    image = page.open("a.png", png(200, 200))
    page.see(image)
    page.finished(image)
    until(lambda: page.state(image)["finished"]["gain"])
    gain = page.state(image)["finished"]["gain"]
    pixels = picture(200, 200).astype(np.uint8)
    quality = nlridge.estimate_quality(pixels)
    assert gain.startswith(f"{quality.gain:+.1f} ±")


def test_what_was_known_is_said_again_after_a_return_to_earlier_settings(page):
    image = page.open("a.png", png(100, 100))
    page.see(image)
    page.finished(image)
    until(lambda: page.state(image)["finished"]["gain"])
    first = page.state(image)
    page.set(image, noise={"level": 40}, method="fast")
    page.finished(image)
    until(lambda: page.state(image)["finished"]["gain"])
    path = f"/api/images/{image['id']}/settings"
    assert page("PUT", path, {})[1] == {"revision": 3, "noise": first["noise"]}
    page.finished(image)
    until(lambda: page.state(image)["finished"]["gain"])
    assert page.state(image)["finished"]["gain"] == first["finished"]["gain"]


def _looked_at(tmp_path, *shape):
    """A black image, and a gallery that holds it."""
    from nlridge.apps.studio.gallery import Gallery
    from nlridge.apps.studio.images import Opened
    from nlridge.files import Layer, Picture

    picture = Picture("png", [Layer(np.zeros(shape, np.uint8), "YXC")])
    image = Opened("a.png", picture, tmp_path / "a.png", tmp_path)
    gallery = Gallery(Limits(), lambda image: None)
    gallery.add(image)
    return image, gallery


def test_first_impressions_come_first_from_coarse_to_fine_or_from_the_middle_on(tmp_path):
    from nlridge.apps.studio.messages import View
    from nlridge.apps.studio.parts import glance
    from nlridge.apps.studio.tasks import is_wanted, tasks

    image, gallery = _looked_at(tmp_path, 3000, 4000, 3)
    assert list(tasks(image)) == []  # nobody looks at it
    image.want(view=View(0, (0, 0, 4000, 3000), 1))
    todo = list(tasks(image))
    assert [task.stage for task in todo] == ["preview", "glance", "preview", "preview", "noise"]
    assert [task.level for task in todo if task.stage == "preview"] == [3, 2, 1]
    assert {task.rectangle for task in todo if task.stage == "preview"} == {(0, 0, 4000, 3000)}
    assert {task.method for task in todo if task.stage == "preview"} == {"preview"}
    assert all(is_wanted(task, gallery) for task in todo)
    image.want(view=View(0, (1000, 1000, 1000, 700), 0))
    assert [is_wanted(task, gallery) for task in todo] == [False, True, False, False, True]
    image.glances[0, 0, "auto"] = glance(image.planes(0), "auto")
    todo = list(tasks(image))
    assert [task.stage for task in todo] == ["quick", "quick", "noise"]
    assert [task.method for task in todo[:2]] == ["preview"] * 2
    assert todo[0].rectangle == (1280, 1024, 512, 512)
    assert todo[1].rectangle == (768, 768, 1280, 1024)


def test_work_on_an_image_ends_when_the_page_turns_to_another_unless_it_is_saved(tmp_path):
    from nlridge.apps.studio.errors import Cancelled
    from nlridge.apps.studio.events import Events
    from nlridge.apps.studio.messages import View
    from nlridge.apps.studio.tasks import tasks
    from nlridge.apps.studio.work import Worker

    (image, gallery), (other, _) = (_looked_at(tmp_path, 3000, 4000, 3) for _ in range(2))
    gallery.add(other)
    worker = Worker(gallery, Events(Limits()), Limits())
    view = View(0, (0, 0, 4000, 3000), 1)
    image.want(view=view)
    task = next(tasks(image))
    worker._check(task)
    other.want(view=view)
    with pytest.raises(Cancelled):
        worker._check(task)
    image.want(saving=time.monotonic())
    other.want(view=view)
    worker._check(task)


def test_saving_ends_even_if_other_images_are_always_newer(tmp_path, monkeypatch):
    """With ten pages, saving took more than two minutes: whatever they did last came first."""
    from nlridge.apps.studio import work
    from nlridge.apps.studio.events import Events
    from nlridge.apps.studio.messages import View

    monkeypatch.setattr(work, "_PATIENCE", 0.0)
    image, gallery = _looked_at(tmp_path, 64, 64, 1)
    worker = work.Worker(gallery, Events(Limits()), Limits())
    worker._cold.clear()
    image.want(saving=time.monotonic())

    def newer():
        other, _ = _looked_at(tmp_path, 32, 32, 1)
        gallery.add(other)
        other.want(view=View(0, (0, 0, 32, 32), 0))

    for step in (worker._measure_next, worker._step, worker._step):
        newer()
        worker._measure_next()  # also that of the newer one
        newer()
        step()
    assert image.wanted.revision in image.finished


def test_newer_images_interrupt_one_at_a_time(tmp_path):
    """What they interrupt advances in between."""
    from nlridge.apps.studio.events import Events
    from nlridge.apps.studio.messages import Settings, View
    from nlridge.apps.studio.parts import measure
    from nlridge.apps.studio.work import Worker

    image, gallery = _looked_at(tmp_path, 32, 32, 1)
    worker = Worker(gallery, Events(Limits()), Limits())
    known = measure(image.planes(0), "auto", sampled=False)
    done = []

    def look():
        other, _ = _looked_at(tmp_path, 32, 32, 1)
        other.measured[0, "auto"] = known
        gallery.add(other)
        other.want(view=View(0, (0, 0, 32, 32), 0), settings=Settings("preview"))
        worker.changed()

    def do(task):
        done.append(task.stage)
        task.image.failed[task.wanted.revision] = "done"
        if len(done) < 9:
            look()

    worker._do = do
    look()
    worker._interrupt()
    assert done == ["visible"]
    worker._interrupt()
    assert done == ["visible"] * 2


@pytest.mark.slow
def test_a_first_impression_does_not_wait_for_work_that_cannot_be_interrupted(
    tmp_path, monkeypatch
):
    from nlridge.apps.studio.stages import Stages

    begun, ended = threading.Event(), threading.Event()

    def never_interrupted(self, task, progress):
        begun.set()
        assert ended.wait(60)

    monkeypatch.setattr(Stages, "whole", never_interrupted)
    with serving(tmp_path / "work") as running:
        page = Page(running.address)
        image = page.open("a.png", png(1500, 2000))
        page.set(image, noise={"level": 15})
        page.see(image, scale=0.25)
        try:
            assert begun.wait(60)
            revision = page.set(image, noise={"level": 15}, strength=1.5)
            until(lambda: page.tile(image, revision=revision, level=2)[0] == 200)
            until(lambda: page.tile(image, revision=revision, level=2)[2]["x-state"] == "fast")
            assert not ended.is_set()
        finally:
            ended.set()


def test_a_coarse_impression_is_enlarged_without_seams(tmp_path):
    from nlridge.apps.studio.images import IMPRESSION, Preview, result_key
    from nlridge.apps.studio.tiles import tile

    image, _ = _looked_at(tmp_path, 2048, 4096, 3)
    y, x = np.mgrid[:128, :256].astype(np.float32)
    ramps = np.stack([x / 2, y, x / 4 + y / 4])  # what is between the pixels of a ramp is known
    settings = image.wanted.settings
    image.preview = Preview(result_key(settings, IMPRESSION, True), 0, 4, (0, 0, 4096, 2048), ramps)

    def shown(column, row):
        data, state = tile(image, "after", 1, 2, column, row, 0, None, (0.0, 255.0))
        assert state == "coarse"
        with Image.open(io.BytesIO(data)) as opened:
            return np.asarray(opened, float)

    both = np.concatenate([shown(1, 1), shown(2, 1)], axis=1)
    y, x = np.mgrid[256:512, 256:768]
    x, y = (x + 0.5) / 4 - 0.5, (y + 0.5) / 4 - 0.5
    expected = np.stack([x / 2, y, x / 4 + y / 4], axis=-1)
    assert np.abs(both - expected)[:-2].max() <= 0.51  # rounded; below the last row there is none


def test_pages_are_told_while_kernels_are_compiled(tmp_path):
    from nlridge.core.kernels import compile

    with serving(tmp_path / "work") as running:
        page = Page(running.address)
        with page.events() as events:
            until(lambda: running.studio.events._clients)
            with running.studio.worker._saying_when_compiling():
                assert page.get("/api/state")[1]["compiling"] is False
                compile._announcers[-1]("compiling")  # as for a kernel that is not on the disk
                assert page.get("/api/state")[1]["compiling"] is True
            assert page.get("/api/state")[1]["compiling"] is False
            until(lambda: len([event for event in events if event["type"] == "compiling"]) == 2)
        said = [event["compiling"] for event in events if event["type"] == "compiling"]
        assert said == [True, False]

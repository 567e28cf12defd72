"""The server of the studio: what it does, and attempts to break it, over real sockets."""

import http.client
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
import tifffile
from PIL import Image

import nlridge
from nlridge.cli import main
from nlridge.files import read
from nlridge.studio.limits import Limits

pytest.importorskip("starlette", reason="starlette is not installed: the studio needs it")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: the studio needs it")


def picture(*shape, seed=0, level=15.0):
    """A noisy image of (height, width) or (height, width, channels), from 0 to 255."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    clean = 120 + 60 * np.sin(x / 9) * np.cos(y / 7)
    clean = clean if len(shape) == 2 else clean[..., None]
    return np.clip(clean + np.random.default_rng(seed).normal(0, level, shape), 0, 255)


def png(*shape, **options):
    data = io.BytesIO()
    Image.fromarray(picture(*shape, **options).astype(np.uint8)).save(data, "PNG")
    return data.getvalue()


class Page:
    """Sends requests as the page would, unless told otherwise."""

    def __init__(self, address):
        parts = urlsplit(address)
        self.host, self.query = parts.netloc, parts.query
        status, _, headers = self.get(f"/?{self.query}", Cookie=None)
        assert status == 303
        assert headers["location"] == "/"
        self.set_cookie = headers["set-cookie"]
        self.cookie = self.set_cookie.split(";")[0]

    def __call__(self, method, path, body=None, **headers):
        """Return the status, the content (parsed if it is JSON) and the headers. A header of None is left out."""
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
        own = {"Cookie": getattr(self, "cookie", None)}
        if method not in ("GET", "HEAD"):
            own |= {"Origin": f"http://{self.host}", "X-Nlridge": "1"}
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in {**own, **names}.items() if value is not None}
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        received = {name.lower(): value for name, value in answer.getheaders()}
        if received.get("content-type", "").startswith("application/json") and data:
            data = json.loads(data)
        return answer.status, data, received

    def get(self, path, **headers):
        return self("GET", path, **headers)

    def open(self, name, data):
        status, image, _ = self("POST", f"/api/images?name={quote(name)}", data)
        assert status == 200, image
        return image

    def see(self, image, frame=0, **view):
        whole = {"x": 0, "y": 0, "width": image["width"], "height": image["height"], "scale": 1}
        message = {"frame": frame, **whole, **view}
        status, answer, _ = self("PUT", f"/api/images/{image['id']}/view", message)
        assert status == 200, answer

    def set(self, image, **settings):
        status, answer, _ = self("PUT", f"/api/images/{image['id']}/settings", settings)
        assert status == 200, answer
        return answer["revision"]

    def state(self, image):
        images = self.get("/api/state")[1]["images"]
        return next((one for one in images if one["id"] == image["id"]), None)

    def finished(self, image):
        """Wait until the whole result is done."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            state = self.state(image)
            assert state["failed"] is None
            if state["finished"]:
                return state
            time.sleep(0.02)
        raise TimeoutError

    def tile(self, image, layer="after", revision=1, level=0, column=0, row=0, query=""):
        path = f"/api/images/{image['id']}/tile/{layer}/{revision}/{level}/{column}/{row}{query}"
        status, data, headers = self.get(path)
        if status != 200:
            return status, data, headers
        with Image.open(io.BytesIO(data)) as opened:
            pixels = np.asarray(opened)  # WebP has no gray
        return status, pixels if image["colour"] else pixels[..., 0], headers

    def save(self, image, **message):
        return self("POST", f"/api/images/{image['id']}/save", {"where": "download", **message})

    @contextmanager
    def events(self):
        """A list to which events are added as they arrive."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request("GET", "/api/events", headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        assert answer.status == 200
        received = []

        def listen():
            try:
                while line := answer.readline():
                    if line.startswith(b"data: "):
                        received.append(json.loads(line[6:]))
            except (OSError, ValueError, AttributeError):
                pass

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield received
        finally:
            connection.sock and connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
            thread.join(5)


@contextmanager
def serving(folder, given=None, **limits):
    """A studio in this process."""
    from nlridge.studio.server import Running, listening

    folder.mkdir(exist_ok=True)
    with listening("127.0.0.1", None) as listener:
        running = Running(listener, folder, given, Limits(**limits))
        thread = threading.Thread(target=running.run, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            running.stop()
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("studio")) as running:
        yield Page(running.address)


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def raw(host, data, wait=5.0):
    """Send bytes to the server, and return all that comes back."""
    name, _, port = host.partition(":")
    with socket.create_connection((name, int(port)), timeout=wait) as connection:
        received = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                received += part
        except (TimeoutError, ConnectionResetError):
            pass
    return received


# What it does.


def test_an_image_is_opened_measured_denoised_and_shown(page):
    pixels = picture(300, 280, 3).astype(np.uint8)
    with page.events() as events:
        image = page.open("photo.png", png(300, 280, 3))
        assert (image["width"], image["height"], image["dtype"]) == (280, 300, "uint8")
        assert (image["colour"], image["channels"], image["frames"]) == (True, [], ["1 of 1"])
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


def test_the_commands_do_the_same(page, tmp_path, monkeypatch):
    data = png(96, 80, 3)
    image = page.open("it's a photo.png", data)
    page.set(image, strength=1.25, method="fast")
    _, saved, _ = page.save(image)
    commands = page.get(f"/api/images/{image['id']}/commands")[1]
    (tmp_path / "it's a photo.png").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    exec(commands["python"])
    with Image.open("it's a photo_denoised.png") as opened, Image.open(io.BytesIO(saved)) as own:
        np.testing.assert_array_equal(np.asarray(opened), np.asarray(own))
    os.remove("it's a photo_denoised.png")
    words = __import__("shlex").split(commands["shell"])
    assert words[0] == "nlridge"
    assert main([*words[1:], "--quiet"]) == 0
    with Image.open("it's a photo_denoised.png") as opened, Image.open(io.BytesIO(saved)) as own:
        np.testing.assert_array_equal(np.asarray(opened), np.asarray(own))


def _write_files(folder):
    """One file of each kind whose result is compared with that of the command line."""
    deep = (picture(90, 110) * 200).astype(np.uint16)
    files = {
        "gray.png": lambda path: Image.fromarray(picture(90, 110).astype(np.uint8)).save(path),
        "deep.png": lambda path: Image.fromarray(deep).save(path),
        "colour.png": lambda path: Image.fromarray(picture(90, 110, 3).astype(np.uint8)).save(path),
        "photo.jpg": lambda path: _jpeg(path),
        "deep.tif": lambda path: tifffile.imwrite(path, deep, description="kept"),
        "float.tif": lambda path: tifffile.imwrite(path, _with_gap(picture(90, 110))),
        "stack.tif": lambda path: tifffile.imwrite(
            path,
            np.stack([(picture(40, 50, seed=k) * 90).astype(np.uint16) for k in range(3)]),
            photometric="minisblack",
        ),
        "video.ome.tif": lambda path: tifffile.imwrite(
            path,
            np.stack([(picture(40, 50, seed=k) * 90).astype(np.uint16) for k in range(4)]),
            metadata={"axes": "TYX"},
        ),
        "array.npy": lambda path: np.save(path, picture(50, 60)),
    }
    for name, write in files.items():
        write(folder / name)
    return list(files)


def _jpeg(path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    exif[0x010E] = "kept"
    pixels = picture(90, 110, 3).astype(np.uint8)
    Image.fromarray(pixels).save(path, quality=95, exif=exif)


def _with_gap(pixels):
    pixels = pixels.astype(np.float32)
    pixels[20:30, 40:45] = np.nan
    return pixels


def test_saved_files_are_those_of_the_command_line(page, tmp_path):
    for name in _write_files(tmp_path):
        image = page.open(name, (tmp_path / name).read_bytes())
        page.set(image, strength=1.1)
        status, data, headers = page.save(image)
        assert status == 200, data
        stem, _, suffix = name.partition(".")
        assert headers["content-disposition"] == f'attachment; filename="{stem}_denoised.{suffix}"'
        assert main(["denoise", str(tmp_path / name), "--strength", "1.1", "--quiet"]) == 0
        target = tmp_path / f"{stem}_denoised.{suffix}"
        own = tmp_path / f"own.{suffix}"
        own.write_bytes(data)
        expected, actual = read(target), read(own)
        for one, other in zip(expected.layers, actual.layers, strict=True):
            np.testing.assert_array_equal(one.pixels, other.pixels)
            assert (one.axes, one.pixels.dtype) == (other.axes, other.pixels.dtype)
        for kept in ("exif", "profile", "turn", "channels"):
            assert getattr(expected, kept) == getattr(actual, kept)
        if suffix in ("png", "jpg", "npy"):  # TIFF files have dates
            assert target.read_bytes() == data


def test_pixels_on_the_screen_are_those_that_are_saved_in_any_orientation(page, tmp_path):
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turn
        data = io.BytesIO()
        Image.fromarray(picture(280, 330).astype(np.uint8)).save(data, "PNG", exif=exif)
        image = page.open("turned.png", data.getvalue())
        assert (image["width"], image["height"]) == ((330, 280) if turn < 5 else (280, 330))
        page.set(image, method="fast", noise={"level": 15})
        page.see(image, x=200, y=190, width=60, height=60)
        until(lambda: page.tile(image, revision=2)[2].get("x-state") == "exact")  # noqa: B023
        (tmp_path / "own.png").write_bytes(page.save(image)[1])
        from PIL import ImageOps

        with Image.open(tmp_path / "own.png") as saved:
            upright = np.asarray(ImageOps.exif_transpose(saved))
        shown = [
            np.concatenate([page.tile(image, revision=2, column=k, row=row)[1] for k in (0, 1)], 1)
            for row in (0, 1)
        ]
        np.testing.assert_array_equal(np.concatenate(shown), upright)


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
        expected = nlridge.to_dtype(nlridge.denoise(pixels, 15, region=region), np.uint8)
        np.testing.assert_array_equal(part, expected)


def test_the_rest_of_a_folder(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("a.png", "b.png", "c.png"):
        (folder / name).write_bytes(png(48, 48))
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
    (folder / "b_denoised.png").write_bytes(b"done before")
    with serving(tmp_path / "work", folder) as running:
        page = Page(running.address)
        files = page.get("/api/state")[1]["folder"]["files"]
        states = {file["name"]: file["state"] for file in files}
        assert states == {"a.png": "waiting", "b.png": "done", "broken.png": "waiting", "c.png": "waiting"}  # fmt: skip
        status, image, _ = page("POST", f"/api/files/{files[0]['id']}/open")
        assert status == 200
        assert image["can_save_beside"]
        assert page("POST", f"/api/files/{files[0]['id']}/open")[1]["id"] == image["id"]
        status, error, _ = page("POST", f"/api/files/{files[2]['id']}/open")
        assert status == 422
        assert "broken.png" in error["error"] or "damaged" in error["error"]
        assert page.save(image, where="beside")[1] == {"name": "a_denoised.png"}
        assert page.save(image, where="beside")[0] == 409
        page.set(image, method="fast")
        assert page.save(image, where="beside", overwrite=True)[0] == 200
        with page.events() as events:
            settings = {"settings": {"method": "fast"}}
            assert page("POST", "/api/folder/run", settings)[0] == 200
            until(lambda: not page.get("/api/state")[1]["folder"]["running"])
        files = page.get("/api/state")[1]["folder"]["files"]
        states = {file["name"]: file["state"] for file in files}
        assert states == {"a.png": "skipped", "b.png": "skipped", "broken.png": "failed", "c.png": "done"}  # fmt: skip
        (error,) = [file["error"] for file in files if "error" in file]
        assert str(tmp_path) not in error
        assert any(event["type"] == "folder" for event in events)
        assert (folder / "b_denoised.png").read_bytes() == b"done before"
        assert main(["denoise", str(folder / "c.png"), "--method", "fast", "-o", str(tmp_path / "c.png"), "--quiet"]) == 0  # fmt: skip
        assert (tmp_path / "c.png").read_bytes() == (folder / "c_denoised.png").read_bytes()


def test_a_run_over_a_folder_is_stopped_and_resumed(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for k in range(6):
        (folder / f"{k}.png").write_bytes(png(256, 256, seed=k))

    def states():
        return [file["state"] for file in page.get("/api/state")[1]["folder"]["files"]]

    with serving(tmp_path / "work", folder) as running:
        page = Page(running.address)
        settings = {"settings": {"method": "standard", "noise": {"level": 15}}}
        assert page("POST", "/api/folder/run", settings)[0] == 200
        until(lambda: "done" in states())
        page("POST", "/api/folder/stop")
        until(lambda: "running" not in states())
        done = states().count("done")
        assert done < 6
        assert len(list(folder.glob("*_denoised.png"))) == done
        assert len(list(folder.iterdir())) == 6 + done  # nothing unfinished
        page("POST", "/api/folder/run", settings)
        until(lambda: len(list(folder.glob("*_denoised.png"))) == 6)


def test_a_file_named_on_the_command_line_is_opened(tmp_path):
    (tmp_path / "a.png").write_bytes(png(40, 40))
    with serving(tmp_path / "work", tmp_path / "a.png") as running:
        page = Page(running.address)
        (image,) = page.get("/api/state")[1]["images"]
        assert (image["name"], image["can_save_beside"]) == ("a.png", True)
        assert page.save(image, where="beside")[1] == {"name": "a_denoised.png"}
        assert main(["denoise", str(tmp_path / "a.png"), "-o", str(tmp_path / "b.png"), "--quiet"]) == 0  # fmt: skip
        assert (tmp_path / "a_denoised.png").read_bytes() == (tmp_path / "b.png").read_bytes()


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


def test_a_first_impression_comes_first_and_its_middle_before_the_rest(tmp_path):
    from nlridge.files import Layer, Picture
    from nlridge.studio.gallery import Gallery
    from nlridge.studio.images import Opened
    from nlridge.studio.messages import View
    from nlridge.studio.tasks import is_wanted, tasks

    pixels = np.zeros((3000, 4000, 3), np.uint8)
    picture = Picture("png", [Layer(pixels, "YXC")])
    image = Opened("a.png", picture, tmp_path / "a.png", tmp_path)
    gallery = Gallery(Limits(), lambda image: None)
    gallery.add(image)
    assert list(tasks(image)) == []  # nobody looks at it
    image.want(view=View(0, (0, 0, 4000, 3000), 2))
    todo = list(tasks(image))
    assert [task.stage for task in todo] == ["preview", "preview", "glance", "noise"]
    assert todo[0].rectangle == (1024, 0, 2048, 2048)
    assert todo[1].rectangle == (0, 0, 4000, 3000)
    assert all(is_wanted(task, gallery) for task in todo)
    image.want(view=View(0, (1000, 1000, 1000, 700), 0))
    assert [is_wanted(task, gallery) for task in todo] == [False, False, True, True]


def test_raw_files_are_developed_for_the_screen_and_saved_as_by_the_command_line(page, tmp_path):
    pytest.importorskip("rawpy")
    from test_raw import mosaic_of, scene, with_noise, write_raw

    noisy = with_noise(mosaic_of(scene(128, 160)))
    write_raw(tmp_path / "a.dng", noisy)
    tags = [(33421, 3, 2, (2, 2), False), (33422, 1, 4, bytes([0, 1, 1, 2]), False)]
    tifffile.imwrite(tmp_path / "b.tif", noisy, photometric="cfa", extratags=tags, metadata=None)
    for name, size, kind in (("a.dng", (128, 160), "uint8"), ("b.tif", (160, 128), "uint16")):
        image = page.open(name, (tmp_path / name).read_bytes())
        assert (image["width"], image["height"], image["dtype"]) == (*size, kind)  # DNG is turned
        page.see(image)
        revision = page.set(image, strength=1.2, noise={"rectangle": [8, 16, 64, 48]})
        state = page.finished(image)
        assert "rms" in state["finished"]["removed"]
        _, data, _ = page.save(image)
        stem, _, suffix = name.partition(".")
        commands = page.get(f"/api/images/{image['id']}/commands")[1]
        words = __import__("shlex").split(commands["shell"])
        assert (words[:3], commands["python"]) == (["nlridge", "denoise", "--sigma"], "")
        assert main([*words[1:-1], "--quiet", str(tmp_path / name)]) == 0
        target = tmp_path / f"{stem}_denoised.{suffix}"
        assert target.read_bytes() == data
        ends = "" if kind == "uint8" else "?low=0&high=16383"
        shown = page.tile(image, revision=revision, query=ends)[1]
        again = page.open(target.name, data)  # what was saved looks like what was shown
        np.testing.assert_array_equal(page.tile(again, "before", query=ends)[1], shown)


def test_frames_of_a_video_are_shown_alone_until_it_is_saved(page, tmp_path):
    pytest.importorskip("av", reason="PyAV is not installed")
    from test_video_files import make_clip

    from nlridge.files.video import open_clip
    from nlridge.files.video.pixels import as_shown

    make_clip(tmp_path / "clip.mkv", codec="ffv1", size=(64, 48))
    image = page.open("clip.mkv", (tmp_path / "clip.mkv").read_bytes())
    assert (image["width"], image["height"], image["together"]) == (64, 48, "time")
    assert len(image["frames"]) == 8
    page.set(image, method="fast", noise={"level": 20})
    with open_clip(tmp_path / "clip.mkv") as clip:
        frames = [as_shown(frame) for frame in clip.frames()]
    for number in (5, 0, 7):
        page.see(image, frame=number)
        query = f"?frame={number}"
        np.testing.assert_array_equal(page.tile(image, "before", query=query)[1], frames[number])
        until(lambda: page.tile(image, revision=2, query=query)[0] == 200)  # noqa: B023
        _, tile, headers = page.tile(image, revision=2, query=query)
        assert headers["x-state"] == "fast"
        assert 1 < np.std(tile.astype(float) - frames[number]) < 60
    commands = page.get(f"/api/images/{image['id']}/commands")[1]
    assert commands["shell"] == "nlridge denoise --sigma 20.0 --method fast clip.mkv"
    status, saved, headers = page.save(image)
    assert status == 200
    assert headers["content-disposition"] == 'attachment; filename="clip_denoised.mkv"'
    (tmp_path / "own.mkv").write_bytes(saved)
    words = [*commands["shell"].split()[1:-1], str(tmp_path / "clip.mkv"), "--quiet"]
    assert main(words) == 0
    decoded = []
    for name in ("own.mkv", "clip_denoised.mkv"):
        with open_clip(tmp_path / name) as clip:
            decoded.append([as_shown(frame) for frame in clip.frames()])
    np.testing.assert_array_equal(*decoded)
    _, tile, headers = page.tile(image, revision=2, query="?frame=7")
    assert headers["x-state"] == "exact"
    np.testing.assert_array_equal(tile, decoded[0][7])


# Attempts to break it: who may talk to it.


def test_only_the_right_names_of_the_host_are_answered(page):
    port = page.host.partition(":")[2]
    wrong = [
        "evil.example", f"evil.example:{port}", "127.0.0.1", "localhost", "127.0.0.1:1", f"127.0.0.1.nip.io:{port}",
        f"localhost.:{port}", f"127.1:{port}", f"0.0.0.0:{port}", f"[::1]:{port}", f"127.0.0.1:{port}@evil.example",
        f"evil.example@127.0.0.1:{port}", f"127.0.0.1:0{port}", f" 127.0.0.1:{port}.", "", f"LOCALHOST:{port}x",
    ]  # fmt: skip
    for host in wrong:
        for path in ("/", "/api/state", f"/?{page.query}"):
            status, _, headers = page.get(path, Host=host)
            assert status in (400, 403), (host, path)
            assert "set-cookie" not in headers
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert page.get("/api/state", Host=host)[0] == 200


def test_a_request_without_a_host_or_with_two_is_refused(page):
    cookie = f"Cookie: {page.cookie}\r\n"
    for hosts in ("", f"Host: {page.host}\r\nHost: evil.example\r\n"):
        request = f"GET /api/state HTTP/1.1\r\n{hosts}{cookie}Connection: close\r\n\r\n"
        assert raw(page.host, request.encode()).split()[1] in (b"400", b"403")
    request = f"GET /api/state HTTP/1.0\r\n{cookie}\r\n"  # HTTP/1.0 has no Host
    assert raw(page.host, request.encode()).split()[1] in (b"400", b"403")
    absolute = f"GET http://evil.example/api/state HTTP/1.1\r\nHost: evil.example\r\n{cookie}Connection: close\r\n\r\n"
    assert raw(page.host, absolute.encode()).split()[1] in (b"400", b"403")


def test_nothing_is_answered_without_the_cookie(page):
    image = page.open("a.png", png(16, 16))
    value = page.cookie.partition("=")[2]
    wrong = [
        None, "", "x=y", f"nlridge={value}", f"{page.cookie}x", page.cookie[:-1], page.cookie.upper(),
        f"{page.cookie}; {page.cookie.partition('=')[0]}=other", page.cookie.partition("=")[0] + "=",
    ]  # fmt: skip
    for cookie in wrong:
        for path in ("/", "/static/studio.js", "/api/state", "/api/events", f"/api/images/{image['id']}/commands"):  # fmt: skip
            assert page.get(path, Cookie=cookie)[0] == 403, (cookie, path)
        assert page("POST", "/api/images?name=a.png", b"", Cookie=cookie)[0] == 403
        assert page("DELETE", f"/api/images/{image['id']}", Cookie=cookie)[0] == 403
    assert page.state(image)


def test_the_token_works_once_and_the_cookie_is_out_of_reach(tmp_path):
    with serving(tmp_path) as running:
        token = urlsplit(running.address).query
        address = running.address.partition("?")[0]
        page = Page.__new__(Page)
        page.host = urlsplit(address).netloc
        for wrong in ("token=", "token=x", f"{token}x", token[:-1], "token=%00", "token=%F0%9F%98%80", f"other={token}"):  # fmt: skip
            assert page.get(f"/?{wrong}")[0] == 403
        assert page("HEAD", f"/?{token}")[0] == 403  # does not use it up
        page = Page(running.address)
        words = [word.strip() for word in page.set_cookie.split(";")[1:]]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(words)
        assert token.partition("=")[2] not in page.set_cookie
        status, answer, headers = page.get(f"/?{token}", Cookie=None)
        assert (status, "set-cookie" in headers) == (403, False)
        assert "used before" in answer["error"]
        assert page.get(f"/?{token}")[0] == 303  # who has the cookie may reload


def test_secrets_are_compared_in_constant_time():
    import inspect

    from nlridge.studio import security

    source = inspect.getsource(security.Access)
    assert source.count("hmac.compare_digest") == 2
    assert "== self.token" not in source
    assert "== self._cookie" not in source


def test_writes_need_the_own_origin_and_the_header(page):
    image = page.open("a.png", png(16, 16))
    port = page.host.partition(":")[2]
    writes = [
        ("POST", "/api/images?name=a.png", png(8, 8)),
        ("DELETE", f"/api/images/{image['id']}", None),
        ("PUT", f"/api/images/{image['id']}/settings", {"strength": 1.5}),
        ("PUT", f"/api/images/{image['id']}/view", {}),
        ("POST", f"/api/images/{image['id']}/save", {}),
        ("POST", "/api/folder/run", {}),
        ("POST", "/api/folder/stop", {}),
        ("POST", "/api/files/x/open", {}),
        ("PATCH", "/api/state", None),
        ("OPTIONS", "/api/images", None),
    ]
    origins = [
        None, "null", "", "http://evil.example", f"https://{page.host}", "http://127.0.0.1", f"http://127.0.0.1:{int(port) - 1}",
        f"http://localhost:{port}", f"http://{page.host}.evil.example", f"http://{page.host}/",
    ]  # fmt: skip
    for method, path, body in writes:
        for origin in origins:
            assert page(method, path, body, Origin=origin)[0] == 403, (method, path, origin)
        for header in (None, "0", "", "1, 1"):
            assert page(method, path, body, X_Nlridge=header)[0] == 403, (method, path)
    state = page.state(image)
    assert (state["revision"], state["settings"]["strength"]) == (1, 1.0)
    for origin in ("http://evil.example", f"http://localhost:{port}"):
        assert page.get("/api/state", Origin=origin)[0] == 403
    for site in ("cross-site", "same-site"):  # another port of this computer is the same site
        assert page.get("/api/state", Sec_Fetch_Site=site)[0] == 403
        assert page.get("/static/studio.js", Sec_Fetch_Site=site)[0] == 403


def test_every_answer_protects_the_page(page):
    paths = ["/", "/static/studio.js", "/static/none", "/api/state", "/api/none", "/x", f"/?{page.query}"]  # fmt: skip
    answers = [page.get(path) for path in paths]
    answers += [page.get("/", Cookie=None), page.get("/", Host="evil.example"), page("POST", "/api/images")]  # fmt: skip
    for _, _, headers in answers:
        policy = headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        assert "script-src 'self'" in policy
        assert not any("unsafe" in rule or "http" in rule or "*" in rule for rule in policy)
        assert {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} <= set(policy)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control") for name in headers)
        assert "server" not in headers


def test_head_and_options(page):
    status, data, headers = page("HEAD", "/api/state")
    assert (status, data) == (200, b"")
    status, _, headers = page("OPTIONS", "/api/state")
    assert status in (403, 405)
    assert not any(name.startswith("access-control") for name in headers)
    assert page("TRACE", "/")[0] in (400, 403, 405)


def test_websockets_are_refused(page):
    request = (
        f"GET /api/events HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b"101" not in raw(page.host, request.encode(), wait=1).split(b"\r\n")[0]


# Attempts to break it: paths and names.


def test_paths_never_come_from_the_page(page):
    image = page.open("a.png", png(16, 16))
    names = [
        "..", "../server.py", "..%2fserver.py", "%2e%2e/server.py", "..%2f..%2f..%2f..%2fetc%2fpasswd", "/etc/passwd",
        "%2fetc%2fpasswd", "..\\server.py", "..%5cserver.py", "studio.html", "__init__.py", "studio.js%00.css", "", ".",
        "studio.js/", "page/studio.js", "....//server.py", "%252e%252e%252fserver.py", "notebook.html", "C:%5cboot.ini",
    ]  # fmt: skip
    for name in names:
        status, data, _ = page.get(f"/static/{name}")
        assert status == 404, name
        assert b"import" not in json.dumps(data).encode()
    for name in (*names, image["id"][:-1], image["id"] + "x", "0", "-1", "%"):
        if name in ("..", ".", ""):
            continue
        for method, rest in (
            ("GET", "/commands"),
            ("DELETE", ""),
            ("PUT", "/view"),
            ("POST", "/save"),
        ):
            assert page(method, f"/api/images/{name}{rest}", {})[0] in (404, 405), name
        assert page("POST", f"/api/files/{name}/open", {})[0] == 404
    for path in ("/static/", "/static", "/api", "/api/", "/api/images", "/page/", "/..", "/static/../app.py"):  # fmt: skip
        assert page.get(path)[0] in (404, 405, 307), path  # no listing
    assert page.state(image)


def test_numbers_in_addresses_are_bounded(page):
    image = page.open("a.png", png(16, 16))
    for wrong in ("-1", "x", "1e3", "99999999999999999999", "0x1", "٣", "1.0", "%20"):
        for places in range(4):
            words = ["0", "0", "0", "0"]
            words[places] = quote(wrong)
            path = f"/api/images/{image['id']}/tile/before/{'/'.join(words)}"
            assert page.get(path)[0] == 404, path
        assert page.tile(image, "before", query=f"?frame={quote(wrong)}")[0] == 404
        assert page.tile(image, "before", query=f"?channel={quote(wrong)}")[0] == 404
    for query in ("?low=nan", "?high=inf", "?low=x", "?low=5&high=5", "?low=9&high=1", "?low=1e999"):  # fmt: skip
        status, answer, _ = page.tile(image, "before", query=query)
        assert status == 400
        assert "expected" in answer["error"]
    assert page.tile(image, "before", level=30)[1].shape == (1, 1)
    assert page.tile(image, "before", level=999999999)[1].shape == (1, 1)
    assert page.tile(image, "none")[0] == 404
    assert page.tile(image, "after", revision=7)[0] == 404
    assert page.tile(image, "other")[0] == 204  # not yet


def test_links_and_pipes_of_a_folder_lead_nowhere(tmp_path):
    folder, outside = tmp_path / "images", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.png").write_bytes(png(16, 16))
    (folder / "own.png").write_bytes(png(16, 16))
    (folder / "link.png").symlink_to(outside / "secret.png")
    (folder / "relative.png").symlink_to("../outside/secret.png")
    (folder / "inside.png").symlink_to("own.png")
    (folder / "linked").symlink_to(outside)
    (folder / "folder.png").mkdir()
    (folder / ".hidden.png").write_bytes(png(16, 16))
    os.mkfifo(folder / "pipe.png")
    (folder / "dangling.png").symlink_to("nowhere.png")
    (folder / "loop.png").symlink_to("loop.png")
    with serving(tmp_path / "work", folder) as running:
        page = Page(running.address)
        files = page.get("/api/state")[1]["folder"]["files"]
        assert [file["name"] for file in files] == ["inside.png", "own.png"]
        own = files[1]["id"]
        (folder / "own.png").unlink()
        (folder / "own.png").symlink_to(outside / "secret.png")  # exchanged while the studio runs
        assert page("POST", f"/api/files/{own}/open")[0] == 404
        (folder / "own.png").unlink()
        os.mkfifo(folder / "own.png")
        assert page("POST", f"/api/files/{own}/open")[0] in (404, 422)
        page("POST", "/api/folder/run", {"settings": {"method": "fast"}})
        until(lambda: not page.get("/api/state")[1]["folder"]["running"])
        assert not list(outside.glob("*_denoised*"))


def test_results_are_not_written_through_links(tmp_path):
    folder, outside = tmp_path / "images", tmp_path / "outside.png"
    folder.mkdir()
    (folder / "own.png").write_bytes(png(16, 16))
    outside.write_bytes(b"precious")
    (folder / "own_denoised.png").symlink_to(outside)
    with serving(tmp_path / "work", folder) as running:
        page = Page(running.address)
        (file,) = page.get("/api/state")[1]["folder"]["files"]
        image = page("POST", f"/api/files/{file['id']}/open")[1]
        assert page.save(image, where="beside")[0] == 400
        assert page.save(image, where="beside", overwrite=True)[0] == 400
        assert outside.read_bytes() == b"precious"
        outside.unlink()  # the link dangles now
        page("POST", "/api/folder/run", {"settings": {"method": "fast"}})
        until(lambda: not page.get("/api/state")[1]["folder"]["running"])
        assert "is a link" in page.get("/api/state")[1]["folder"]["files"][0]["error"]
        assert not outside.exists()


def test_names_are_text(page):
    names = {
        "../../etc/cron.d/x.png": "x.png",
        "..\\..\\boot.png": "boot.png",
        "<img src=x onerror=alert(1)>.png": "_img src=x onerror=alert(1)_.png",
        'a"b\r\nSet-Cookie: x=y.png': "a_b__Set-Cookie_ x=y.png",
        "\x00\x1b[31m\u202e.png": "__[31m_.png",
        ".hidden.png": "hidden.png",
        "x" * 500 + ".png": "x" * 200 + ".png",
        "é–😀.png": "é–😀.png",
        ".png": None,
    }
    for name, expected in names.items():
        status, image, _ = page("POST", f"/api/images?name={quote(name)}", png(8, 8))
        if expected is None:
            assert status in (200, 400)
            continue
        assert status == 200, image
        assert image["name"] == expected
        status, _, headers = page.save(image)
        assert status == 200
        assert "set-cookie" not in headers
        assert "\n" not in headers["content-disposition"]
        assert headers["content-disposition"].startswith("attachment; filename")
    for name in ("", ".", "..", "/", "a", "a.exe", "a.png/", "a.png.html", "a.svg", "%00"):
        status, answer, _ = page("POST", f"/api/images?name={quote(name)}", png(8, 8))
        assert status == 400, name
        assert "expected" in answer["error"]


# Attempts to break it: sizes, times and content.


def test_uploads_are_bounded_while_they_stream(tmp_path):
    with serving(tmp_path / "work", largest_upload=50_000, seconds_idle=0.5, uploads=2) as running:
        page = Page(running.address)
        assert page.get("/api/state")[1]["largest_upload"] == 50_000
        head = (
            f"POST /api/images?name=a.png HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\n"
            f"Origin: http://{page.host}\r\nX-Nlridge: 1\r\nConnection: close\r\n"
        ).encode()
        declared = raw(page.host, head + b"Content-Length: 99999999999\r\n\r\nxyz")
        assert declared.split()[1] == b"413"
        chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
        streamed = raw(page.host, head + b"Transfer-Encoding: chunked\r\n\r\n" + 13 * chunk)
        assert streamed.split()[1] == b"413"
        for wrong in (b"-5", b"abc", b"1e9", b"5, 6"):
            assert raw(page.host, head + b"Content-Length: " + wrong + b"\r\n\r\nx").split()[1] == b"400"  # fmt: skip
        paused = raw(page.host, head + b"Content-Length: 1000\r\n\r\nxyz")
        assert paused.split()[1] == b"408"
        cut = raw(page.host, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", wait=1)
        assert b"200" not in cut.split(b"\r\n")[0]
        name, _, port = page.host.partition(":")
        with socket.create_connection((name, int(port))) as connection:
            connection.sendall(head + b"Content-Length: 1000\r\n\r\nxyz")  # and goes away
        until(lambda: running.studio.uploads == 0, 5)
        assert not list((tmp_path / "work").iterdir())
        slow = []
        try:
            for _ in range(2):
                slow.append(socket.create_connection((name, int(port))))
                slow[-1].sendall(head + b"Content-Length: 1000\r\n\r\nxyz")
            until(lambda: running.studio.uploads == 2, 5)
            assert page("POST", "/api/images?name=a.png", png(8, 8))[0] == 503
        finally:
            for connection in slow:
                connection.close()
        until(lambda: running.studio.uploads == 0, 5)
        assert page("POST", "/api/images?name=a.png", png(8, 8))[0] == 200


def test_damaged_files_and_bombs_leave_the_server_alive(page, tmp_path):
    good = png(32, 32)
    bomb = io.BytesIO()
    Image.new("L", (20000, 20000)).save(bomb, "PNG")
    header = np.lib.format
    claims = io.BytesIO()
    header.write_array_header_1_0(claims, {"descr": "<f8", "fortran_order": False, "shape": (2**20, 2**20)})  # fmt: skip
    pickled = io.BytesIO()
    np.save(pickled, np.array([{"a": 1}], object), allow_pickle=True)
    files = {
        "empty.png": b"",
        "cut.png": good[:200],
        "noise.png": os.urandom(5000),
        "wrong.jpg": good,
        "bomb.png": bomb.getvalue(),
        "bomb.npy": claims.getvalue() + bytes(100),
        "pickle.npy": pickled.getvalue(),
        "markup.png": b"<script>alert(1)</script>",
        "loop.tif": b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
        "text.mp4": b"#EXTM3U\nfile:///etc/passwd\n",
    }
    for name, data in files.items():
        status, answer, _ = page("POST", f"/api/images?name={name}", data)
        assert status == 422, name
        assert set(answer) == {"error"}
        assert "Traceback" not in answer["error"]
        assert "\n" not in answer["error"]
        assert "/" not in answer["error"]  # no path of this computer
    image = page.open("good.png", good)
    page.see(image)
    page.finished(image)


def test_an_image_that_fails_leaves_the_others_alone(page):
    empty = io.BytesIO()
    tifffile.imwrite(empty, np.full((20, 20), np.nan, np.float32))
    status, image, _ = page("POST", "/api/images?name=nothing.tif", empty.getvalue())
    assert status == 200
    page.see(image)
    until(lambda: page.state(image)["failed"])
    assert "no valid pixels" in page.state(image)["failed"]
    status, answer, _ = page.save(image)
    assert status == 400
    assert "no valid pixels" in answer["error"]
    other = page.open("good.png", png(32, 32))
    page.see(other)
    page.finished(other)


def test_messages_are_checked(page):
    image = page.open("a.png", png(64, 64))
    settings = f"/api/images/{image['id']}/settings"
    view = f"/api/images/{image['id']}/view"
    wrong = [
        b"", b"[]", b"null", b"1", b'"x"', b"{", b"\xff\xfe", b"[" * 50_000, b'{"a":' * 9_000, b'{"strength": NaN}',
        b'{"strength": Infinity}', b'{"strength": 1e999}', b'{"strength": -1}', b'{"strength": "1"}', b'{"strength": null}',
        b'{"strength": true}', b'{"strength": [1]}', b'{"strength": ' + b"9" * 5000 + b"}", b'{"method": "none"}',
        b'{"method": 1}', b'{"method": ["fast"]}', b'{"other": 5}', b'{"colour": "x"}', b'{"colour": -1}', b'{"noise": 5}',
        b'{"noise": {}}', b'{"noise": {"kind": "pink"}}', b'{"noise": {"kind": "auto", "level": 5}}', b'{"noise": {"level": 0}}',
        b'{"noise": {"level": NaN}}', b'{"noise": {"level": "5"}}', b'{"noise": {"level": 1e400}}', b'{"noise": {"rectangle": 5}}',
        b'{"noise": {"rectangle": [0, 0, 5]}}', b'{"noise": {"rectangle": [0, 0, 1, 1]}}', b'{"noise": {"rectangle": [0.5, 0, 20, 20]}}',
        b'{"noise": {"rectangle": [-5, 0, 20, 20]}}', b'{"noise": {"rectangle": [60, 0, 20, 20]}}', b'{"unknown": 1}',
        b'{"__class__": "x"}',
    ]  # fmt: skip
    for body in wrong:
        if body == b"":
            continue  # no settings: the defaults
        status, answer, _ = page("PUT", settings, body)
        assert status == 400, body[:80]
        assert set(answer) == {"error"}
        assert len(answer["error"]) < 400
        assert "\n" not in answer["error"]
    assert page.state(image)["revision"] == 1
    wrong = [
        {"frame": 1}, {"frame": -1}, {"frame": "0"}, {"frame": 0.5}, {"x": None}, {"x": "0"}, {"width": [1]}, {"scale": 0},
        {"scale": -1}, {"scale": 1e12}, {"scale": "1"}, {"x": 1e300}, {"height": 10**400}, {"y": True},
    ]  # fmt: skip
    for change in wrong:
        message = {"frame": 0, "x": 0, "y": 0, "width": 9, "height": 9, "scale": 1, **change}
        status, answer, _ = page("PUT", view, message)
        assert status == 400, change
        assert "expected" in answer["error"]
    for strange in (
        {"x": -500, "width": 9},
        {"x": 500},
        {"width": -5},
        {"width": 1e8},
        {"scale": 1e-9},
    ):
        message = {"frame": 0, "x": 0, "y": 0, "width": 9, "height": 9, "scale": 1, **strange}
        assert page("PUT", view, message)[0] == 200
    for message in ({"where": "/etc/passwd"}, {"where": 5}, {"overwrite": "yes"}, {"where": "beside"}):  # fmt: skip
        assert page("POST", f"/api/images/{image['id']}/save", message)[0] == 400
    huge = b'{"method": "' + b"x" * 100_000 + b'"}'
    assert page("PUT", settings, huge)[0] == 413
    page.see(image)
    page.finished(image)


def test_many_images_stay_within_the_bound_of_memory(tmp_path):
    bound = 3_000_000
    with serving(tmp_path / "work", memory=bound, images=50) as running:
        page = Page(running.address)
        with page.events() as events:
            first = page.open("first.png", png(300, 300, 3))
            for k in range(14):
                image = page.open(f"{k}.png", png(300, 300, 3, seed=k))
                page.see(image)
            page.finished(image)
            gallery = running.studio.gallery
            assert sum(opened.nbytes for opened in gallery) <= bound
            until(lambda: any(event["type"] == "dropped" for event in events))
        dropped = [event for event in events if event["type"] == "dropped"]
        assert dropped[0]["image"] == first["id"]
        assert "first.png was closed" in dropped[0]["words"]
        assert page.tile(first, "before")[0] == 404
        assert page.state(image)
        assert len(list((tmp_path / "work").iterdir())) == len(list(gallery))


def test_the_number_of_images_and_of_pages_is_bounded(tmp_path):
    with serving(tmp_path / "work", images=3, clients=2) as running:
        page = Page(running.address)
        for k in range(6):
            page.open(f"{k}.png", png(8, 8))
        assert len(page.get("/api/state")[1]["images"]) == 3
        with page.events(), page.events():
            status, answer, _ = page.get("/api/events")
            assert status == 503
            assert "expected" in answer["error"]
        until(lambda: not running.studio.events.are_full, 20)


def test_a_page_that_does_not_listen_is_disconnected(tmp_path):
    with serving(tmp_path / "work", waiting_events=5) as running:
        page = Page(running.address)
        name, _, port = page.host.partition(":")
        with socket.create_connection((name, int(port))) as silent:
            silent.sendall(f"GET /api/events HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\n\r\n".encode())  # fmt: skip
            until(lambda: running.studio.events._clients, 5)
            for _ in range(300):
                running.studio.events.publish(type="x", words="x" * 100_000)
            until(lambda: not running.studio.events._clients, 20)
        assert page.get("/api/state")[0] == 200


def test_large_headers_and_garbage_are_refused(page):
    for data in (
        b"GET / HTTP/1.1\r\nHost: "
        + page.host.encode()
        + b"\r\nX: "
        + b"x" * 200_000
        + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200),
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00" * 1000,
    ):
        answer = raw(page.host, data, wait=2)
        assert answer == b"" or answer.split()[1] in (b"400", b"403", b"431")
    assert page.get("/api/state")[0] == 200


# The command.


def _started(*words, **options):
    """Start the command; returns the process and the line it prints."""
    command = [sys.executable, "-m", "nlridge", "studio", "--no-browser", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # fmt: skip
    return process, process.stdout.readline().strip()


def test_the_command_prints_one_line_and_ends_with_ctrl_c(tmp_path):
    import signal

    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process, address = _started(env=environment)
    try:
        assert address.startswith("http://127.0.0.1:")
        page = Page(address)
        page.open("a.png", png(64, 64))
        (work,) = tmp_path.iterdir()
        assert work.stat().st_mode & 0o077 == 0  # nobody else may look
        with page.events():
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, rest, errors) == (0, "", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "80"], "port is 80; expected at least 1024"),
        (["--port", "99999"], "port is 99999; expected at most 65535"),
        (["--address", "example.org"], "address is example.org; expected an IP address"),
        (["--address", "203.0.113.7"], "address is 203.0.113.7"),
        (["missing.png"], "missing.png: no such file or folder"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, capsys):
    assert main(["studio", "--no-browser", *words]) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_port_in_use_gets_one_sentence(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["studio", "--no-browser", "--port", str(port)]) == 1
    assert f"port is {port}, which is in use" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_gets_one_sentence(tmp_path, capsys):
    (tmp_path / "a.png").write_bytes(b"nonsense")
    assert main(["studio", "--no-browser", str(tmp_path / "a.png")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_missing_extra_gets_one_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["studio", "--no-browser"]) == 1
    error = capsys.readouterr().err
    assert "the studio needs uvicorn, which is not installed: pip install uvicorn" in error


def test_another_address_demands_the_token_and_warns(tmp_path):
    process, address = _started("--address", "0.0.0.0")
    try:
        port = urlsplit(address).port
        assert "token=" in address
        page = Page.__new__(Page)
        page.host = f"127.0.0.1:{port}"
        assert page.get("/")[0] == 403
        assert page.get("/api/state")[0] == 403
        assert page.get("/", Host=f"evil.example:{port}")[0] == 403
        assert page.get("/", Host=f"0.0.0.0:{port}")[0] == 403
        page = Page(address.replace(urlsplit(address).hostname, "127.0.0.1"))
        assert page.get("/api/state")[0] == 200
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert "warning" in errors
    assert "not encrypted" in errors


def test_it_listens_on_this_computer_alone(page):
    port = int(page.host.partition(":")[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = {
            info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        }
    for address in own - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):  # noqa: PT011
            pass


def test_help_needs_nothing_heavy():
    code = "import sys\nfrom nlridge.cli.parser import build_parser\nbuild_parser().format_help()\n"
    code += "assert not {'starlette', 'uvicorn', 'numpy', 'numba'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

"""A folder in the studio: the run over its files, and links that lead out of it."""

import io
import os

import numpy as np
import pytest
import tifffile
from PIL import Image
from studio_client import Page, png, serving, until

from nlridge.apps.cli import main


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_run_that_is_stopped_before_it_begins_has_ended(tmp_path):
    from nlridge.apps.studio.folder import Folder

    class Said(list):
        def publish(self, **event):
            self.append(event)

    (tmp_path / "a.png").write_bytes(png(16, 16))
    said = Said()
    folder = Folder(tmp_path, said)
    folder.run({})
    assert said[-1]["folder"]["running"]
    folder.stop()  # the worker is still busy with something else
    assert not said[-1]["folder"]["running"]
    assert not folder.step(lambda: None)


def test_the_first_file_that_can_be_opened_is(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
    for name in ("b.png", "c.png"):
        (folder / name).write_bytes(png(48, 48))
    with serving(tmp_path / "work", folder) as running:
        state = Page(running.address).get("/api/state")[1]
        assert [image["name"] for image in state["images"]] == ["b.png"]
        assert state["images"][0]["can_save_beside"]
        first, *others = state["folder"]["files"]
        assert first["state"] == "failed"
        assert first["error"]
        assert str(tmp_path) not in first["error"]
        assert [file["state"] for file in others] == ["waiting", "waiting"]


def test_a_folder_without_any_image_that_can_be_opened(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"nonsense")
    with serving(tmp_path / "work", folder) as running:
        state = Page(running.address).get("/api/state")[1]
        assert state["images"] == []
        assert state["folder"]["files"][0]["state"] == "failed"


def test_thumbnails_are_small_and_upright_and_lead_nowhere_else(tmp_path):
    folder, outside = tmp_path / "images", tmp_path / "secret.png"
    folder.mkdir()
    outside.write_bytes(png(16, 16))
    turned = Image.fromarray(np.arange(300 * 200 * 3, dtype=np.uint8).reshape(300, 200, 3))
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(folder / "a.jpg", exif=exif)
    deep = np.linspace(100, 4000, 40 * 1000).reshape(40, 1000).astype(np.uint16)
    tifffile.imwrite(folder / "b.tif", deep)
    (folder / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
    (folder / "d.png").write_bytes(png(64, 64))
    (folder / "e.png").write_bytes(png(200, 300))
    with serving(tmp_path / "work", folder, largest_thumbnail=70_000) as running:
        page = Page(running.address)
        ids = {file["name"]: file["id"] for file in page.get("/api/state")[1]["folder"]["files"]}

        def shown(name, **headers):
            return page.get(f"/api/files/{ids[name]}/thumbnail", **headers)

        sizes = {}
        for name in ("a.jpg", "d.png", "e.png"):
            status, data, headers = shown(name)
            assert (status, headers["content-type"]) == (200, "image/webp")
            sizes[name] = Image.open(io.BytesIO(data)).size
        assert sizes["d.png"] == (32, 32)
        assert sizes["e.png"] == (75, 50)
        assert sizes["a.jpg"][0] > sizes["a.jpg"][1]  # upright: wider than high
        assert max(max(size) for size in sizes.values()) <= 128
        assert shown("b.tif")[0] == 204  # too large a file
        assert shown("c.png")[:2] == (204, b"")
        assert shown("d.png", Cookie=None)[0] == 403
        assert page.get("/api/files/x/thumbnail")[0] == 404
        (folder / "d.png").unlink()
        (folder / "d.png").symlink_to(outside)
        assert shown("d.png")[0] == 404
        assert len(list((tmp_path / "work").iterdir())) == 1  # that of the open image


def test_a_run_says_how_long_it_will_take(tmp_path, monkeypatch):
    from nlridge.apps.studio import folder as module

    class Said(list):
        def publish(self, **event):
            self.append(event)

    now = [100.0]
    monkeypatch.setattr("nlridge.apps.studio.tasks.time.monotonic", lambda: now[0])

    def clean(path, target, *, progress, **options):
        for share in (0.25, 0.5, 1.0):
            now[0] = start + 10 * ("abcd".index(path.stem) + share)  # ten seconds a file
            progress(share)

    monkeypatch.setattr(module, "clean_file", clean)
    for name in "abcd":
        (tmp_path / f"{name}.png").write_bytes(png(16, 16))
    said = Said()
    folder = module.Folder(tmp_path, said)
    start = now[0]
    folder.run({})
    while folder.step(lambda: None):
        pass
    left = [(event["file"]["name"], event["left"]) for event in said if event.get("done") == 0.5]
    assert left == [("a.png", 35.0), ("b.png", 25.0), ("c.png", 15.0), ("d.png", 5.0)]
    assert said[-1]["folder"]["running"] is False

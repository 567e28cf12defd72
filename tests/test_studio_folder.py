"""A folder in the studio: the run over its files, and links that lead out of it."""

import os

from studio_client import Page, png, serving, until

from nlridge.cli import main


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
    from nlridge.studio.folder import Folder

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

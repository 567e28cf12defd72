"""Attempts to break the studio: paths, names, sizes, times and content."""

import io
import json
import os
import time
from contextlib import ExitStack, suppress
from urllib.parse import quote

import numpy as np
import pytest
import tifffile
from PIL import Image
from studio_client import Page, connect, png, raw, serving, until


def upload(page):
    """The head of an upload, but for its length."""
    return (
        f"POST /api/images?name=a.png HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\n"
        f"Origin: http://{page.host}\r\nX-Nlridge: 1\r\nConnection: close\r\n"
    ).encode()


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_uploads_are_bounded_while_they_stream(tmp_path):
    with serving(tmp_path / "work", largest_upload=50_000, seconds_idle=2) as running:
        page = Page(running.address)
        assert page.get("/api/state")[1]["largest_upload"] == 50_000
        head = upload(page)
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
        with connect(page.host) as connection:
            connection.sendall(head + b"Content-Length: 1000\r\n\r\nxyz")  # and goes away
        until(lambda: running.studio.uploads == 0)
        assert not list((tmp_path / "work").iterdir())


@pytest.mark.slow
def test_only_so_many_uploads_at_once(tmp_path):
    with serving(tmp_path / "work", uploads=2) as running:
        page = Page(running.address)
        with ExitStack() as slow:
            for _ in range(2):
                connection = slow.enter_context(connect(page.host))
                connection.sendall(upload(page) + b"Content-Length: 1000\r\n\r\nxyz")
            until(lambda: running.studio.uploads == 2)
            assert page("POST", "/api/images?name=a.png", png(8, 8))[0] == 503
        until(lambda: running.studio.uploads == 0)
        assert page("POST", "/api/images?name=a.png", png(8, 8))[0] == 200


@pytest.mark.slow
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
        b'{"method": 1}', b'{"method": ["fast"]}', b'{"other": 5}', b'{"color": "x"}', b'{"color": -1}', b'{"noise": 5}',
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_results_of_a_large_image_stay_within_the_bound_of_the_disk(tmp_path):
    bound = 6 * 300 * 300
    with serving(tmp_path / "work", in_memory=10_000, disk=bound) as running:
        page = Page(running.address)
        image = page.open("large.png", png(300, 300))
        page.see(image)
        (opened,) = running.studio.gallery
        for k in range(8):
            page.set(image, method="fast", noise={"level": 10 + k})
            page.finished(image)
            assert opened.bytes_on_disk <= bound
        files = [file for file in opened.folder.iterdir() if file.is_file()]
        written = [file.stat().st_size for file in files]
        assert len(opened.results) < 8  # not one for each of the settings
        assert len([file for file in files if file.suffix != ".npy"]) == len(opened.results)
        assert sum(written) < 1.75 * bound  # with what the results are made from


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
        until(lambda: not running.studio.events.are_full)


@pytest.mark.slow
def test_a_page_that_does_not_listen_is_disconnected(tmp_path):
    with serving(tmp_path / "work", waiting_events=5) as running:
        page = Page(running.address)
        with connect(page.host) as silent:
            silent.sendall(f"GET /api/events HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\n\r\n".encode())  # fmt: skip
            until(lambda: running.studio.events._clients)
            for _ in range(300):
                running.studio.events.publish(type="x", words="x" * 100_000)
            until(lambda: not running.studio.events._clients)
        assert page.get("/api/state")[0] == 200


@pytest.mark.slow
def test_connections_without_a_whole_request_are_closed(tmp_path):
    with serving(tmp_path / "work", seconds_idle=2) as running:
        page = Page(running.address)
        whole = f"GET /api/state HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\n\r\n".encode()  # fmt: skip
        for sent in (b"", whole[:30], whole + whole[:30]):
            with connect(page.host, timeout=0.1) as connection:
                connection.sendall(sent)
                received, end = b"", time.monotonic() + 60
                with suppress(ConnectionResetError, BrokenPipeError):
                    while True:
                        assert time.monotonic() < end
                        try:
                            part = connection.recv(65536)
                        except TimeoutError:
                            connection.sendall(sent[:1])  # slowly, but steadily
                            continue
                        if not part:
                            break
                        received += part
                assert received.startswith(b"HTTP/1.1 200") == sent.startswith(whole)
        with page.events():  # a stream that is silent goes on
            time.sleep(2.5)
            assert len(running.studio.events._clients) == 1


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

"""A studio in this process, and a client that sends what its page would."""

import http.client
import io
import json
import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from PIL import Image

from nlridge.apps.studio.limits import Limits

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
        return status, pixels if image["color"] else pixels[..., 0], headers

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
    from nlridge.apps.studio.server import Running, listening

    folder.mkdir(exist_ok=True)
    with listening("127.0.0.1", None) as listener:
        running = Running(listener, folder, given, Limits(**limits))
        thread = threading.Thread(target=running.run, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            running.stop()
            thread.join(120)
            assert not thread.is_alive()


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def connect(host, timeout=None):
    name, _, port = host.partition(":")
    return socket.create_connection((name, int(port)), timeout)


def raw(host, data, wait=60.0):
    """Send bytes to the server, and return all that comes back."""
    with connect(host, wait) as connection:
        received = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                received += part
        except (TimeoutError, ConnectionResetError):
            pass
    return received

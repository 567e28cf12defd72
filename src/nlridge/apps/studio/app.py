"""The routes of the server. Paths never come from the page: it names images and files by their ids."""

import asyncio
import math
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib import resources
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ... import __version__
from ...errors import ArgumentError
from .. import display
from ..options import ADJUSTMENTS, METHODS, Option, words_about
from . import words
from .commands import commands_for
from .errors import Refused, in_one_sentence, refusal
from .events import Events
from .folder import Folder
from .gallery import Gallery
from .images import Opened
from .limits import Limits
from .messages import Settings, checked_settings, checked_view, mapping, parsed
from .opening import file_name, opened
from .parts import arguments_of
from .saving import expect_no_link, saved, target_of
from .security import POLICY
from .tiles import LAYERS, thumbnail, tile
from .work import Worker

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError)  # reported in one sentence
_DIGITS = 9  # most digits of a number in an address


class Studio:
    """The state that all routes share."""

    def __init__(self, work_folder: Path, limits: Limits = Limits()) -> None:  # noqa: B008 (frozen)
        self.limits = limits
        self.work_folder = work_folder
        self.events = Events(limits)
        self.gallery = Gallery(limits, self._dropped)
        self.worker = Worker(self.gallery, self.events, limits)
        self.folder: Folder | None = None
        self.uploads = 0
        self.thumbnails = asyncio.Lock()
        self.page, self.static = _page()

    def routes(self) -> list[Route]:
        return [
            Route("/", self.get_page),
            Route("/static/{name}", self.get_static),
            Route("/api/state", self.get_state),
            Route("/api/events", self.get_events),
            Route("/api/images", self.post_image, methods=["POST"]),
            Route("/api/files/{id}/open", self.post_open, methods=["POST"]),
            Route("/api/files/{id}/thumbnail", self.get_thumbnail),
            Route("/api/folder/run", self.post_run, methods=["POST"]),
            Route("/api/folder/stop", self.post_stop, methods=["POST"]),
            Route("/api/images/{id}", self.delete_image, methods=["DELETE"]),
            Route("/api/images/{id}/settings", self.put_settings, methods=["PUT"]),
            Route("/api/images/{id}/view", self.put_view, methods=["PUT"]),
            Route("/api/images/{id}/save", self.post_save, methods=["POST"]),
            Route("/api/images/{id}/commands", self.get_commands),
            Route("/api/images/{id}/tile/{layer}/{revision}/{level}/{column}/{row}", self.get_tile),
        ]

    async def get_page(self, request: Request) -> Response:
        return Response(self.page.read_bytes(), media_type="text/html")

    async def get_static(self, request: Request) -> Response:
        path = self.static.get(request.path_params["name"])
        if path is None:
            raise Refused(404, words.NO_STATIC_FILE)
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix])

    def state(self) -> dict[str, Any]:
        """Return all that a page shows."""
        return {
            "version": __version__,
            "methods": [{"name": name, "words": about} for name, about in METHODS.items()],
            "adjustments": [_described(option) for option in ADJUSTMENTS.values()],
            "defaults": Settings().as_json(),
            "images": [image.described() for image in self.gallery],
            "folder": self.folder and self.folder.described(),
            "largest_upload": self.limits.largest_upload,
            "compiling": self.worker.is_compiling,
        }

    async def get_state(self, request: Request) -> Response:
        return JSONResponse(self.state())

    async def get_events(self, request: Request) -> Response:
        if self.events.are_full:
            raise Refused(503, words.MANY_PAGES.format(clients=self.limits.clients))
        return StreamingResponse(self.events.stream(self.state), media_type="text/event-stream")

    async def post_image(self, request: Request) -> Response:
        name = file_name(request.query_params.get("name", ""))
        folder = self.work_folder / token_urlsafe(9)
        if self.uploads >= self.limits.uploads:
            raise Refused(503, words.MANY_UPLOADS.format(uploads=self.uploads))
        self.uploads += 1
        try:
            folder.mkdir()
            path = folder / name
            await self._receive(request, path)
            image = await run_in_threadpool(opened, path, name, folder, self.limits)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, _FAILURES):
                raise Refused(422, in_one_sentence(error, folder / name, name)) from error
            raise
        finally:
            self.uploads -= 1
        if not image.clip:
            path.unlink(missing_ok=True)  # all of it has been read
        return self._added(image)

    def begin_with(self, path: Path) -> None:
        """Open a file or a folder of the person who starts the studio, and the first file of a folder."""
        if path.is_dir():
            self.folder = Folder(path, self.events)
            self.worker.background = self.folder.step
            for file in self.folder:
                try:
                    self._added(self._opened(file.path))
                    break
                except Exception as error:
                    file.fail(error)
        else:
            self._added(self._opened(path.absolute()))

    def _opened(self, path: Path) -> Opened:
        folder = self.work_folder / token_urlsafe(9)
        try:
            return opened(path, path.name, folder, self.limits, beside=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    async def post_open(self, request: Request) -> Response:
        path = self._folder().path_of(request.path_params["id"])
        for image in self.gallery:
            if image.path == path:
                return JSONResponse(image.described())
        try:
            return self._added(await run_in_threadpool(self._opened, path))
        except _FAILURES as error:
            raise Refused(422, in_one_sentence(error, path, path.name)) from error

    async def get_thumbnail(self, request: Request) -> Response:
        path = self._folder().path_of(request.path_params["id"])
        async with self.thumbnails:  # one at a time, so that the image that is shown comes first
            folder = self.work_folder / token_urlsafe(9)
            data = await run_in_threadpool(thumbnail, path, folder, self.limits)
        return Response(data, media_type="image/webp") if data else Response(status_code=204)

    async def post_run(self, request: Request) -> Response:
        folder = self._folder()
        message = await self._message(request)
        image = self.gallery.get(str(message.get("image", "")))
        height, width = image.shown_size if image else (0, 0)
        settings = checked_settings(mapping("settings", message.get("settings", {})), width, height)
        if isinstance(settings.noise, tuple) and image is None:
            raise ArgumentError(
                "image", None, "the one that the rectangle belongs to", "is missing"
            )
        planes = np.empty((1, 1, 1))
        if image:
            planes = await run_in_threadpool(image.measurable, 0)
        choice = image.choice(settings) if image else settings.noise
        folder.run(arguments_of(planes, settings, choice))
        self.worker.changed()
        return JSONResponse({})

    async def post_stop(self, request: Request) -> Response:
        self._folder().stop()
        self.worker.changed()
        return JSONResponse({})

    def _folder(self) -> Folder:
        if self.folder is None:
            raise Refused(404, words.NO_FOLDER)
        return self.folder

    def _added(self, image: Opened) -> Response:
        self.gallery.add(image)
        self.worker.changed()
        return JSONResponse(image.described())

    async def _receive(self, request: Request, path: Path) -> None:
        """Write the body of a request to a file, as long as it is not too large and does not pause for long."""
        most = self.limits.largest_upload
        with path.open("xb") as file:
            async for chunk in self._chunks(request, most):
                await run_in_threadpool(file.write, chunk)

    async def _chunks(self, request: Request, most: int) -> AsyncIterator[bytes]:
        sentence = words.LARGE_UPLOAD.format(most=most)
        with suppress(ValueError):
            if int(request.headers.get("content-length", "0")) > most:
                raise Refused(413, sentence)
        received = 0
        stream = request.stream()
        while True:
            try:
                chunk = await asyncio.wait_for(anext(stream), self.limits.seconds_idle)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Refused(408, words.PAUSED_UPLOAD) from None
            received += len(chunk)
            if received > most:
                raise Refused(413, sentence)
            yield chunk

    async def _message(self, request: Request) -> dict[str, Any]:
        chunks = [chunk async for chunk in self._chunks(request, self.limits.largest_message)]
        return parsed(b"".join(chunks))

    def _image(self, request: Request) -> Opened:
        image = self.gallery.get(request.path_params["id"])
        if image is None:
            raise Refused(404, words.CLOSED)
        return image

    async def delete_image(self, request: Request) -> Response:
        self.gallery.remove(self._image(request))
        self.worker.changed()
        return JSONResponse({})

    async def put_settings(self, request: Request) -> Response:
        image = self._image(request)
        height, width = image.shown_size
        settings = checked_settings(await self._message(request), width, height)
        wanted = image.want(settings=settings)
        self.worker.changed()
        noise = image.noise_described(wanted.view.frame if wanted.view else 0)
        return JSONResponse({"revision": wanted.revision, "noise": noise})

    async def put_view(self, request: Request) -> Response:
        image = self._image(request)
        height, width = image.shown_size
        view = checked_view(await self._message(request), len(image.indices), width, height)
        image.want(view=view)
        self.worker.changed()
        return JSONResponse({"noise": image.noise_described(view.frame)})

    async def get_tile(self, request: Request) -> Response:
        image, path, query = self._image(request), request.path_params, request.query_params
        if path["layer"] not in LAYERS:
            raise Refused(404, words.NO_LAYER)
        revision, level, column, row = (
            _whole(name, path[name], 10**_DIGITS) for name in ("revision", "level", "column", "row")
        )
        frame = _whole("frame", query.get("frame", "0"), len(image.indices) - 1)
        channel = query.get("channel")
        number = None if channel is None else _whole("channel", channel, image.channels - 1)
        ends = (
            _finite("low", query.get("low"), image.low),
            _finite("high", query.get("high"), image.high),
        )
        if not ends[1] > ends[0]:
            raise ArgumentError(
                "high", ends[1], f"more than low, which is {ends[0]:g}", f"is {ends[1]:g}"
            )
        found = await run_in_threadpool(
            tile,
            image,
            path["layer"],
            revision,
            min(level, max(image.size).bit_length()),
            column,
            row,
            frame,
            number,
            ends,
        )
        if found is None:
            raise Refused(404, words.NO_TILE)
        data, state = found
        if not data:
            return Response(status_code=204)
        kept = "private, max-age=86400, immutable" if state == "exact" else "no-store"
        headers = {"X-State": state, "Cache-Control": kept}
        return Response(data, media_type="image/webp", headers=headers)

    async def post_save(self, request: Request) -> Response:
        image = self._image(request)
        message = await self._message(request)
        where, overwrite = message.get("where", "download"), message.get("overwrite", False)
        if where not in ("beside", "download") or not isinstance(overwrite, bool):
            raise ValueError(words.UNKNOWN_PLACE)
        if where == "beside" and not image.beside:
            raise ValueError(words.WAS_UPLOADED)
        target = target_of(image.path)
        if where == "beside":
            expect_no_link(target)
        if where == "beside" and target.exists() and not overwrite:
            raise Refused(409, words.EXISTS.format(name=target.name))
        wanted = await self._complete(image)
        if where == "beside":
            await run_in_threadpool(saved, image, wanted.settings, target, overwrite)
            return JSONResponse({"name": target.name})
        folder = self.work_folder / token_urlsafe(9)
        path = folder / target.name
        await run_in_threadpool(saved, image, wanted.settings, path)
        remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        kind = "application/octet-stream"
        return FileResponse(path, filename=target.name, media_type=kind, background=remove)

    async def _complete(self, image: Opened) -> Any:
        """Wait for the whole result with the current settings."""
        wanted = image.want(saving=image.wanted.saving or time.monotonic())
        self.worker.changed()
        while wanted.revision not in image.finished:
            if wanted.revision in image.failed:
                raise ValueError(image.failed[wanted.revision])
            if image.wanted.revision != wanted.revision:
                raise Refused(409, words.CHANGED_MEANWHILE)
            if self.gallery.get(image.id) is not image:
                raise Refused(404, words.CLOSED)
            await asyncio.sleep(0.02)
        return wanted

    async def get_commands(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(commands_for, self._image(request)))

    def _dropped(self, image: Opened) -> None:
        said = words.DROPPED.format(name=image.name)
        self.events.publish(type="dropped", image=image.id, words=said)


def app_for(studio: Studio) -> Starlette:
    """Return the application, without protection."""
    kinds = (Refused, HTTPException, ClientDisconnect, *_FAILURES, Exception)
    handlers: dict[Any, Any] = dict.fromkeys(kinds, _refuse)
    app = Starlette(routes=studio.routes(), exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer with one sentence."""
    if isinstance(error, Refused):
        status, sentence = error.status, str(error)
    elif isinstance(error, HTTPException):
        status, sentence = error.status_code, words.NO_ADDRESS
    else:
        status = 422 if isinstance(error, OSError | MemoryError | ImportError) else 400
        status = 409 if isinstance(error, FileExistsError) else status
        sentence = in_one_sentence(error)
    body, headers = refusal(request.headers.get("accept", ""), sentence, POLICY)
    return Response(body, status, headers)


def _described(option: Option) -> dict[str, Any]:
    """Return what the page is told about an option with a slider."""
    facts = {"name": option.name, "words": words_about(option), "in_color": option.in_color}
    return facts | dict(zip(("min", "max", "step"), option.slider or (), strict=True))


def _page() -> tuple[Any, dict[str, Any]]:
    """Return the page, and the files that it needs by their names."""
    folder = resources.files(__package__) / "page"
    files = [*folder.iterdir(), *resources.files(display).iterdir()]
    static = {file.name: file for file in files if Path(file.name).suffix in _TYPES}
    return folder / "studio.html", static


def _whole(name: str, text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) > most:
        raise Refused(404, words.NOT_WHOLE.format(name=name, most=most))
    return int(text)


def _finite(name: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentError(name, text, "one", "is not a finite number")
    return value

"""The server: it starts, opens the page in a browser, and ends with Ctrl-C."""

import asyncio
import ipaddress
import shutil
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...checks import checked_whole, not_installed
from ...errors import ArgumentError
from .limits import Limits
from .words import NO_FILE, REACHABLE

_LOCAL = "127.0.0.1"


def serve(path: str | None, port: int | None, address: str | None, browser: bool) -> None:
    """Show the page until Ctrl-C; `path` names an image or a folder to begin with."""
    given = None if path is None else Path(path)
    if given is not None and not given.exists():
        raise FileNotFoundError(NO_FILE.format(path=given))
    with listening(address or _LOCAL, port) as listener, _work_folder() as folder:
        running = Running(listener, folder, given)
        if address is not None and not _is_local(address):
            print(f"nlridge: warning: {REACHABLE.format(address=address)}", file=sys.stderr)
        print(running.address, flush=True)
        if browser:
            webbrowser.open(running.address)
        with suppress(KeyboardInterrupt):
            running.run()


class Running:
    """A server on a socket that listens."""

    def __init__(
        self,
        listener: socket.socket,
        folder: Path,
        given: Path | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ) -> None:
        try:
            import starlette  # noqa: F401
            import uvicorn
        except ImportError as error:
            raise not_installed("the studio needs", str(error.name)) from None
        from .app import Studio, app_for
        from .security import Access, Guard

        host, port = listener.getsockname()[:2]
        self.studio = Studio(folder, limits)
        self.access = Access(_names(host), port)
        self.address = f"http://{_names(host)[0]}:{port}/?token={self.access.token}"
        if given is not None:
            self.studio.begin_with(given)
        self.listener = listener
        config = uvicorn.Config(
            Guard(app_for(self.studio), self.access),
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            http=_protocol(limits.seconds_idle),
            loop="asyncio",
            limit_concurrency=256,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
        )
        self.server = _server(config, self.studio.events.close)

    def run(self) -> None:
        """Serve until `stop`, or Ctrl-C."""
        self.studio.worker.start()
        try:
            self.server.run(sockets=[self.listener])
        finally:
            self.studio.worker.close()

    def stop(self) -> None:
        self.studio.events.close()
        self.server.should_exit = True


def _server(config: Any, ending: Any) -> Any:
    """Return a server that ends streams of events when it is told to end, instead of waiting for them."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            ending()
            super().handle_exit(sig, frame)

    return Server(config)


def _protocol(seconds: float) -> Any:
    """Return the protocol of a connection, which is closed if a request does not begin within some seconds.

    Otherwise a few hundred idle connections would lock the page out.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._expect_request()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_waiting()

        def _expect_request(self) -> None:
            """Wait for the rest of the headers, however slowly they arrive, unless a request is being answered."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()
            elif self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Impatient


@contextmanager
def listening(address: str, port: int | None) -> Iterator[socket.socket]:
    """Provide a socket that listens; without a port, on any that is free."""
    if port is not None:
        port = checked_whole("port", port, 1024, 65535)
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise ArgumentError(
            "address", address, f"an IP address such as {_LOCAL}", "is {value}"
        ) from None
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port or 0))
            listener.listen(128)
        except OSError as error:
            if port is None:
                raise ArgumentError(
                    "address", address, "one of this computer", f"is {address}: {error.strerror}"
                ) from None
            raise ArgumentError(
                "port", port, "a free one", "is {value}, which is in use or not allowed"
            ) from None
        yield listener


@contextmanager
def _work_folder() -> Iterator[Path]:
    """Provide a folder that no other user can read, and that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="nlridge-studio-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_local(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _names(host: str) -> list[str]:
    """Return the names under which the page may ask for the server."""
    ip = ipaddress.ip_address(host)
    names = [] if ip.is_unspecified else [f"[{host}]" if ip.version == 6 else host]
    if ip.is_unspecified:  # all addresses of this computer
        name = socket.gethostname()
        names.append(name)
        with suppress(OSError):
            known = socket.getaddrinfo(name, None, family=socket.AF_INET)
            names += [str(info[4][0]) for info in known]
    if ip.is_loopback or ip.is_unspecified:
        names += [_LOCAL, "localhost"]
    return names

"""Who may talk to the server: only a page that this server sent to the person who started it."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs

from . import words
from .errors import refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
_READING = ("GET", "HEAD")


class Access:
    """The names of the server, the token for its first visitor, and the cookie for the page."""

    def __init__(self, hosts: list[str], port: int) -> None:
        self.hosts = {f"{host}:{port}" for host in hosts}
        self.token = token_urlsafe(32)
        self.cookie_name = f"nlridge-{port}"  # browsers share cookies between ports
        self._cookie = token_urlsafe(32)
        self._used = False

    def admit(self, token: str) -> str | None:
        """Return the header that sets the cookie if a token is right, and has not been used before."""
        right = hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        if not right or self._used:
            return None
        self._used = True
        return f"{self.cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"

    def knows(self, cookies: list[str]) -> bool:
        """Return whether cookie headers hold the right cookie."""
        pairs = [pair.strip().partition("=") for header in cookies for pair in header.split(";")]
        values = [value for name, _, value in pairs if name == self.cookie_name]
        return len(values) == 1 and hmac.compare_digest(
            values[0].encode("utf-8", "replace"), self._cookie.encode()
        )


class Guard:
    """Refuses requests that do not come from the page, and adds the headers that protect the page to all answers."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message.get("headers", [])}
                missing = [pair for pair in _HEADERS.items() if pair[0] not in given]
                message = {**message, "headers": [*message.get("headers", []), *missing]}
            await send(message)

        wrong = self._refusal(scope)
        if wrong:
            await _refuse(scope, send_protected, wrong)
            return
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if scope["path"] == "/" and token:
            await self._enter(scope, token[0], send_protected)
        elif not self._is_known(scope):
            await _refuse(scope, send_protected, words.NOT_ADMITTED)
        else:
            await self._app(scope, receive, send_protected)

    def _refusal(self, scope: Scope) -> str:
        """Return why a request is refused, whoever made it; an empty string if it is not."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0] not in self._access.hosts:
            return words.WRONG_HOST
        origins = _values(scope, b"origin")
        own = f"http://{hosts[0]}"
        if any(origin != own for origin in origins):
            return words.WRONG_PAGE
        site = _values(scope, b"sec-fetch-site")
        if site and site[-1] not in ("same-origin", "none") and scope["path"] != "/":
            return words.WRONG_PAGE
        if _values(scope, b"content-length") and _values(scope, b"transfer-encoding"):
            return words.TWO_LENGTHS
        if scope["method"] not in _READING:
            if not origins:
                return words.NO_ORIGIN
            if _values(scope, b"x-nlridge") != ["1"]:
                return words.NO_HEADER
        return ""

    def _is_known(self, scope: Scope) -> bool:
        return self._access.knows(_values(scope, b"cookie"))

    async def _enter(self, scope: Scope, token: str, send: Send) -> None:
        """Set the cookie, and redirect to the page without the token."""
        headers = [(b"location", b"/")]
        if not self._is_known(scope):
            cookie = self._access.admit(token) if scope["method"] == "GET" else None
            if cookie is None:
                await _refuse(scope, send, words.USED_BEFORE)
                return
            headers.append((b"set-cookie", cookie.encode()))
        await _answer(send, 303, b"", headers)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


async def _refuse(scope: Scope, send: Send, sentence: str) -> None:
    """Answer with a sentence, to a person on a page."""
    body, headers = refusal(",".join(_values(scope, b"accept")), sentence, POLICY)
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await _answer(send, 403, b"" if scope["method"] == "HEAD" else body, pairs)


async def _answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})

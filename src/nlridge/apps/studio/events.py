"""Events that the page listens to (Server-Sent Events)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from .limits import Limits

_KEEPALIVE = 15.0  # seconds after which an idle stream sends a comment to stay open


class Events:
    """Sends events from any thread to all pages that listen; a page that falls behind is disconnected."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._clients: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def are_full(self) -> bool:
        """Whether as many pages listen as are allowed."""
        return len(self._clients) >= self._limits.clients

    def publish(self, **event: Any) -> None:
        """Send an event to all pages."""
        self._on_loop(json.dumps(event))

    def close(self) -> None:
        """End all streams."""
        self._on_loop(None)

    async def stream(self, state: Callable[[], dict[str, Any]]) -> AsyncIterator[str]:
        """Yield the state of everything, then the events from now on, so that no page misses or misorders any."""
        if self.are_full:
            return
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue(self._limits.waiting_events)
        self._clients.add(queue)
        try:
            yield f"data: {json.dumps({'type': 'state', **state()})}\n\n"
            while queue in self._clients or not queue.empty():
                try:
                    data = await asyncio.wait_for(queue.get(), _KEEPALIVE)
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                if data is None:
                    return
                yield f"data: {data}\n\n"
        finally:
            self._clients.discard(queue)

    def _on_loop(self, data: str | None) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._spread, data)

    def _spread(self, data: str | None) -> None:
        for queue in list(self._clients):
            try:
                queue.put_nowait(data)
            except asyncio.QueueFull:
                self._clients.discard(queue)  # its stream ends, and the page connects again

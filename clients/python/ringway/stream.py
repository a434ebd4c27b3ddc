"""Streams to services of other members, and services that a program offers to them."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, AsyncIterator, Dict, Optional, Tuple, Type, Union

from .connection import Connection
from .errors import Closed, Refused


class Stream:
    """A stream of bytes: `reader` and `writer` are those of asyncio. It survives a change of the
    way. `writer.write_eof()` ends what is sent; the peer may go on."""

    def __init__(self, path: Path, opened: Dict[str, Any], connection: Connection) -> None:
        self._path = path
        self.reader, self.writer = connection.into_stream()
        #: 32 hex digits; the same on both sides.
        self.id: str = opened["id"]
        #: Name of the other member, as its certificate has it.
        self.peer: str = opened["peer"]
        #: Name of the service.
        self.service: str = opened["service"]
        #: The stream as it was when it was opened.
        self.status = opened

    @classmethod
    async def _opened(cls, path: Path, request: Dict[str, Any]) -> "Stream":
        connection = await Connection.request(path, request)
        try:
            return cls(path, await connection.expect("opened"), connection)
        except BaseException:
            connection.close()
            raise

    async def set_priority(self, priority: Union[float, str]) -> Dict[str, Any]:
        """Changes the priority of what this side sends, while it flows."""
        request = {"command": "priority", "transfer": self.id, "priority": priority}
        connection = await Connection.request(self._path, request)
        try:
            return await connection.expect("stream")
        finally:
            connection.close()

    async def close(self) -> None:
        """Ends both directions."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            # The peer was first.
            pass

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()


class Listener:
    """A service that this program offers, until it is closed. It gives streams by `accept`, or by
    `async for stream, peer in listener`."""

    def __init__(self, path: Path, serving: Dict[str, Any], connection: Connection) -> None:
        self._path = path
        self._connection = connection
        #: The service as the daemon offers it.
        self.status = serving

    async def accept(self) -> Tuple[Stream, str]:
        """The next stream that a member opens, and the name of that member."""
        while True:
            incoming = await self._connection.expect("incoming")
            try:
                taken = {"command": "take", "id": incoming["id"]}
                stream = await Stream._opened(self._path, taken)
            except (Refused, Closed):
                # Its opener has gone, or did not wait for so long.
                continue
            return stream, stream.peer

    async def __aiter__(self) -> AsyncIterator[Tuple[Stream, str]]:
        while True:
            yield await self.accept()

    def close(self) -> None:
        """Offers it no more."""
        self._connection.close()

    async def __aenter__(self) -> "Listener":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

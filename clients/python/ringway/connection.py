"""One request on the control socket, and the answers to it: JSON lines."""

import array
import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any, AsyncIterator, Dict, List, Optional, Tuple

from .errors import Closed, Incompatible, NotPermitted, NotRunning, Refused, Unexpected

#: Version of the control protocol that this package speaks.
CONTROL = 2

#: This package's release.
RELEASE = "0.2.0"

#: Bytes of one line. The daemon never writes a longer one.
CONTROL_LINE = 1 << 20

Reply = Dict[str, Any]


class Connection:
    """A connection to the daemon for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.daemon: Optional[Dict[str, Any]] = None

    @classmethod
    async def request(
        cls, path: Path, request: Dict[str, Any], descriptor: Optional[int] = None
    ) -> "Connection":
        """Sends a request, with an open file beside it if there is one."""
        speaker = {"control": CONTROL, "ringway": RELEASE}
        line = json.dumps({**request, **speaker}).encode() + b"\n"
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            end.setblocking(False)
            await asyncio.get_running_loop().sock_connect(end, os.fspath(path))
            sent = await _hand_over(end, line, descriptor)
            reader, writer = await asyncio.open_unix_connection(sock=end, limit=CONTROL_LINE)
        except PermissionError as error:
            end.close()
            raise NotPermitted(f"{path} is another user's") from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            end.close()
            raise NotRunning(
                f"no member daemon runs at {path}: start it with `ringway node`"
            ) from error
        except BaseException:
            end.close()
            raise
        writer.write(line[sent:])
        await writer.drain()
        return cls(reader, writer)

    async def next(self) -> Optional[Reply]:
        """The next answer, or none after the last."""
        try:
            line = await self.reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Closed("the member daemon ended before it had answered: see its log") from error
        except asyncio.LimitOverrunError as error:
            raise Unexpected("an answer of the member daemon is too long") from error
        try:
            reply = json.loads(line)
            kind = reply["reply"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unexpected("the member daemon answered something that is no reply") from error
        if self.daemon is None:
            self.daemon = {key: reply.get(key) for key in ("control", "ringway")}
            if (self.daemon["control"] or 1) < CONTROL:
                raise Incompatible(
                    "the member daemon is of an earlier version than this package: restart it",
                    self.daemon,
                )
        if kind == "done":
            return None
        if kind == "error":
            raise Refused(str(reply.get("message")), bool(reply.get("usage")))
        return dict(reply)

    async def expect(self, kind: str) -> Reply:
        """The next answer, which has to be of this kind."""
        reply = await self.next()
        if reply is None or reply["reply"] != kind:
            raise Unexpected("the member daemon answered something else than was asked")
        return reply

    async def each(self, kind: str) -> AsyncIterator[Reply]:
        """All answers, which have to be of this kind; the connection ends with them."""
        try:
            while True:
                reply = await self.next()
                if reply is None:
                    return
                if reply["reply"] != kind:
                    raise Unexpected("the member daemon answered something else than was asked")
                yield reply
        finally:
            self.close()

    async def all(self, kind: str) -> List[Reply]:
        """All answers at once."""
        return [reply async for reply in self.each(kind)]

    def close(self) -> None:
        """Ends it."""
        self.writer.close()

    def into_stream(self) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The bytes behind the answers."""
        return self.reader, self.writer


async def _hand_over(end: socket.socket, line: bytes, descriptor: Optional[int]) -> int:
    """Sends the beginning of a line with a file beside it, as unix(7) says of SCM_RIGHTS."""
    if descriptor is None:
        return 0
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    # The socket is new: there is room for a line.
    return end.sendmsg([line], beside)

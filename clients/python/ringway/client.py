"""The client: one method for each thing that a member does for a program."""

import asyncio
import base64
import os
from pathlib import Path
from typing import Any, AsyncIterator, Dict, Iterable, List, NamedTuple, Optional, Sequence, Union

from .connection import Connection
from .errors import Refused
from .place import usual_socket
from .stream import Listener, Stream

#: Seconds between two looks at the transfers, of which the daemon does not announce changes.
EVENT_POLL = 0.5

#: Messages of one batch, and bytes of all of them. Past it another batch begins.
BATCHED_MESSAGES = 1000
BATCHED_BYTES = 512 * 1024

#: Seconds until a member that takes no more messages for now is asked again.
BATCH_PAUSE = 0.05

#: Events that wait for a program. Past it looking waits for the program.
EVENTS = 256

Status = Dict[str, Any]


class Event(NamedTuple):
    """Something that has happened: `kind` is `transfer` or `message`."""

    kind: str
    status: Status


class Client:
    """A member, through its daemon. Each request has a connection of its own, so that any number
    may be under way at once. Answers are dictionaries: the fields stand in the reference of the
    control protocol."""

    def __init__(self, path: Path, status: Status, daemon: Status) -> None:
        self._path = path
        #: The member's name.
        self.name: str = status["name"]
        #: Its id in base32.
        self.member: str = status["member"]
        #: Domain of the ring.
        self.ring: str = status["ring"]
        #: What the daemon says of itself: `control` and `ringway`.
        self.daemon = daemon

    @classmethod
    async def connect(
        cls,
        home: Optional[Union[str, Path]] = None,
        socket: Optional[Union[str, Path]] = None,
    ) -> "Client":
        """Connects to the member with this home folder, or at this socket, or to the one that
        `ringway` would use."""
        path = Path(socket) if socket else usual_socket(home)
        connection = await Connection.request(path, {"command": "status"})
        try:
            status = await connection.expect("status")
        finally:
            connection.close()
        daemon = connection.daemon or {}
        return cls(path, status, daemon)

    async def request(self, command: str, **fields: Any) -> Connection:
        """Sends any request: for those that have no method here."""
        return await Connection.request(self._path, {"command": command, **fields})

    async def _one(self, kind: str, command: str, **fields: Any) -> Status:
        connection = await self.request(command, **fields)
        try:
            return await connection.expect(kind)
        finally:
            connection.close()

    async def _all(self, kind: str, command: str, **fields: Any) -> List[Status]:
        return await (await self.request(command, **fields)).all(kind)

    async def status(self) -> Status:
        """What the member sees of itself and its ring."""
        return await self._one("status", "status")

    async def members(self) -> List[Status]:
        """The members that this one knows of, by name."""
        return await self._all("member", "members")

    async def send(
        self,
        paths: Sequence[Union[str, "os.PathLike[str]"]],
        peers: Sequence[str],
        priority: Union[float, str] = 1.0,
        by: Optional[float] = None,
    ) -> List[Status]:
        """Sends files and folders to each member: one transfer for each, with all of them. They
        are recorded when this returns, and go on whatever becomes of this program. A priority is
        a number or the name of a class; `by` is when they have to have arrived, Unix seconds, and
        chooses it.

        Folders, and several paths at once, are read by the daemon: it has to run as this user. A
        single file is opened here."""
        found = [_named(os.fspath(path)) for path in paths]
        request: Dict[str, Any] = {"priority": priority}
        if by is not None:
            request["by"] = int(by)
        if len(found) != 1 or os.path.isdir(found[0]):
            for path in found:
                os.stat(path)
            request.update(command="send_all", peers=list(peers), handed="nothing")
            request["paths"] = [_path_in_json(path) for path in found]
            connection = await Connection.request(self._path, request)
            return await connection.all("transfer")
        (path,) = found
        if len(peers) == 1:
            # The form that every release knows.
            request.update(command="send", path=_path_in_json(path), peer=peers[0])
        else:
            request.update(command="send_all", peers=list(peers), handed="file")
            request["paths"] = [_path_in_json(path)]
        # The daemon may be another user's, who cannot read it.
        with open(path, "rb") as file:
            connection = await Connection.request(self._path, request, file.fileno())
        return await connection.all("transfer")

    async def transfers(self) -> List[Status]:
        """All transfers that the daemon knows, oldest first."""
        return await self._all("transfer", "transfers")

    async def watch(self, transfer: str) -> AsyncIterator[Status]:
        """Follows a transfer, about ten times a second, until it has ended."""
        connection = await self.request("watch", transfer=transfer)
        async for status in connection.each("transfer"):
            yield status

    async def wait(self, transfer: str) -> Status:
        """The last state of a transfer."""
        last: Status = {}
        async for last in self.watch(transfer):
            pass
        return last

    async def set_priority(self, transfer: str, priority: Union[float, str]) -> Status:
        """Changes the priority of a transfer: 0 gives way to all other traffic, 1 is one flow's
        share, N that of N flows."""
        return await self._one("transfer", "priority", transfer=transfer, priority=priority)

    async def cancel(self, transfer: str) -> Status:
        """Gives a transfer up."""
        return await self._one("transfer", "cancel", transfer=transfer)

    async def put(self, name: str, value: bytes, lifetime: float = 86400) -> Status:
        """Leaves a small record in the ring for so many seconds, at most 30 days: a name of 1 to
        64 bytes and a value of at most 400. An empty value removes it."""
        lifetime_s = int(lifetime)
        return await self._one("stored", "put", name=name, value=list(value), lifetime_s=lifetime_s)

    async def get(self, peer: str, name: str) -> Optional[bytes]:
        """The record that a member has left by this name; none if there is none."""
        found = await self._one("record", "get", peer=peer, name=name)
        value = found["value"]
        return None if value is None else bytes(value)

    async def open(
        self, peer: str, service: str, priority: Union[float, str, None] = None
    ) -> Stream:
        """Opens a stream to a service of a member, with the service's priority if none is given."""
        fields = {"peer": peer, "service": service, "priority": priority}
        return await Stream._opened(self._path, {"command": "open", **fields})

    async def serve(
        self, name: str, allowed: Sequence[str], priority: Union[float, str, None] = None
    ) -> Listener:
        """Offers a service to the members whose names fit one of `allowed`, in which `*` stands
        for any characters, until the listener is closed."""
        fields = {"name": name, "from": list(allowed), "priority": priority}
        connection = await self.request("serve", **fields)
        try:
            return Listener(self._path, await connection.expect("serving"), connection)
        except BaseException:
            connection.close()
            raise

    async def services(self, peer: Optional[str] = None) -> List[Status]:
        """The services that a member offers to this one, or this member's own."""
        return await self._all("service", "services", peer=peer)

    async def streams(self) -> List[Status]:
        """The open streams, oldest first."""
        return await self._all("stream", "streams")

    async def message(
        self, peers: Sequence[str], body: Union[str, bytes], priority: Union[float, str] = 1.0
    ) -> List[Status]:
        """Sends a message of at most 64 KiB to each of these members. It is on the disk when this
        returns, and is sent until the member has signed for it."""
        data = body.encode() if isinstance(body, str) else body
        text = base64.b64encode(data).decode()
        fields = {"peers": list(peers), "body": text, "priority": priority}
        return [_with_bytes(status) for status in await self._all("message", "message", **fields)]

    async def send_messages(
        self,
        peer: str,
        bodies: Iterable[Union[str, bytes]],
        priority: Union[float, str] = 1.0,
    ) -> int:
        """Sends many messages to one member, in order; gives how many. The daemon stores up to
        1 000 of them by one write to its disk. Where it takes no more for now, this waits."""
        batch: List[bytes] = []
        sent = size = 0
        for body in bodies:
            data = body.encode() if isinstance(body, str) else body
            full = len(batch) == BATCHED_MESSAGES or size + len(data) > BATCHED_BYTES
            if batch and full:
                sent += await self._batch(peer, batch, priority)
                batch, size = [], 0
            batch.append(data)
            size += len(data)
        return sent + await self._batch(peer, batch, priority)

    async def _batch(self, peer: str, batch: List[bytes], priority: Union[float, str]) -> int:
        left = [base64.b64encode(data).decode() for data in batch]
        while left:
            fields = {"peer": peer, "bodies": left, "priority": priority}
            stored = (await self._one("batch", "batch", **fields))["stored"]
            left = left[stored:]
            if left:
                await asyncio.sleep(BATCH_PAUSE)
        return len(batch)

    async def history(self, peer: Optional[str] = None) -> List[Status]:
        """The newest 256 messages sent and received, oldest first."""
        found = await self._all("message", "messages", peer=peer)
        return [_with_bytes(status) for status in found]

    async def messages(self, peer: Optional[str] = None) -> AsyncIterator[Status]:
        """What is received, those that were not read first, and then each as it comes; `body` is
        bytes. What is not marked as read the next program that follows is given again."""
        connection = await self.request("messages", peer=peer, follow=True)
        async for status in connection.each("message"):
            yield _with_bytes(status)

    async def mark_read(self, peer: str, upto: str) -> None:
        """Marks all messages received from a member, up to the one with this id, as read."""
        await self._all("done", "mark_read", peer=peer, upto=upto)

    async def events(self) -> AsyncIterator[Event]:
        """Follows what happens: transfers that are new or have changed, and messages that have
        come. Transfers are looked at twice a second; what changes in between is one event."""
        before = {status["id"]: status for status in await self.transfers()}
        queue: "asyncio.Queue[Union[Event, Exception]]" = asyncio.Queue(EVENTS)

        async def run(follows: Any) -> None:
            try:
                await follows
            except Exception as error:
                await queue.put(error)

        tasks = [
            asyncio.ensure_future(run(self._follow_transfers(before, queue))),
            asyncio.ensure_future(run(self._follow_messages(queue))),
        ]
        try:
            while True:
                event = await queue.get()
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_transfers(self, before: Dict[str, Status], queue: Any) -> None:
        while True:
            await asyncio.sleep(EVENT_POLL)
            now = await self.transfers()
            for status in now:
                if _told(before.get(status["id"], {})) != _told(status):
                    await queue.put(Event("transfer", status))
            before = {status["id"]: status for status in now}

    async def _follow_messages(self, queue: Any) -> None:
        try:
            async for status in self.messages():
                await queue.put(Event("message", status))
        except Refused:
            # A daemon without messages has transfers all the same.
            pass


def _told(status: Status) -> List[Any]:
    """What of a transfer a program would care for."""
    return [status.get(key) for key in ("state", "reason", "bytes", "size", "priority")]


def _with_bytes(status: Status) -> Status:
    return {**status, "body": base64.b64decode(status["body"])}


def _named(path: str) -> str:
    """Absolute. `.` and `..` have no name of their own, and a link keeps its."""
    last = os.path.basename(path.rstrip("/"))
    return os.path.realpath(path) if last in ("", ".", "..") else os.path.abspath(path)


def _path_in_json(path: str) -> Union[str, List[int]]:
    """A path as the protocol has it: a string, or the bytes one by one where they are no UTF-8."""
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        return list(os.fsencode(path))

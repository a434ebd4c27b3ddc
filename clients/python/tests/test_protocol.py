"""The client against a daemon of a few lines, which answers what a test wants."""

import array
import asyncio
import base64
import json
import os
import socket
import tempfile
import unittest
from pathlib import Path

import ringway

STATUS = {"reply": "status", "name": "oslo", "member": "abc", "ring": "ring.test", "pid": 1}
SPEAKER = {"control": 2, "ringway": "0.3.0"}
STREAM = {"id": "ab" * 16, "peer": "lima", "service": "echo", "priority": 1.0}


class Daemon:
    """Answers requests by `answers`, a function of the request; what it gives that is no reply is
    done with the connection."""

    def __init__(self, answers):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "control.sock"
        self.answers = answers
        self.requests = []

    async def __aenter__(self):
        self.server = await asyncio.start_unix_server(self.serve, self.path, limit=1 << 21)
        return self

    async def __aexit__(self, *_):
        self.server.close()
        self.folder.cleanup()

    async def serve(self, reader, writer):
        request = json.loads(await reader.readline())
        self.requests.append(request)
        found = [STATUS, {"reply": "done"}]
        if request["command"] != "status":
            found = self.answers(request)
        for reply in found:
            if callable(reply):
                await reply(reader, writer)
            else:
                writer.write(json.dumps({**SPEAKER, **reply}).encode() + b"\n")
        writer.close()

    async def client(self):
        return await ringway.Client.connect(socket=self.path)


async def echo(reader, writer):
    while True:
        data = await reader.read(4096)
        if not data:
            return
        writer.write(data)


class Protocol(unittest.IsolatedAsyncioTestCase):
    async def test_requests_say_who_asks(self):
        async with Daemon(lambda _: [{"reply": "done"}]) as daemon:
            client = await daemon.client()
            self.assertEqual((client.name, client.ring), ("oslo", "ring.test"))
            self.assertEqual(client.daemon, SPEAKER)
            self.assertEqual(await client.members(), [])
            self.assertEqual(daemon.requests[1]["command"], "members")
            self.assertEqual(daemon.requests[1]["control"], 2)

    async def test_refusals_are_typed(self):
        error = {"reply": "error", "usage": True, "message": "no member `paris`"}
        async with Daemon(lambda _: [error]) as daemon:
            client = await daemon.client()
            with self.assertRaisesRegex(ringway.Refused, "no member `paris`") as refused:
                await client.get("paris", "x")
            self.assertTrue(refused.exception.usage)
        async with Daemon(lambda _: []) as daemon:
            client = await daemon.client()
            with self.assertRaises(ringway.Closed):
                await client.transfers()
        async with Daemon(lambda _: [{"reply": "stored"}]) as daemon:
            client = await daemon.client()
            with self.assertRaises(ringway.Unexpected):
                await client.transfers()

    async def test_missing_and_old_daemons_are_named(self):
        with self.assertRaisesRegex(ringway.NotRunning, "ringway node"):
            await ringway.Client.connect(home="/nonexistent")
        async with Daemon(lambda _: []) as daemon:
            STATUS["control"] = None
            try:
                with self.assertRaises(ringway.Incompatible):
                    await daemon.client()
            finally:
                del STATUS["control"]

    async def test_garbage_is_no_answer(self):
        async def garbage(_, writer):
            writer.write(b"\xff\xfe[1]\n")

        async def endless(_, writer):
            writer.write(b"x" * (3 << 20))

        for what in (garbage, endless):
            async with Daemon(lambda _: [what]) as daemon:
                client = await daemon.client()
                with self.assertRaises((ringway.Unexpected, ringway.Closed)):
                    await client.transfers()

    async def test_stream_carries_bytes_and_half_closes(self):
        def answers(request):
            if request["command"] == "open":
                return [{"reply": "opened", **STREAM}, echo]
            return [{"reply": "stream", **STREAM, "priority": request["priority"]}]

        async with Daemon(answers) as daemon:
            client = await daemon.client()
            async with await client.open("lima", "echo") as stream:
                self.assertEqual((stream.peer, stream.service), ("lima", "echo"))
                self.assertEqual((await stream.set_priority(8))["priority"], 8)
                stream.writer.write(b"ping" * 1000)
                stream.writer.write_eof()
                self.assertEqual(await stream.reader.read(), b"ping" * 1000)

    async def test_listener_passes_over_those_that_have_gone(self):
        def answers(request):
            if request["command"] == "serve":
                incoming = {"reply": "incoming", "peer": "lima", "service": "echo"}
                return [
                    {"reply": "serving", "name": "echo"},
                    {**incoming, "id": "gone"},
                    {**incoming, "id": "here"},
                ]
            if request["id"] == "gone":
                return [{"reply": "error", "usage": False, "message": "it has gone"}]
            return [{"reply": "opened", **STREAM}, echo]

        async with Daemon(answers) as daemon:
            client = await daemon.client()
            async with await client.serve("echo", ["*"]) as listener:
                stream, peer = await listener.accept()
                self.assertEqual(peer, "lima")
                stream.writer.write(b"x")
                self.assertEqual(await stream.reader.readexactly(1), b"x")
                await stream.close()

    async def test_batches_are_stored_to_the_last(self):
        room = [700, 0]

        def store(request):
            stored = min(len(request["bodies"]), room.pop(0) if room else 1000)
            return [{"reply": "batch", "stored": stored}, {"reply": "done"}]

        bodies = ["text %d" % number for number in range(1500)] + [bytes(64 * 1024)] * 9
        async with Daemon(store) as daemon:
            client = await daemon.client()
            self.assertEqual(await client.send_messages("lima", bodies, priority="work"), 1509)
            self.assertEqual(await client.send_messages("lima", []), 0)
            taken, room = [], [700, 0]
            for request in daemon.requests[1:]:
                batch = [base64.b64decode(body) for body in request["bodies"]]
                self.assertEqual(request["priority"], "work")
                self.assertLessEqual(len(batch), 1000)
                self.assertLessEqual(sum(map(len, batch)), 512 * 1024)
                taken += batch[: room.pop(0) if room else 1000]
        self.assertEqual(taken, [b.encode() if isinstance(b, str) else b for b in bodies])

    async def test_messages_are_bytes(self):
        body = base64.b64encode(b"\x00hello").decode()
        message = {"reply": "message", "id": "1" * 32, "peer": "lima", "body": body}
        async with Daemon(lambda _: [message, {"reply": "done"}]) as daemon:
            client = await daemon.client()
            sent = await client.message(["lima"], b"\x00hello")
            self.assertEqual(sent[0]["body"], b"\x00hello")
            self.assertEqual(daemon.requests[1]["body"], body)
            got = [one["body"] async for one in client.messages()]
            self.assertEqual(got, [b"\x00hello"])

    async def test_events_are_changes(self):
        seen = []

        async def waits(reader, _):
            await reader.read()

        def answers(request):
            if request["command"] == "messages":
                return [waits]
            seen.append(request)
            moved = {"reply": "transfer", "id": "x", "bytes": len(seen)}
            return [moved, {"reply": "transfer", "id": "y"}, {"reply": "done"}]

        async with Daemon(answers) as daemon:
            client = await daemon.client()
            events = client.events()
            event = await events.__anext__()
            self.assertEqual((event.kind, event.status["id"]), ("transfer", "x"))
            event = await events.__anext__()
            self.assertEqual((event.status["id"], event.status["bytes"]), ("x", 3))
            await events.aclose()

    async def test_files_are_handed_over(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "control.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.fspath(path))
        listener.listen()
        file = Path(folder.name) / "file"
        file.write_text("report")

        def serve():
            for reply in (STATUS, {"reply": "transfer", "id": "x"}):
                end, _ = listener.accept()
                data, beside, _, _ = end.recvmsg(65536, socket.CMSG_SPACE(4))
                end.sendall(json.dumps({**SPEAKER, **reply}).encode() + b'\n{"reply":"done"}\n')
                end.close()
            listener.close()
            descriptors = array.array("i")
            descriptors.frombytes(beside[0][2])
            with open(descriptors[0], "rb") as handed:
                return json.loads(data), handed.read()

        serving = asyncio.get_running_loop().run_in_executor(None, serve)
        client = await ringway.Client.connect(socket=path)
        await client.send([file], ["lima"], priority=0)
        request, content = await serving
        self.assertEqual((request["path"], content), (os.fspath(file), b"report"))

    async def test_folders_and_several_members_are_one_request(self):
        def answers(request):
            sent = [{"reply": "transfer", "id": peer} for peer in request["peers"]]
            return [*sent, {"reply": "done"}]

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "file"
            file.write_text("report")
            async with Daemon(answers) as daemon:
                client = await daemon.client()
                sent = await client.send([folder, file], ["lima", "oslo"], by=7.5)
                await client.send([folder + "/."], ["lima"])
                with self.assertRaises(FileNotFoundError):
                    await client.send([folder, Path(folder) / "absent"], ["lima"])
                requests = daemon.requests[1:]
        self.assertEqual([one["id"] for one in sent], ["lima", "oslo"])
        first = {key: requests[0].get(key) for key in ("command", "paths", "by", "handed")}
        paths = [folder, os.fspath(file)]
        expected = {"command": "send_all", "paths": paths, "by": 7, "handed": "nothing"}
        self.assertEqual(first, expected)
        self.assertEqual(requests[1]["paths"], [os.path.realpath(folder)])
        self.assertEqual(len(requests), 2)


class Source(unittest.TestCase):
    def test_source_is_of_python_3_9(self):
        import ast

        for source in Path(ringway.__file__).parent.glob("*.py"):
            ast.parse(source.read_text(), feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()

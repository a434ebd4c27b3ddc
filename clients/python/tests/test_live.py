"""The client against two real daemons, whose home folders RINGWAY_OSLO and RINGWAY_LIMA name."""

import asyncio
import os
import sys
import tempfile
import unittest
from pathlib import Path

import ringway

OSLO = os.environ.get("RINGWAY_OSLO")
LIMA = os.environ.get("RINGWAY_LIMA")
LONG = 120


@unittest.skipUnless(OSLO and LIMA, "NOT TESTED: no daemons in RINGWAY_OSLO and RINGWAY_LIMA")
class Live(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.oslo = await ringway.Client.connect(home=OSLO)
        self.lima = await ringway.Client.connect(home=LIMA)

    async def within(self, work):
        """Waits for it, and passes over what this daemon does not do."""
        try:
            return await asyncio.wait_for(work, LONG)
        except ringway.Refused as error:
            if "does not do that" not in str(error):
                raise
            sys.stderr.write(f"SKIPPED: {self.id()}: {error}\n")
            self.skipTest(str(error))

    async def test_files_and_members(self):
        names = [member["name"] for member in await self.oslo.members()]
        self.assertIn("lima", names)
        with tempfile.TemporaryDirectory() as folder:
            # Each run has a file of its own.
            file = Path(folder) / f"report-{os.getpid()}"
            file.write_bytes(os.urandom(100_000))
            sent = await self.oslo.send([file], ["lima"], priority=0)
            ended = await asyncio.wait_for(self.oslo.wait(sent[0]["id"]), LONG)
        self.assertEqual((ended["state"], ended["bytes"]), ("done", 100_000), ended)
        came = [one for one in await self.lima.transfers() if one["id"] == ended["id"]]
        self.assertEqual(came[0]["direction"], "receive")

    async def test_folders(self):
        with tempfile.TemporaryDirectory() as outer:
            folder = Path(outer) / f"folder-{os.getpid()}"
            (folder / "empty").mkdir(parents=True)
            (folder / "file").write_text("inside")
            sent = await self.oslo.send([folder], ["lima"])
            ended = await asyncio.wait_for(self.oslo.wait(sent[0]["id"]), LONG)
        self.assertEqual((ended["state"], ended["kind"], ended["entries"]), ("done", "folder", 3))
        came = [one for one in await self.lima.transfers() if one["id"] == ended["id"]]
        self.assertEqual((Path(came[0]["path"]) / "file").read_text(), "inside")

    async def test_records(self):
        name = f"printer-{os.getpid()}"
        stored = await asyncio.wait_for(self.oslo.put(name, b"\x00ipp", 60), LONG)
        self.assertGreaterEqual(stored["copies"], 1)
        self.assertEqual(await self.lima.get("oslo", name), b"\x00ipp")
        self.assertIsNone(await self.lima.get("oslo", "no-such-record"))

    async def test_errors(self):
        with self.assertRaises(ringway.Refused) as refused:
            await self.oslo.get("nowhere", "x")
        self.assertTrue(refused.exception.usage, refused.exception)

    async def test_streams(self):
        listener = await self.within(self.lima.serve(f"echo-{os.getpid()}", ["oslo"]))

        async def echo():
            stream, peer = await listener.accept()
            data = await stream.reader.read()
            stream.writer.write(peer.encode() + data)
            await stream.writer.drain()
            await stream.close()

        echoing = asyncio.ensure_future(echo())
        stream = await self.within(self.oslo.open("lima", listener.status["name"]))
        await stream.set_priority(4)
        stream.writer.write(b"x" * 100_000)
        await stream.writer.drain()
        stream.writer.write_eof()
        back = await asyncio.wait_for(stream.reader.read(), LONG)
        self.assertEqual(back, b"oslo" + b"x" * 100_000)
        await stream.close()
        await echoing
        listener.close()

    async def test_messages(self):
        body = f"hello {os.getpid()}"
        await self.within(self.oslo.message(["lima"], body))
        self.assertEqual(await self.within(self.oslo.send_messages("lima", ["a", b"b"])), 2)

        async def receive():
            async for message in self.lima.messages():
                await self.lima.mark_read(message["peer"], message["id"])
                if message["body"] == body.encode():
                    return message["peer"]

        self.assertEqual(await asyncio.wait_for(receive(), LONG), "oslo")


if __name__ == "__main__":
    unittest.main()

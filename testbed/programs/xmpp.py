#!/usr/bin/env python3
"""Somebody who talks over XMPP (slixmpp): `xmpp.py ACCOUNT PASSWORD ADDRESS PORT FOLDER`.

Reads commands on stdin: `say JID TEXT`, `send JID PATH` (a file in the stream: XEP-0096, then XEP-0047) and `pass JID PATH` (XEP-0096, then
by the server's proxy: XEP-0065; who takes such files takes one at a time). Prints `calling` for each attempt to sign in, of which there
is one every five seconds while there is no connection, until one succeeds, `ready JID`, `message TEXT`, `file NAME` for what lies whole in FOLDER, `part NAME` for
what does not, and `failed REASON`. Encrypts nothing. Ends when stdin closes.
"""
import asyncio
import logging
import os
import sys

import slixmpp
from slixmpp.xmlstream import ET
from slixmpp.xmlstream.handler import CoroutineCallback
from slixmpp.xmlstream.matcher import MatchXPath

OFFER = "{http://jabber.org/protocol/si}si"
FILE = "{http://jabber.org/protocol/si/profile/file-transfer}file"
BLOCK = 4096
AGAIN = 5


def tell(*words):
    print(*words, flush=True)


class Somebody(slixmpp.ClientXMPP):
    def __init__(self, account, password, folder):
        super().__init__(account, password)
        self.folder = folder
        self.offered = {}
        self.passes = False
        self.let_in = False
        self.coming = None
        for plugin in ("xep_0030", "xep_0047", "xep_0065"):
            self.register_plugin(plugin)
        self["xep_0047"].auto_accept = True
        self["xep_0047"].max_block_size = 65536
        self["xep_0065"].auto_accept = True
        self["feature_mechanisms"].unencrypted_plain = True
        self.add_event_handler("session_start", self.begin)
        self.add_event_handler("message", self.heard)
        offered = MatchXPath("{jabber:client}iq/" + OFFER)
        self.register_handler(CoroutineCallback("an offer", offered, self.accept))
        self.add_event_handler("ibb_stream_start", self.take)
        self.add_event_handler("socks5_data", self.take_passed)
        self.add_event_handler("socks5_closed", self.end_passed)
        self.add_event_handler("connection_failed", lambda error: tell("failed", error))
        self.add_event_handler("disconnected", lambda _: tell("disconnected"))

    async def call(self, address, port):
        while not self.let_in:
            # A connection that stands is being signed in on.
            if self.transport is None:
                tell("calling")
                self.connect((address, port), disable_starttls=True, use_ssl=False)
            await asyncio.sleep(AGAIN)

    async def begin(self, _):
        self.let_in = True
        self.send_presence()
        tell("ready", self.boundjid.full)
        # Who keeps no task loses it.
        self.tasks = {asyncio.ensure_future(self.obey())}

    async def obey(self):
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := (await reader.readline()).decode().rstrip("\n"):
            command, jid, rest = line.split(" ", 2)
            self.tasks.add(asyncio.ensure_future(self.do(command, jid, rest)))
        os._exit(0)

    async def do(self, command, jid, rest):
        try:
            if command == "say":
                self.send_message(mto=jid, mbody=rest, mtype="chat")
            elif command == "send":
                await self.send_file(jid, rest)
            elif command == "pass":
                await self.pass_file(jid, rest)
        except Exception as error:
            tell("failed", repr(error))

    def heard(self, message):
        if message["type"] in ("chat", "normal") and message["body"]:
            tell("message", message["body"])

    async def accept(self, iq):
        offer = iq.xml.find(OFFER)
        if iq["type"] == "set":
            file = offer.find(FILE)
            self.offered[offer.get("id")] = (file.get("name"), int(file.get("size")))
            self.coming = (self.offered[offer.get("id")], [])
            iq.reply().send()

    async def offer(self, jid, path):
        name, size, sid = os.path.basename(path), os.path.getsize(path), self.new_id()
        # The library's own offer (its XEP-0096) fails on its form.
        offer = self.make_iq_set(ito=jid)
        profile = FILE[1:].split("}")[0]
        element = ET.Element(OFFER, {"id": sid, "profile": profile})
        ET.SubElement(element, FILE, {"name": name, "size": str(size)})
        offer.append(element)
        await offer.send(timeout=20)
        return sid

    async def send_file(self, jid, path):
        sid = await self.offer(jid, path)
        stream = await self["xep_0047"].open_stream(slixmpp.JID(jid), block_size=BLOCK, sid=sid)
        with open(path, "rb") as file:
            await stream.sendfile(file, timeout=20)
        await stream.close()

    async def take(self, stream):
        if stream.sid not in self.offered:
            return  # Our own.
        name, size = self.offered[stream.sid]
        try:
            self.store(name, size, await stream.gather(timeout=30))
        except Exception as error:
            tell("part", name, repr(error))

    async def pass_file(self, jid, path):
        self.passes = True
        sid = await self.offer(jid, path)
        stream = await self["xep_0065"].handshake(jid, sid=sid)
        with open(path, "rb") as file:
            await stream.write(file.read())
        # What is written and not yet sent goes first.
        stream.transport.close()

    def take_passed(self, data):
        if self.coming and not self.passes:
            self.coming[1].append(data)

    def end_passed(self, _):
        if self.coming and not self.passes:
            (name, size), data = self.coming
            self.coming = None
            self.store(name, size, b"".join(data))

    def store(self, name, size, data):
        if len(data) != size:
            tell("part", name)
            return
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)
        tell("file", name)


logging.basicConfig(level=logging.WARNING)
account, password, address, port, folder = sys.argv[1:6]
somebody = Somebody(account, password, folder)
calling = asyncio.ensure_future(somebody.call(address, int(port)), loop=somebody.loop)
somebody.process()

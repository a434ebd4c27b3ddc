#!/usr/bin/env python3
"""BitTorrent programs (libtorrent) that begin with a link: `magnet.py seed|lie FOLDER PORT MODE`,
`magnet.py fetch FOLDER PORT MODE ADDRESS LINK...`.

`seed` makes torrents of FOLDER/A film.bin and FOLDER/A book.bin next to them, seeds both, and serves the folder by HTTP at port
8080. It prints `infohash A film HEX` and so on, twice: of both versions. `lie` is a peer that has the metadata of no torrent, and
sends some of its own for any; it prints `infohash lie HEX` of the one that it stands for. `fetch` takes each LINK: a magnet link
or the address of a .torrent file, behind it `@` and the port of its peer at ADDRESS. It prints `metadata LINK` once it knows what
the torrent is, and `done LINK`. MODE is `plain` (TCP) or `utp`. Prints `ready`. Ends when stdin closes.
"""
import functools
import hashlib
import http.server
import os
import select
import socket
import sys
import threading
import time
import urllib.request

import libtorrent as lt

from torrent import settings

NAMES = ["A film", "A book"]
HTTP_PORT = 8080


def make(session, folder, name):
    files = lt.file_storage()
    lt.add_files(files, os.path.join(folder, name + ".bin"))
    # Small pieces have long metadata: several of its own pieces.
    made = lt.create_torrent(files, 16384)
    lt.set_piece_hashes(made, folder)
    torrent = os.path.join(folder, name + ".torrent")
    with open(torrent, "wb") as out:
        out.write(lt.bencode(made.generate()))
    info = lt.torrent_info(torrent)
    hashes = info.info_hashes()
    print("infohash", name, hashes.v1, flush=True)
    print("infohash", name, hashes.v2, flush=True)
    return session.add_torrent({"ti": info, "save_path": folder})


def serve(folder):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    handler.func.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("0.0.0.0", HTTP_PORT), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def message(number, head, data=b""):
    body = bytes([20, number]) + lt.bencode(head) + data
    return len(body).to_bytes(4, "big") + body


def lie_to(peer):
    """What an honest peer would say, but for the metadata."""
    shake = b""
    while len(shake) < 68:
        shake += peer.recv(68 - len(shake))
    made = lt.bencode({b"length": 9, b"name": b"A lie.bin", b"piece length": 16384, b"pieces": bytes(20)})
    peer.sendall(shake[:48] + b"-XX0001-abcdefghijkl")
    peer.sendall(message(0, {b"m": {b"ut_metadata": 2}, b"metadata_size": len(made)}))
    head = {b"msg_type": 1, b"piece": 0, b"total_size": len(made)}
    while True:
        length = peer.recv(4, socket.MSG_WAITALL)
        if len(length) < 4:
            return
        body = peer.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
        if body[:2] == b"\x14\x00":
            theirs = lt.bdecode(body[2:])[b"m"][b"ut_metadata"]
        elif body[:2] == b"\x14\x02":
            peer.sendall(message(theirs, head, made))
            print("lied", flush=True)


def lie(port):
    print("infohash", "lie", hashlib.sha1(b"no torrent").hexdigest(), flush=True)
    listener = socket.create_server(("0.0.0.0", int(port)))

    def accept():
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=lie_to, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def fetch(session, folder, links):
    handles = {}
    for link in links:
        target, port = link.rsplit("@", 1)
        folder = os.path.join(folder, "fetched")
        if target.startswith("magnet:"):
            parameters = lt.parse_magnet_uri(target)
            parameters.save_path = folder
        else:
            with urllib.request.urlopen(target) as answer:
                parameters = {"ti": lt.torrent_info(lt.bdecode(answer.read())), "save_path": folder}
        handles[target] = (session.add_torrent(parameters), int(port))
    return handles


def main():
    role, folder, port, mode = sys.argv[1:5]
    handles, told = {}, set()
    if role == "lie":
        lie(port)
    else:
        session = lt.session(settings(mode, port))
    if role == "seed":
        seeded = [make(session, folder, name) for name in NAMES]
        serve(folder)
    if role == "fetch":
        handles = fetch(session, folder, sys.argv[6:])
    print("ready", flush=True)
    while True:
        for link, (handle, peer) in handles.items():
            status = handle.status()
            if not status.is_seeding:
                handle.connect_peer((sys.argv[5], peer))
            for what, is_so in [("metadata", status.has_metadata), ("done", status.is_seeding)]:
                if is_so and (what, link) not in told:
                    told.add((what, link))
                    print(what, link, flush=True)
        readable, _, _ = select.select([sys.stdin], [], [], 0.5)
        if readable and not sys.stdin.read(1):
            return
        time.sleep(0.1)


main()

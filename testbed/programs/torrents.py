#!/usr/bin/env python3
"""A BitTorrent program (libtorrent) with two torrents: `torrents.py seed|fetch FOLDER PORT MODE [PEER PORT]`.

The files are FOLDER/denied.bin and FOLDER/allowed.bin; `seed` makes FOLDER/denied.torrent and FOLDER/allowed.torrent next to
them, and prints `infohash NAME HEX` of each, twice: of both versions. MODE is `plain` (TCP) or `utp`. Prints `ready`, and of each torrent `has NAME
BYTES` when there is more of it than before, and `done NAME` when it is whole. Ends when stdin closes.
"""
import os
import select
import sys
import time

import libtorrent as lt

from torrent import settings

NAMES = ["denied", "allowed"]


def add(session, role, folder, name):
    torrent = os.path.join(folder, name + ".torrent")
    if role == "seed":
        files = lt.file_storage()
        lt.add_files(files, os.path.join(folder, name + ".bin"))
        made = lt.create_torrent(files, 16384)
        lt.set_piece_hashes(made, folder)
        with open(torrent, "wb") as out:
            out.write(lt.bencode(made.generate()))
    info = lt.torrent_info(torrent)
    if role == "seed":
        # Torrents of both versions have an infohash of each, and peers use either.
        hashes = info.info_hashes()
        print("infohash", name, hashes.v1, flush=True)
        print("infohash", name, hashes.v2, flush=True)
    target = folder if role == "seed" else os.path.join(folder, "fetched")
    return session.add_torrent({"ti": info, "save_path": target})


def main():
    role, folder, port, mode = sys.argv[1:5]
    session = lt.session(settings(mode, port))
    handles = {name: add(session, role, folder, name) for name in NAMES}
    print("ready", flush=True)
    told, done = {name: 0 for name in NAMES}, set()
    while True:
        for name, handle in handles.items():
            if role != "fetch" or name in done:
                continue
            handle.connect_peer((sys.argv[5], int(sys.argv[6])))
            status = handle.status()
            if status.total_done > told[name]:
                told[name] = status.total_done
                print("has", name, told[name], flush=True)
            if status.is_seeding:
                done.add(name)
                print("done", name, flush=True)
        readable, _, _ = select.select([sys.stdin], [], [], 0.5)
        if readable and not sys.stdin.read(1):
            return
        time.sleep(0.1)


main()

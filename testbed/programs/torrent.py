#!/usr/bin/env python3
"""A BitTorrent program (libtorrent) that does one transfer: `torrent.py seed|fetch FOLDER PORT MODE [PEER PORT]`.

FOLDER/file.bin is the file, FOLDER/file.torrent is made by `seed` next to it and read by `fetch`. MODE is `plain`, `encrypted`
(nothing else is accepted) or `utp` (no TCP). Prints `ready`, `has BYTES` when
there is more of the file than before, and `done` when it is whole. Ends when stdin closes.
"""
import os
import select
import sys
import time

import libtorrent as lt


def settings(mode, port):
    return {
        "listen_interfaces": f"0.0.0.0:{port}",
        "enable_dht": False,
        "enable_lsd": False,
        "enable_upnp": False,
        "enable_natpmp": False,
        "enable_incoming_tcp": mode != "utp",
        "enable_outgoing_tcp": mode != "utp",
        "enable_incoming_utp": mode == "utp",
        "enable_outgoing_utp": mode == "utp",
        "in_enc_policy": 0 if mode == "encrypted" else 2,
        "out_enc_policy": 0 if mode == "encrypted" else 2,
        "allowed_enc_level": 2 if mode == "encrypted" else 1,
        # As in a user's program: who refuses is tried again soon.
        "min_reconnect_time": 2,
        "connect_seed_every_n_download": 1,
        "peer_connect_timeout": 5,
        "alert_mask": 0,
    }


def main():
    role, folder, port, mode = sys.argv[1:5]
    session = lt.session(settings(mode, port))
    torrent = os.path.join(folder, "file.torrent")
    if role == "seed":
        files = lt.file_storage()
        lt.add_files(files, os.path.join(folder, "file.bin"))
        made = lt.create_torrent(files, 16384)
        lt.set_piece_hashes(made, folder)
        with open(torrent, "wb") as out:
            out.write(lt.bencode(made.generate()))
    parameters = {"ti": lt.torrent_info(torrent), "save_path": folder}
    if role == "fetch":
        parameters["save_path"] = os.path.join(folder, "fetched-" + mode)
    handle = session.add_torrent(parameters)
    print("ready", flush=True)
    told, done = 0, False
    while True:
        if role == "fetch" and not done:
            handle.connect_peer((sys.argv[5], int(sys.argv[6])))
            status = handle.status()
            if status.total_done > told:
                told = status.total_done
                print("has", told, flush=True)
            if status.is_seeding:
                done = True
                print("done", flush=True)
        readable, _, _ = select.select([sys.stdin], [], [], 0.5)
        if readable and not sys.stdin.read(1):
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main()

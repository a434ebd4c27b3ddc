#!/usr/bin/env python3
"""A transport for Ringway that carries messages through a shared folder.

Each member has a sub-folder, and its name is the member's address. A message is a file in the receiver's
sub-folder: it is written beside it and then renamed, so a reader never sees half of one. The folder may be
on a file server, a synchronised directory, or a stick that somebody carries about.

The frames on standard input and output are those of the `exec` transport; only the standard library is needed.
"""

import argparse
import json
import os
import re
import struct
import sys
import threading
import time

MTU = 32 * 1024
NAME = re.compile(r"[a-z0-9-]{1,32}\Z")  # a name that cannot leave the folder
FULL = 1000  # files that wait in one sub-folder; past it messages are dropped
OLD = 3600.0  # seconds after which a message that nobody fetched is deleted


def send_frame(kind, body):
    """Writes one frame: the length of all that follows, the kind, the body."""
    sys.stdout.buffer.write(struct.pack(">I", 1 + len(body)) + kind + body)
    sys.stdout.buffer.flush()


def log(line):
    send_frame(b"L", line.encode())


def read_exactly(size):
    """Reads so many bytes; ends the program at the end of the input, as we then have no more to do."""
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        os._exit(0)
    return data


def deliver(folder, own, number, to, message):
    """Puts a message into the receiver's sub-folder, or drops it: nothing here is promised to arrive."""
    target = os.path.join(folder, to)
    if not NAME.match(to) or not os.path.isdir(target) or len(os.listdir(target)) >= FULL:
        return
    name = f"{time.time_ns():020}-{os.getpid()}-{number}-{own}"
    hidden = os.path.join(folder, "." + name)
    with open(hidden, "xb") as file:
        file.write(message)
    os.rename(hidden, os.path.join(target, name))


def take_orders(folder, own):
    """Reads frames from Ringway until it closes our input."""
    number = 0
    while True:
        (length,) = struct.unpack(">I", read_exactly(4))
        frame = read_exactly(length)
        if frame[:1] != b"M":
            continue  # a kind of a later version
        (size,) = struct.unpack(">H", frame[1:3])
        to, message = frame[3 : 3 + size].decode("ascii", "replace"), frame[3 + size :]
        number += 1
        try:
            deliver(folder, own, number, to, message)
        except OSError as error:
            print(f"a message to {to} is lost: {error}", file=sys.stderr, flush=True)


def fetch(path, file):
    """Reads one message that waits, deletes it, and hands it to Ringway."""
    whole = os.path.join(path, file)
    sender = file.split("-", 3)[3] if file.count("-") >= 3 else ""
    state = os.stat(whole)
    if state.st_size <= MTU and time.time() - state.st_mtime < OLD and NAME.match(sender):
        with open(whole, "rb") as opened:
            message = opened.read(MTU)
        os.unlink(whole)
        address = sender.encode()
        send_frame(b"M", struct.pack(">H", len(address)) + address + message)
    else:
        os.unlink(whole)


def main():
    arguments = argparse.ArgumentParser(description="carries Ringway's messages through a shared folder")
    arguments.add_argument("--folder", required=True, help="the shared folder, by its absolute path")
    arguments.add_argument("--name", required=True, help="our sub-folder: a-z, 0-9 and hyphens")
    arguments.add_argument("--poll", type=float, default=1.0, help="seconds between two looks")
    options = arguments.parse_args()
    if not NAME.match(options.name):
        arguments.error("the name has a-z, 0-9 and hyphens, at most 32")
    path = os.path.join(options.folder, options.name)
    os.makedirs(path, exist_ok=True)

    hello = {"version": 1, "mtu": MTU, "cost": 500, "latency": "seconds", "addresses": [options.name]}
    send_frame(b"H", json.dumps(hello).encode())
    log(f"messages to {options.name} wait in {path}")
    threading.Thread(target=take_orders, args=(options.folder, options.name), daemon=True).start()
    while True:
        for file in sorted(os.listdir(path)):
            try:
                fetch(path, file)
            except (OSError, IsADirectoryError) as error:
                print(f"{file} is left: {error}", file=sys.stderr, flush=True)
        time.sleep(options.poll)


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)

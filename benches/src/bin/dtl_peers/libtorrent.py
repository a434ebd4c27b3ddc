"""One end of a flow over libtorrent's uTP: `receive IP:PORT [--cpu]` or `send IP:PORT SECONDS [--cpu]`.

A torrent of zeros, known to both, goes from a seed to a leecher. What is printed: see main.rs.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time

import libtorrent as lt

PIECE = 1 << 20
PIECES = 16384
NAME = "zeros"
# Before the process id and some letters.
FOLDER = "dtl-peers-"
# Generous: a limit that only turns a hang into a failure.
PATIENCE = 30
# Seconds in which a closed connection has to be gone.
FAREWELL = 1

SETTINGS = {
    # uTP and nothing else.
    "enable_incoming_tcp": False,
    "enable_outgoing_tcp": False,
    "enable_dht": False,
    "enable_lsd": False,
    "enable_upnp": False,
    "enable_natpmp": False,
    "in_enc_policy": 2,
    "out_enc_policy": 2,
    "allow_multiple_connections_per_ip": True,
    "unchoke_slots_limit": -1,
    # Limits that suit disks: they must not be what limits the flow.
    "max_queued_disk_bytes": 64 << 20,
    "send_buffer_watermark": 8 << 20,
    "send_buffer_low_watermark": 1 << 20,
    "send_buffer_watermark_factor": 200,
    "max_out_request_queue": 2000,
    "alert_mask": lt.alert.category_t.status_notification | lt.alert.category_t.error_notification,
}


def main():
    words = sys.argv[1:]
    cpu = "--cpu" in words
    words = [word for word in words if word != "--cpu"]
    folder = own_folder()
    try:
        address, port = words[1].rsplit(":", 1)
        if words[0] == "receive":
            receive(folder, address, int(port))
        else:
            send(folder, address, int(port), float(words[2]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if cpu:
        waited = sum(int(open(f"/proc/self/task/{task}/schedstat").read().split()[1]) for task in os.listdir("/proc/self/task"))
        say(f"cpu {time.process_time():.6f}")
        say(f"waited {waited / 1e9:.6f}")
    sys.stdout.flush()
    # The session's threads would take their time to say goodbye to trackers that there are none of.
    os._exit(0)


def own_folder():
    """In memory where possible. Removes what those have left who were killed."""
    parent = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
    for name in os.listdir(parent):
        words = name.split("-")
        if name.startswith(FOLDER) and len(words) == 4 and words[2].isdigit() and not os.path.exists(f"/proc/{words[2]}"):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=parent)


def say(text):
    print(text, flush=True)


def torrent(folder, **more):
    piece = hashlib.sha1(bytes(PIECE)).digest()
    info = {b"name": NAME.encode(), b"piece length": PIECE, b"length": PIECE * PIECES, b"pieces": piece * PIECES}
    parameters = lt.add_torrent_params()
    parameters.ti = lt.torrent_info({b"info": info})
    parameters.save_path = folder
    parameters.flags &= ~(lt.torrent_flags.auto_managed | lt.torrent_flags.paused)
    for flag in more.get("flags", []):
        parameters.flags |= flag
    return parameters


class Counter:
    """A counter of the session; others come once a second only."""

    def __init__(self, session, name):
        self.session, self.name = session, name

    def read(self):
        self.session.post_session_stats()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.session.wait_for_alert(1000)
            for alert in self.session.pop_alerts():
                if isinstance(alert, lt.session_stats_alert):
                    return alert.values[self.name]
        raise SystemExit("libtorrent gives no statistics")


def until_listening(session):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        session.wait_for_alert(1000)
        for alert in session.pop_alerts():
            if isinstance(alert, lt.listen_failed_alert):
                raise SystemExit(alert.message())
            if isinstance(alert, lt.listen_succeeded_alert):
                return
    raise SystemExit("libtorrent does not listen")


def receive(folder, address, port):
    closed = threading.Event()

    def watch():
        while sys.stdin.buffer.read(64):
            pass
        closed.set()

    threading.Thread(target=watch, daemon=True).start()
    session = lt.session({**SETTINGS, "listen_interfaces": f"{address}:{port}"})
    until_listening(session)
    handle = session.add_torrent(torrent(folder))
    say("ready")
    bytes_in = Counter(session, "net.recv_payload_bytes")
    while bytes_in.read() == 0:
        if closed.wait(0.01):
            return
    first, due = time.monotonic(), 0.1
    while True:
        ended = closed.wait(max(0, first + due - time.monotonic()))
        say(f"{time.monotonic() - first:.6f} {bytes_in.read()}")
        due += 0.1
        if ended or handle.status().num_peers == 0:
            return


def send(folder, address, port, seconds):
    with open(os.path.join(folder, NAME), "wb") as file:
        file.truncate(PIECE * PIECES)
    session = lt.session({**SETTINGS, "listen_interfaces": "0.0.0.0:0"})
    handle = session.add_torrent(torrent(folder, flags=[lt.torrent_flags.seed_mode]))
    bytes_out = Counter(session, "net.sent_payload_bytes")
    begun, asked = time.monotonic(), 0
    while bytes_out.read() == 0:
        # Until the torrent is checked it forgets whom it was told to connect to.
        if time.monotonic() > begun + asked:
            handle.connect_peer((address, port))
            asked += 1
        if time.monotonic() > begun + PATIENCE:
            raise SystemExit(f"no leecher at {address}:{port}")
        time.sleep(0.01)
    time.sleep(seconds)
    # Says goodbye to the leecher, and again should that be lost.
    session.pause()
    end = time.monotonic() + FAREWELL
    while handle.status().num_peers > 0 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.2)


main()

#!/usr/bin/env python3
"""Runs a program that wants a terminal: `terminal.py PROGRAM ARGUMENT...`.

What is read on stdin is typed into it, what it shows goes to stdout. Ends, and ends the program, when stdin closes.
"""
import os
import pty
import select
import signal
import sys

child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[1], sys.argv[1:])
try:
    while True:
        ready, _, _ = select.select([0, terminal], [], [])
        if 0 in ready:
            typed = os.read(0, 4096)
            if not typed:
                break
            os.write(terminal, typed)
        if terminal in ready:
            os.write(1, os.read(terminal, 65536))
except OSError:
    # The program has ended.
    pass
try:
    os.kill(child, signal.SIGKILL)
except ProcessLookupError:
    pass

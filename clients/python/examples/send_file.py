"""Sends a file at priority 0 and waits until it is there: send_file.py FILE PEER."""

import asyncio
import sys

import ringway


async def main(file: str, peer: str) -> None:
    client = await ringway.Client.connect()
    for sent in await client.send([file], [peer], priority=0):
        ended = await client.wait(sent["id"])
        print(f"{ended['file']} to {ended['peer']}: {ended['state']}")


asyncio.run(main(*sys.argv[1:]))

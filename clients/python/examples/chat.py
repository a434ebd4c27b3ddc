"""Prints what members write, and sends one message before: chat.py PEER TEXT."""

import asyncio
import sys

import ringway


async def main(peer: str, text: str) -> None:
    client = await ringway.Client.connect()
    await client.message([peer], text)
    async for message in client.messages():
        # `ascii` shows control characters as escapes.
        print(message["peer"], ascii(message["body"].decode(errors="replace")))
        await client.mark_read(message["peer"], message["id"])


asyncio.run(main(*sys.argv[1:]))

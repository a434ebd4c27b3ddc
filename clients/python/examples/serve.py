"""Offers a service to all members that sends back what it gets: serve.py NAME."""

import asyncio
import sys

import ringway


async def main(name: str) -> None:
    client = await ringway.Client.connect()
    async with await client.serve(name, ["*"]) as listener:
        async for stream, peer in listener:
            print(f"{peer} has come")
            asyncio.ensure_future(echo(stream))


async def echo(stream: ringway.Stream) -> None:
    async with stream:
        while data := await stream.reader.read(65536):
            stream.writer.write(data)
            await stream.writer.drain()


asyncio.run(main(*sys.argv[1:]))

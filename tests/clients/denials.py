"""Denies 200 calls of PyPI `mcp` 2.x, in the mode of the argument. Each must be told to the client at once."""

import asyncio

import bench
from bench_mcp_2 import connect

TRIES = 200


async def main():
    async with connect(bench.CAREFUL_TOKEN) as client:
        for at in range(TRIES):
            call = asyncio.create_task(client.call("call_files_write", {"path": f"{at}.txt", "content": "hello"}))
            await bench.want("deny at once")
            told = await call
            assert told.is_error and "a person denied this call" in told.text, (at, told)


asyncio.run(main())

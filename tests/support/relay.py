# SPDX-License-Identifier: Apache-2.0
"""A way to a server that can be cut: ``python -m tests.support.relay PORT TARGET`` passes bytes between two ports of
loopback. Whoever kills it cuts every connection, and nobody answers at PORT until it runs again."""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        target.close()


async def main(port: int, target: int) -> None:
    async def connected(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, onwards = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(carry(near, onwards), carry(far, back))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))

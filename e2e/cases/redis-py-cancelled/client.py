"""Gets the key in each line that it is sent. It gives up after 200 ms the first time, and has patience afterwards."""

import asyncio

import redis.asyncio


async def main():
    pool = redis.asyncio.ConnectionPool(host="cache", max_connections=1, decode_responses=True)
    client = redis.asyncio.Redis(connection_pool=pool)
    await client.ping()
    patience = [0.2]

    async def lines(reader, writer):
        while line := await reader.readline():
            try:
                said = await asyncio.wait_for(client.get(line.decode().strip()), patience.pop() if patience else 3)
            except asyncio.TimeoutError:
                said = "error timeout"
            writer.write(f"{said}\n".encode())
            await writer.drain()

    server = await asyncio.start_server(lines, port=7000)
    await server.serve_forever()


asyncio.run(main())

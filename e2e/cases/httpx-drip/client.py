"""Gets the server's answer for each line that it is sent, with a time of a second."""

import asyncio
import sys

import httpx


client = httpx.AsyncClient(timeout=1, trust_env=False, verify=False)


async def get():
    answer = await client.get("http://server:8080/")
    return f"{answer.status_code} {len(answer.content)}"


async def lines(reader, writer):
    while await reader.readline():
        try:
            # The right program has a deadline of its own for the request as a whole.
            said = await asyncio.wait_for(get(), None if sys.argv[1] == "affected" else 1)
        except (httpx.HTTPError, asyncio.TimeoutError) as error:
            said = f"error {type(error).__name__}"
        writer.write(said.encode() + b"\n")
        await writer.drain()


async def main():
    server = await asyncio.start_server(lines, port=7000)
    await server.serve_forever()


asyncio.run(main())

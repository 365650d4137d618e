"""A client in three manners: blocking, urllib, asyncio. Prints one JSON object about a request."""
import asyncio
import errno
import json
import socket
import sys
import time
import urllib.error
import urllib.request

manner, host, port, limit = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
began = time.monotonic()
out = {"error": "", "connect_ms": -1, "total_ms": 0, "gap_ms": 0, "peer": ""}


def since():
    return int((time.monotonic() - began) * 1000)


def name(e):
    while isinstance(e, urllib.error.URLError) and isinstance(e.reason, OSError):
        e = e.reason
    if isinstance(e, OSError) and e.errno:
        return errno.errorcode[e.errno]
    return "timeout" if isinstance(e, TimeoutError) else repr(e)


def blocking():
    s = socket.socket()
    s.connect((host, port))
    out["connect_ms"], out["peer"] = since(), "%s:%d" % s.getpeername()
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    while s.recv(4096):
        pass


def with_urllib():
    with urllib.request.urlopen("http://%s:%d/" % (host, port), timeout=limit) as r:
        r.read()
    out["connect_ms"] = since()


async def with_asyncio():
    async def tick():
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            out["gap_ms"] = max(out["gap_ms"], int((now - last) * 1000))
            last = now

    async def request():
        reader, writer = await asyncio.open_connection(host, port)
        out["connect_ms"] = since()
        out["peer"] = "%s:%d" % writer.get_extra_info("peername")
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await reader.read()

    ticking = asyncio.create_task(tick())
    try:
        await asyncio.wait_for(request(), limit)
    finally:
        ticking.cancel()


try:
    if manner == "asyncio":
        asyncio.run(with_asyncio())
    else:
        {"blocking": blocking, "urllib": with_urllib}[manner]()
except Exception as e:
    out["error"] = name(e)
out["total_ms"] = since()
print(json.dumps(out))

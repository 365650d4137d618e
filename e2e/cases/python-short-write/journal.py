"""Appends records to a file: "append RECORD" and "read"."""

import os
import socketserver
import sys

PATH = "/tmp/journal"


def append(record):
    fd = os.open(PATH, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        data = record + b"\n"
        written = os.write(fd, data)
        while sys.argv[1] == "right" and written < len(data):
            written += os.write(fd, data[written:])
    finally:
        os.close(fd)


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            verb, _, rest = line.strip().partition(b" ")
            try:
                if verb == b"append":
                    append(rest)
                    said = b"ok"
                else:
                    with open(PATH, "rb") as f:
                        said = b",".join(f.read().split())
            except OSError as error:
                said = b"error " + str(error).encode()
            self.wfile.write(said + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True


Server(("", 7000), Lines).serve_forever()

"""Runs cat: "fill" makes its input, "file" copies it to a file, "pipe" to a pipe."""

import socketserver
import subprocess

COMMANDS = {
    "fill": "head -c 100000 /dev/zero > /tmp/in && echo ok",
    "file": "cat /tmp/in > /tmp/out && test $(stat -c %s /tmp/out) = 100000 && echo ok",
    "pipe": "cat /tmp/in | wc -c | grep -q 100000 && echo ok",
}


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            done = subprocess.run(COMMANDS[line.decode().strip()], shell=True, capture_output=True, text=True)
            said = " ".join((done.stdout + done.stderr).split()) or "error"
            self.wfile.write(said.encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True


Server(("", 7000), Lines).serve_forever()

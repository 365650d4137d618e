"""Reads what the server sends until its end, for each line that it is sent, and says how much that was."""

import socket
import socketserver
import ssl
import sys

context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE


def get():
    with socket.create_connection(("server", 8443), timeout=3) as connection:
        tls = context.wrap_socket(connection, suppress_ragged_eofs=sys.argv[1] == "affected")
        total = 0
        while data := tls.recv(65536):
            total += len(data)
        return total


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for _ in self.rfile:
            try:
                said = str(get())
            except OSError as error:
                said = f"error {type(error).__name__}"
            self.wfile.write(said.encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True


Server(("", 7000), Lines).serve_forever()

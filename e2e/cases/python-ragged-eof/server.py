"""Sends 100000 bytes by TLS and ends properly."""

import socket
import ssl
import subprocess
import threading

subprocess.run(
    "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=server -keyout /tmp/key.pem -out /tmp/cert.pem",
    shell=True, check=True, capture_output=True,
)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/cert.pem", "/tmp/key.pem")


def serve(connection):
    try:
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.sendall(b"x" * 100000)
            tls.unwrap()
    except OSError:
        pass


listener = socket.create_server(("", 8443))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

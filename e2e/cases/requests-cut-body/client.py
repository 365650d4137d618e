"""Gets the server's answer for each line that it is sent, and says how long that was."""

import socketserver

import requests


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for _ in self.rfile:
            try:
                answer = requests.get("http://server:8080/", timeout=2)
                said = f"{answer.status_code} {len(answer.content)}"
            except requests.RequestException as error:
                said = f"error {type(error).__name__}"
            self.wfile.write(said.encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True


Server(("", 7000), Lines).serve_forever()

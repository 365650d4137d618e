"""UDP: "serve PORT" echoes until killed; "ask HOST PORT MANNER" sends twice and prints what came from where."""
import socket
import sys

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "serve":
    s.bind(("0.0.0.0", int(sys.argv[2])))
    while True:
        data, peer = s.recvfrom(2000)
        s.sendto(b"re: " + data, peer)

to, manner = (sys.argv[2], int(sys.argv[3])), sys.argv[4]
s.settimeout(5)
if manner == "connect":
    s.connect(to)
for text in (b"one", b"two"):
    if manner == "sendto":
        s.sendto(text, to)
    elif manner == "sendmsg":
        s.sendmsg([text], [], 0, to)
    else:
        s.send(text)
    data, peer = s.recvfrom(2000)
    print(data.decode(), peer[1], end=" ")

"""Reads and writes orders, by a pool of one connection: "read" and "write"."""

import socketserver
import sys

import psycopg2
from sqlalchemy import create_engine, event, exc, text


def connect():
    """Returns a connection to the first of the two servers that takes writes, or that is there at all."""
    for host in ("one", "two"):
        connection = psycopg2.connect(host=host, user="shop", dbname="shop", sslmode="disable", connect_timeout=2)
        if sys.argv[1] == "affected":
            return connection
        try:
            connection.cursor().execute("INSERT INTO orders (item, qty) VALUES ('probe', 1)")
            connection.rollback()
            return connection
        except psycopg2.errors.ReadOnlySqlTransaction:
            connection.close()
    raise psycopg2.OperationalError("no server takes writes")


engine = create_engine("postgresql+psycopg2://", creator=connect, pool_size=1, max_overflow=0, pool_pre_ping=True)

if sys.argv[1] == "right":

    @event.listens_for(engine, "handle_error")
    def demoted(context):
        if getattr(context.original_exception, "pgcode", None) == "25006":
            context.is_disconnect = True


STATEMENTS = {"read": "SELECT count(*) FROM orders", "write": "INSERT INTO orders (item, qty) VALUES ('widget', 1)"}


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            try:
                with engine.begin() as connection:
                    connection.execute(text(STATEMENTS[line.decode().strip()]))
                said = "ok"
            except exc.SQLAlchemyError as error:
                said = f"error {getattr(error.orig, 'pgcode', None)}" if isinstance(error, exc.DBAPIError) else f"error {type(error).__name__}"
            self.wfile.write(said.encode() + b"\n")


class Server(socketserver.TCPServer):
    allow_reuse_address = True


Server(("", 7000), Lines).serve_forever()

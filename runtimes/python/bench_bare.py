"""A bare WSGI hello on waitress, with the server's settings, as the benchmark's reference: see e2e/bench/runtime."""

import os
import socket

import waitress

BODY = os.environ.get("GREETING", "hello").encode()
HEADERS = [("Content-Type", "text/html; charset=UTF-8"), ("Content-Length", str(len(BODY)))]


def hello(_environ, start_response):
    """Answer what the benchmark's handlers return."""
    start_response("200 OK", HEADERS)
    return [BODY]


def main():
    """Serve until a signal ends it."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", int(os.environ.get("SERVER_PORT") or os.environ.get("FUNC_PORT") or 8080)))
    server = waitress.create_server(
        hello,
        sockets=[bound],
        threads=int(os.environ.get("SERVER_NUMTHREADS", "50")),
        ident=None,
        backlog=1024,
        connection_limit=10_000,
        channel_timeout=120,
        clear_untrusted_proxy_headers=False,
        asyncore_use_poll=True,
    )
    print(f"listening on 127.0.0.1:{server.effective_port}", flush=True)
    server.run()


if __name__ == "__main__":
    main()

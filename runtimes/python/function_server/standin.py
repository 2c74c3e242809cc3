"""Stands in for a Function whose pod starts: waits without a handler until the controller hands over a Function's
environment, and then becomes its server.

It accepts one hand-over in its life, from who knows the key whose SHA-256 is in FUNC_STAND_IN. The answer follows once
the Function's server listens. A handler that does not load ends the process, as in any pod.
"""

import asyncio
import hashlib
import hmac
import json
import os
import signal
import sys

VARIABLE = "FUNC_STAND_IN"
PATH = b"/.well-known/rouse/stand-in"
MAX_HEAD, MAX_BODY = 16 * 1024, 1024 * 1024
MAX_CONNECTIONS = 64
TIMEOUT_SECONDS = 2  # for a whole request, so that strangers cannot hold all connections
READY = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


def wait(env):
    """Wait for the hand-over, set the environment, and return the descriptor to which the server writes READY."""
    descriptor = asyncio.run(_StandIn(env).run())
    if descriptor is None:
        sys.exit(0)
    return descriptor


class _StandIn:
    """Serves on the Function's port until the hand-over."""

    def __init__(self, env):
        self._digest = env.pop(VARIABLE)
        self._env = env
        self._connections = 0
        self._result = None

    async def run(self):
        """Return the descriptor of the connection that waits for its answer, or None when a signal ends the process."""
        _warm()
        loop = asyncio.get_running_loop()
        self._result = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, None)
        port = self._env.get("FUNC_PORT", "8080")
        server = await asyncio.start_server(self._serve, "0.0.0.0", int(port), limit=MAX_HEAD, reuse_address=True)
        port = server.sockets[0].getsockname()[1]
        print(f"stands in, listening on 0.0.0.0:{port}", flush=True)
        taken = await self._result
        server.close()
        if taken is None:
            return None
        descriptor, environment = taken
        if "FUNC_PORT" in self._env:
            self._env["FUNC_PORT"] = str(port)
        self._env.update(environment)
        return descriptor

    def _end(self, result):
        if not self._result.done():
            self._result.set_result(result)

    async def _serve(self, reader, writer):
        self._connections += 1
        try:
            if self._connections <= MAX_CONNECTIONS:
                answer = await asyncio.wait_for(self._take(reader, writer), TIMEOUT_SECONDS)
                if answer:
                    writer.write(_response(*answer))
                    await writer.drain()
        except (TimeoutError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            self._connections -= 1
            writer.close()

    async def _take(self, reader, writer):
        """Return the answer, or None when the Function's server gives it."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, path = (head.split(b" ", 2) + [b""])[:2]
        if method == b"GET" and path == b"/healthz":
            return "200 OK", "OK"
        if method != b"POST" or path != PATH:
            return "503 Service Unavailable", "no Function is loaded"
        length = _length(head)
        if not 0 < length <= MAX_BODY:
            return "400 Bad Request", "the body needs a Content-Length of at most 1 MiB"
        try:
            key, environment = _parse(await reader.readexactly(length))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return "400 Bad Request", str(error)
        if not hmac.compare_digest(hashlib.sha256(key.encode()).hexdigest(), self._digest):
            return "403 Forbidden", "the key is not that of this pod"
        if self._result.done():
            return "409 Conflict", "a Function is loaded"
        # asyncio closes its own descriptor.
        self._end((os.dup(writer.get_extra_info("socket").fileno()), environment))
        return None


def _length(head):
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0


def _parse(body):
    document = json.loads(body)
    key, environment = document["key"], document["environment"]
    if not all(isinstance(text, str) for text in (key, *environment.values())):
        raise ValueError("key and environment are texts")
    return key, environment


def _response(status, text=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode()


def _warm():
    """Import what the server of a Function imports, before there is one."""
    from . import app, handler, legacy, listener, modern, tracing  # noqa: F401

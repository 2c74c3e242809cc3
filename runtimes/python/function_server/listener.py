"""Serves the application with waitress.

Of the maintained WSGI servers, waitress imports fastest, and of those in pure
Python it serves the most requests. One thread does all reading, the others call
the handler; so the first can respond for a handler that exceeds the timeout, and
detect when everything is sent before the process ends.
"""

import logging
import socket
import time
from threading import current_thread

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import WSGITask

from . import app, board, current
from .expiry import Expiry
from .load import Load, Request
from .threads import Pool

TICK_SECONDS = 1
KEEP_ALIVE_SECONDS = 120  # longer than clients keep an idle connection, so that the client closes it
LINGER_SECONDS = 30  # time for a client to finish sending a refused request
TIMEOUT_TEXT = b"Timeout while processing the function"
TIMEOUT_ANSWER = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(TIMEOUT_TEXT), TIMEOUT_TEXT)
)


class Task(WSGITask):
    """One request; sends headers and the first part of the body together."""

    _head = None

    def execute(self):
        """Call the application, and notify it when everything is written."""
        application = self.channel.server.application
        try:
            super().execute()
        except ClientDisconnected:
            raise
        except Exception as error:
            application.broke(self.channel.call, error)
            if not self.wrote_header:
                self.status = "500 Internal Server Error"  # the channel sends it
            raise
        finally:
            application.finished(self.channel.call, self.status, self.content_bytes_written)

    def write(self, data):
        """Send a part of the body."""
        if self.wrote_header or not data or not self.complete or self.content_length is None or not self.has_body:
            super().write(data)
            return
        self.wrote_header = True
        part = data[: self.content_length]
        self.content_bytes_written = len(part)
        self.channel.write_soon(self.build_response_header() + part)


class Channel(HTTPChannel):
    """One connection."""

    task_class = Task
    parser_class = Request
    call = None
    answered = False
    refused = False
    lingers_until = None

    def service(self):
        """Call the handler; runs in a thread of a pool."""
        self.answered = False
        request = self.requests[0]
        self.refused = request.error is not None
        self.call = call = current.Call()
        current.begin(call)
        calls = self.server.calls
        calls[call] = (current_thread(), self, request)
        try:
            super().service()
        finally:
            # The thread that removes the call ends it: this one, or the thread of the timeout.
            if calls.pop(call, None) is None:
                raise current.Expired
            self.server.load.end(request)

    def received(self, data):
        """Handle received bytes; a request is in progress from the end of its header on, in its turn."""
        taken = super().received(data)
        if self.request is not None and self.request.headers_finished and not self.requests:
            self.server.begin(self.request)
        return taken

    def del_channel(self, map=None):
        """Leave the server, and end the incomplete request."""
        if self.request is not None:
            self.server.load.end(self.request)
        super().del_channel(map)

    def write_soon(self, data):
        """Queue bytes of the handler's response."""
        self.answered = True
        return super().write_soon(data)

    def handle_close(self):
        """Close, but first let a client that still sends a refused request read the response: a close resets it."""
        if self.refused and self.lingers_until is None:
            self.lingers_until = time.monotonic() + LINGER_SECONDS
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the client has gone
            else:
                self.request = None
                self.close_when_flushed = self.will_close = False
                return
        super().handle_close()

    def handle_read(self):
        """Receive from the client; discard the rest of a refused request."""
        if self.lingers_until is None:
            super().handle_read()
        elif self.recv(self.adj.recv_bytes) and time.monotonic() > self.lingers_until:
            self.handle_close()

    def expire(self):
        """Respond in place of the handler; its thread continues."""
        if not self.answered:
            self.send(TIMEOUT_ANSWER)
        self.handle_close()

    def is_idle(self):
        """Report whether nothing is being received, worked on or sent."""
        return not (self.requests or self.request or self.total_outbufs_len)


class Server(TcpWSGIServer):
    """The listening socket and all its connections."""

    channel_class = Channel
    accepting_closed = False

    def setup(self, config, shared, slot):
        """Configure the parts for which waitress has no setting."""
        self.calls = {}
        self.slot = slot
        self.load = Load(shared, slot)
        self.several = config.processes > 1
        self.own = Pool(1)
        self.expiry = Expiry(self, config)

    def add_task(self, channel):
        """Serve a request; the server's own paths do not wait for handlers."""
        own = self.begin(channel.requests[0])
        (self.own if own else self.task_dispatcher).add_task(channel)

    def begin(self, request):
        """Report whether a request is for one of the server's own paths; all others count as in progress."""
        own = request.path in app.RESERVED and request.command in app.RESERVED_METHODS
        if not own:
            self.load.begin(request)
        return own

    def readable(self):
        """Leave new connections to less busy workers while all threads are busy.

        When all workers are busy, the server's own paths are still answered, and requests count that wait.
        """
        return super().readable() and not (self.several and self.task_dispatcher.full() and not self.load.is_least())

    def serve(self, stopped):
        """Serve until stopped() is true; then accept no connections, finish the requests in progress, and return."""
        next_tick = 0
        tick = min(TICK_SECONDS, self.expiry.interval)
        while True:
            wasyncore.loop(timeout=tick, use_poll=True, map=self._map, count=1)
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + tick
                self._tick()
            if stopped() and self._drained():
                return

    def _tick(self):
        self.slot.beat()
        self.expiry.check()
        if self.expiry.worn_out and self.slot.state == board.SERVING:
            self.slot.tell(board.RETIRING)

    def _drained(self):
        if not self.accepting_closed:
            self.accepting_closed = True
            wasyncore.dispatcher.close(self)
        for channel in list(self.active_channels.values()):
            if channel.is_idle():
                channel.handle_close()
        return not self.active_channels


def create(application, config, bound, shared, slot):
    """Listen on a bound socket."""
    # A short queue is normal and must not cause a warning for each request.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    settings = Adjustments(
        sockets=[bound],
        ident=None,
        # The handler gets X-Forwarded-* unchanged.
        clear_untrusted_proxy_headers=False,
        backlog=1024,
        connection_limit=10_000,
        channel_timeout=KEEP_ALIVE_SECONDS,
        max_request_body_size=config.body_limit,
        # Bodies stay in memory: a container may have no writable directory.
        inbuf_overflow=config.body_limit + 1,
        outbuf_overflow=1 << 30,
    )
    pool = Pool(-(-config.threads // config.processes))
    address = (bound.family, bound.type, bound.proto, bound.getsockname())
    server = Server(
        application, _start=False, _sock=bound, dispatcher=pool, adj=settings, sockinfo=address, bind_socket=False
    )
    server.setup(config, shared, slot)
    server.accept_connections()
    return server

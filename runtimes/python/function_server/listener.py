"""Serves the application with waitress.

waitress imports quickest among the maintained WSGI servers, and serves most of
those that are written in Python. One thread does all reading, the others call
the handler; so the first can answer for a handler that takes too long, and can
see when everything is sent before the process ends.
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
KEEP_ALIVE_SECONDS = 120  # longer than clients keep an idle connection, so that it is they who close it
LINGER_SECONDS = 30  # how long a client may go on with a request that is refused
TIMEOUT_TEXT = b"Timeout while processing the function"
TIMEOUT_ANSWER = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(TIMEOUT_TEXT), TIMEOUT_TEXT)
)


class Task(WSGITask):
    """One request; sends headers and the first part of the body together."""

    _head = None

    def execute(self):
        """Call the application, and tell it when everything is written."""
        application = self.channel.server.application
        try:
            super().execute()
        except ClientDisconnected:
            raise
        except Exception as error:
            application.broke(self.channel.call, error)
            if not self.wrote_header:
                self.status = "500 Internal Server Error"  # which the channel will answer
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
            # The thread that removes the call ends it: this one, or the one that answers for it.
            if calls.pop(call, None) is None:
                raise current.Expired
            self.server.load.end(request)

    def received(self, data):
        """Take what has come; a request is under way from the end of its header on, in its turn."""
        taken = super().received(data)
        if self.request is not None and self.request.headers_finished and not self.requests:
            self.server.begin(self.request)
        return taken

    def del_channel(self, map=None):
        """Leave the server, and end the request of which the rest does not come."""
        if self.request is not None:
            self.server.load.end(self.request)
        super().del_channel(map)

    def write_soon(self, data):
        """Take bytes of the handler's answer."""
        self.answered = True
        return super().write_soon(data)

    def handle_close(self):
        """Close; but let a client that goes on sending what was refused read why: closing now would reset it."""
        if self.refused and self.lingers_until is None:
            self.lingers_until = time.monotonic() + LINGER_SECONDS
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it is gone
            else:
                self.request = None
                self.close_when_flushed = self.will_close = False
                return
        super().handle_close()

    def handle_read(self):
        """Take what the client sends; of a refused request nothing is kept."""
        if self.lingers_until is None:
            super().handle_read()
        elif self.recv(self.adj.recv_bytes) and time.monotonic() > self.lingers_until:
            self.handle_close()

    def expire(self):
        """Answer for the handler, whose thread goes on."""
        if not self.answered:
            self.send(TIMEOUT_ANSWER)
        self.handle_close()

    def is_idle(self):
        """Tell whether nothing is being received, worked on or sent."""
        return not (self.requests or self.request or self.total_outbufs_len)


class Server(TcpWSGIServer):
    """The listening socket and all its connections."""

    channel_class = Channel
    accepting_closed = False

    def setup(self, config, shared, slot):
        """Add what waitress has no setting for."""
        self.calls = {}
        self.slot = slot
        self.load = Load(shared, slot)
        self.several = config.processes > 1
        self.own = Pool(1)
        self.expiry = Expiry(self, config)

    def add_task(self, channel):
        """Have a request served; the server's own paths do not wait for handlers."""
        own = self.begin(channel.requests[0])
        (self.own if own else self.task_dispatcher).add_task(channel)

    def begin(self, request):
        """Tell whether a request is for one of the server's own paths; all others count as under way."""
        own = request.path in app.RESERVED and request.command in app.RESERVED_METHODS
        if not own:
            self.load.begin(request)
        return own

    def readable(self):
        """Leave new connections to workers that have less to do while all threads are busy.

        When all workers are busy, the server's own paths are still answered, and requests count that wait.
        """
        return super().readable() and not (self.several and self.task_dispatcher.full() and not self.load.is_least())

    def serve(self, stopped):
        """Serve until stopped() is true; then accept no more, finish what is busy, and return."""
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
    # A short queue is normal, and no reason for a warning per request.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    settings = Adjustments(
        sockets=[bound],
        ident=None,
        # X-Forwarded-* are for the handler, as it gets them.
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

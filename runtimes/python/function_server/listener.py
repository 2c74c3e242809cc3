"""Serves the application with waitress.

waitress imports quickest among the maintained WSGI servers, and serves most on
threads. One thread does all reading and writing, the others call the handler;
so the first can answer for a handler that takes too long, and can see when
everything is sent before the process ends.
"""

import logging
import time

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

TICK_SECONDS = 1
KEEP_ALIVE_SECONDS = 120  # longer than clients keep an idle connection, so that it is they who close it
TIMEOUT_TEXT = b"Timeout while processing the function"
TIMEOUT_ANSWER = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(TIMEOUT_TEXT), TIMEOUT_TEXT)
)


class Channel(HTTPChannel):
    """One connection; knows since when the handler is busy with it."""

    busy_since = None
    answered = False
    expired = False

    def service(self):
        """Call the handler; runs in a thread of the pool."""
        self.answered = False
        self.busy_since = time.monotonic()
        try:
            super().service()
        finally:
            with self.requests_lock:
                self.busy_since = None
            if self.expired:
                self.server.change_threads(-1)

    def write_soon(self, data):
        """Take bytes of the handler's answer."""
        self.answered = True
        return super().write_soon(data)

    def expire(self, limit):
        """Answer for a handler that is busy since before limit. Its thread goes on, so another takes its place."""
        with self.requests_lock:
            if self.expired or self.busy_since is None or self.busy_since > limit:
                return
            self.expired = True
        self.server.change_threads(+1)
        if not self.answered:
            self.send(TIMEOUT_ANSWER)
        self.handle_close()

    def is_idle(self):
        """Tell whether nothing is being received, worked on or sent."""
        return not (self.requests or self.request or self.total_outbufs_len or self.busy_since)


class Server(TcpWSGIServer):
    """The listening socket and all its connections."""

    channel_class = Channel
    time_limit = None
    accepting_closed = False

    def change_threads(self, by):
        """Add or end threads of the pool."""
        dispatcher = self.task_dispatcher
        dispatcher.set_thread_count(len(dispatcher.threads) - dispatcher.stop_count + by)

    def serve(self, stopped):
        """Serve until stopped() is true; then accept no more, finish what is busy, and return."""
        while True:
            wasyncore.loop(timeout=min(TICK_SECONDS, self.time_limit), use_poll=True, map=self._map, count=1)
            self._expire()
            if stopped() and self._drained():
                return

    def _expire(self):
        limit = time.monotonic() - self.time_limit
        for channel in list(self.active_channels.values()):
            channel.expire(limit)

    def _drained(self):
        if not self.accepting_closed:
            self.accepting_closed = True
            wasyncore.dispatcher.close(self)
        for channel in list(self.active_channels.values()):
            if channel.is_idle():
                channel.handle_close()
        return not self.active_channels


def create(application, config):
    """Bind, listen and start the threads."""
    # A short queue is normal, and no reason for a warning per request.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    settings = Adjustments(
        host=config.host,
        port=config.port,
        threads=config.threads,
        ident=None,
        backlog=1024,
        connection_limit=10_000,
        channel_timeout=KEEP_ALIVE_SECONDS,
        max_request_body_size=config.body_limit,
        # Bodies stay in memory: a container may have no writable directory.
        inbuf_overflow=config.body_limit + 1,
        outbuf_overflow=1 << 30,
    )
    dispatcher = ThreadedTaskDispatcher()
    server = Server(application, dispatcher=dispatcher, adj=settings)
    server.time_limit = config.timeout
    # The socket accepts already; the connections wait for the few milliseconds that threads take to start.
    dispatcher.set_thread_count(config.threads)
    return server

"""The WSGI application: the reserved paths, the handler for everything else, and the accounting of its calls."""

import threading
import time

from . import accesslog, board, current, metrics, plain

LOAD_PATH = "/.well-known/rouse/load"
RESERVED = ("/healthz", "/metrics", LOAD_PATH, "/favicon.ico")
RESERVED_METHODS = ("GET", "HEAD")
METHODS = {method: index for index, method in enumerate(board.METHODS)}
ALLOWED = [("Allow", ", ".join(METHODS)), ("Content-Length", "0")]


def create(handler, config, shared, slot):
    """Make the application for the runtime's API."""
    if config.modern:
        from . import modern

        function = modern.Application(handler)
    else:
        from . import legacy

        function = legacy.Application(handler, config)
    return Application(function, config, shared, slot)


class Application:
    """Called for each request; the listener also reports to it how the call ended."""

    def __init__(self, function, config, shared, slot):
        self._function = function
        self._board = shared
        self._slot = slot
        self._lock = threading.Lock()
        self._tracing = current.runtime().tracing
        self._log = accesslog.write if config.request_log else None

    def __call__(self, environ, start_response):
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"]
        if path in RESERVED and method in RESERVED_METHODS:
            return self._reserved(path, environ, start_response)
        index = METHODS.get(method)
        if index is None:
            start_response("405 Method Not Allowed", ALLOWED)
            return []
        call = current.call()
        call.environ = environ
        token = self._tracing.begin(call)

        def start(status, headers, exc_info=None):
            if exc_info is not None:  # set by a framework that responds to an exception
                call.fail(exc_info[1])
            return start_response(status, headers, exc_info)

        try:
            return self._function(environ, start)
        finally:
            self._count(call)
            if token is not None:
                self._tracing.leave(token)

    def finished(self, call, status, size):
        """Note that the response is written."""
        if call.environ is not None:
            self._note(call, int(status[:3]), size)

    def broke(self, call, error):
        """Note that the response could not be written completely; a stream may fail after the handler has returned."""
        if call.environ is None or call.failed:
            return
        call.fail(error)
        with self._lock:
            self._slot.fail(METHODS[call.environ["REQUEST_METHOD"]])

    def expired(self, call):
        """Note that the call exceeded the timeout and that the server has sent the response."""
        if call.environ is not None:
            call.fail("timeout")
            self._count(call)
            self._note(call, 408, 0)

    def _note(self, call, status, size):
        self._tracing.end(call, status)
        if self._log is not None:
            self._log(call.environ, status, size)

    def _count(self, call):
        seconds = time.perf_counter() - call.start
        with self._lock:
            if not call.counted:
                call.counted = True
                self._slot.count(METHODS[call.environ["REQUEST_METHOD"]], seconds, call.failed)

    def _reserved(self, path, environ, start_response):
        if path == "/healthz":
            return plain.text(environ, start_response, 200, "OK")
        if path == "/metrics":
            self._slot.beat()
            content_type, body = metrics.render(self._board, environ)
            return plain.respond(environ, start_response, 200, content_type, body)
        if path == LOAD_PATH:
            body = b'{"requests":%d,"running":%d,"viaGateway":%d,"viaEventbridge":%d}' % self._board.load()
            return plain.respond(environ, start_response, 200, "application/json", body, ("Cache-Control", "no-store"))
        return plain.respond(environ, start_response, 204, None, b"")

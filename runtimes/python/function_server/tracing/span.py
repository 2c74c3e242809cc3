"""The spans that the server makes itself: of each call, and of each request that a call makes."""

import time

from . import context

SERVER, CLIENT = 2, 3


class Span:
    """A span that has ended. error is a text, or None."""

    __slots__ = ("context", "name", "kind", "start", "end", "attributes", "error", "events", "links", "scope")

    def __init__(self, place, name, kind, start, end, attributes, error):
        self.context = place
        self.name = name
        self.kind = kind
        self.start = start
        self.end = end
        self.attributes = attributes
        self.error = error
        self.events = ()
        self.links = ()
        self.scope = None


def server(parent):
    """Give the place of a call below the one that its request names."""
    return parent.child() if parent is not None else context.new()


def of_call(call, status):
    """Make the span of a call that has ended."""
    environ = call.environ
    attributes = {
        "http.request.method": environ["REQUEST_METHOD"],
        "url.path": environ["PATH_INFO"],
        "url.scheme": environ["wsgi.url_scheme"],
        "http.response.status_code": status,
        "client.address": environ["REMOTE_ADDR"],
    }
    for name, key in (("server.address", "HTTP_HOST"), ("user_agent.original", "HTTP_USER_AGENT")):
        if key in environ:
            attributes[name] = environ[key]
    error = None
    if call.failed or status >= 500:
        error = str(call.error or "")
        attributes["error"] = error or str(status)
        attributes["error.type"] = type(call.error).__name__ if isinstance(call.error, Exception) else str(status)
    return Span(call.trace, environ["REQUEST_METHOD"], SERVER, call.span_start, time.time_ns(), attributes, error)


class Client:
    """A request that a handler makes; without an exporter it only passes a trace on, without a parent it begins one."""

    def __init__(self, parent, method, url, exporter):
        place = parent if parent is not None else context.new()
        self._exporter = exporter if place.sampled else None
        self._method = method
        self._url = url
        self._place = parent.child() if parent is not None and self._exporter is not None else place
        self._start = time.time_ns()

    def headers(self):
        """Give the headers of the request."""
        return self._place.headers()

    def end(self, status, error=None):
        """End the span with a status code, or with what kept it from having one."""
        if self._exporter is None:
            return
        attributes = {"http.request.method": self._method, "url.full": self._url}
        if status is not None:
            attributes["http.response.status_code"] = status
            if status >= 400:
                error = str(status)
        if error is not None:
            attributes["error.type"] = error
        self._exporter.add(Span(self._place, self._method, CLIENT, self._start, time.time_ns(), attributes, error))
        self._exporter = None

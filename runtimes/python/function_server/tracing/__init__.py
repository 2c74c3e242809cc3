"""Traces: which trace a call belongs to, the spans of its server and its clients, and their way to the collector.

Without a collector nothing is recorded, and what a call is given, or a new
trace, goes on to whom it calls. OpenTelemetry's own library is imported when a handler uses it,
and not before: it would double a cold start.
"""

import os
import time

from .. import current
from . import context, span

PROPAGATORS = "tracecontext,baggage,b3multi"


class Tracing:
    """The traces of one worker."""

    def __init__(self, config):
        self._config = config
        self._exporter = None
        self._library = None
        os.environ.setdefault("OTEL_PROPAGATORS", PROPAGATORS)
        if config.trace_endpoint:
            from .exporter import Exporter

            self._exporter = Exporter(config.trace_endpoint, config.function_name)

    @property
    def recording(self):
        """Tell whether spans go anywhere."""
        return self._exporter is not None

    def begin(self, call):
        """Start the span of a call; what it gives, if anything, is for leave."""
        if self._exporter is not None:
            call.trace = span.server(context.read(call.environ))
            call.span_start = time.time_ns()
        return self._library.enter(self.current(call)) if self._library is not None else None

    def leave(self, token):
        """Undo what begin did for the thread."""
        self._library.leave(token)

    def current(self, call):
        """Give the Context that calls of others get from this one."""
        if call.trace is None:
            call.trace = context.read(call.environ) or context.new()
        return call.trace

    def end(self, call, status):
        """End the span of a call."""
        if self._exporter is not None and call.trace is not None and call.trace.sampled:
            self._exporter.add(span.of_call(call, status))

    def client(self, method, url):
        """Start the span of a request that the handler makes; outside of a call it begins a trace of its own."""
        parent = self._library.current() if self._library is not None else None
        call = current.call()
        if parent is None and call is not None and call.environ is not None:
            parent = self.current(call)
        return span.Client(parent, method, url, self._exporter)

    def tracer(self):
        """Give a tracer of OpenTelemetry's library whose spans belong to the call."""
        library = self._load()
        call = current.call()
        if call is not None and call.environ is not None and library.current() is None:
            library.enter(self.current(call))
        return library.tracer()

    def join_library(self):
        """Take part in the library's traces when the handler has imported it."""
        import sys

        if "opentelemetry.trace" in sys.modules:
            self._load()

    def flush(self):
        """Send what is left."""
        if self._exporter is not None:
            self._exporter.flush()

    def _load(self):
        if self._library is None:
            from .library import Library

            self._library = Library(self._exporter, self._config.function_name)
        return self._library

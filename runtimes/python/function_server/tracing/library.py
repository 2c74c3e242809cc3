"""Connects OpenTelemetry's library with the server's traces: its spans are below the call's and go the same way."""

from opentelemetry import context as contexts
from opentelemetry import trace

from .context import Context
from .exporter import SCOPE
from .span import Span


class Library:
    """The library, with a provider that exports unless the handler has set one of its own."""

    def __init__(self, exporter, service):
        if exporter is not None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(_provider(exporter, service))

    def tracer(self):
        """Give the tracer for handlers."""
        return trace.get_tracer(SCOPE)

    def enter(self, place):
        """Make a Context the library's current one; what it gives is for leave."""
        remote = trace.SpanContext(
            trace_id=int(place.trace_id, 16),
            span_id=int(place.span_id, 16),
            is_remote=False,
            trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED if place.sampled else trace.TraceFlags.DEFAULT),
            trace_state=trace.TraceState.from_header([place.state]) if place.state else None,
        )
        made = trace.set_span_in_context(trace.NonRecordingSpan(remote), _baggage(place))
        return contexts.attach(made)

    def leave(self, token):
        """End what enter began."""
        contexts.detach(token)

    def current(self):
        """Give the place of the library's current span, or None."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return None
        from opentelemetry.baggage.propagation import W3CBaggagePropagator

        carried = {}
        W3CBaggagePropagator().inject(carried)
        return _place(found, carried.get("baggage", ""))


def _baggage(place):
    if not place.baggage:
        return contexts.Context()
    from opentelemetry.baggage.propagation import W3CBaggagePropagator

    return W3CBaggagePropagator().extract({"baggage": [place.baggage]}, contexts.Context())


def _provider(exporter, service):
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    class ToExporter(SpanProcessor):
        def on_end(self, span):
            if span.context.trace_flags.sampled:
                exporter.add(_ended(span))

    provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(ToExporter())
    return provider


def _ended(span):
    failed = span.status.status_code is trace.StatusCode.ERROR
    made = Span(
        _place(span.context, ""),
        span.name,
        span.kind.value + 1,
        span.start_time,
        span.end_time,
        dict(span.attributes),
        (span.status.description or "") if failed else None,
    )
    made.context.parent = format(span.parent.span_id, "016x") if span.parent else ""
    made.events = [(event.timestamp, event.name, dict(event.attributes or {})) for event in span.events]
    made.links = [
        (format(link.context.trace_id, "032x"), format(link.context.span_id, "016x"), dict(link.attributes or {}))
        for link in span.links
    ]
    made.scope = span.instrumentation_scope.name
    return made


def _place(found, baggage):
    return Context(
        format(found.trace_id, "032x"),
        format(found.span_id, "016x"),
        bool(found.trace_flags & trace.TraceFlags.SAMPLED),
        found.trace_state.to_header(),
        baggage,
    )

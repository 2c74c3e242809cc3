"""Reads which trace a request belongs to, and writes it for the next one: W3C Trace Context, Baggage, and B3."""

import os

ZERO_TRACE = "0" * 32
ZERO_SPAN = "0" * 16
HEX = frozenset("0123456789abcdef")


class Context:
    """A place in a trace. parent is the span above, if this process made this one."""

    __slots__ = ("trace_id", "span_id", "sampled", "state", "baggage", "parent")

    def __init__(self, trace_id, span_id, sampled, state="", baggage="", parent=""):
        self.trace_id = trace_id
        self.span_id = span_id
        self.sampled = sampled
        self.state = state
        self.baggage = baggage
        self.parent = parent

    def child(self):
        """Give a place below this one."""
        return Context(self.trace_id, os.urandom(8).hex(), self.sampled, self.state, self.baggage, self.span_id)

    def headers(self):
        """Give what the next one needs to know, in every form."""
        flag = "1" if self.sampled else "0"
        made = [
            ("traceparent", f"00-{self.trace_id}-{self.span_id}-0{flag}"),
            ("X-B3-TraceId", self.trace_id),
            ("X-B3-SpanId", self.span_id),
            ("X-B3-Sampled", flag),
        ]
        if self.state:
            made.append(("tracestate", self.state))
        if self.baggage:
            made.append(("baggage", self.baggage))
        return made


def new():
    """Give the first place of a new trace."""
    random = os.urandom(24).hex()
    return Context(random[:32], random[32:], True)


def read(environ):
    """Give the Context that a request carries, or None."""
    parent = environ.get("HTTP_TRACEPARENT")
    found = _w3c(parent, environ) if parent else None
    if found is None and "HTTP_X_B3_TRACEID" in environ:
        found = _b3(environ)
    if found is not None:
        found.baggage = environ.get("HTTP_BAGGAGE", "")
    return found


def _w3c(header, environ):
    parts = header.strip().split("-")
    if len(parts) < 4 or len(parts[0]) != 2 or parts[0] == "ff" or (parts[0] == "00" and len(parts) != 4):
        return None
    _, trace_id, span_id, flags = parts[:4]
    if not (_is_id(trace_id, 32, ZERO_TRACE) and _is_id(span_id, 16, ZERO_SPAN) and len(flags) == 2):
        return None
    try:
        sampled = bool(int(flags, 16) & 1)
    except ValueError:
        return None
    return Context(trace_id, span_id, sampled, environ.get("HTTP_TRACESTATE", ""))


def _b3(environ):
    trace_id = environ["HTTP_X_B3_TRACEID"].strip().lower().rjust(32, "0")
    span_id = environ.get("HTTP_X_B3_SPANID", "").strip().lower()
    if not (_is_id(trace_id, 32, ZERO_TRACE) and _is_id(span_id, 16, ZERO_SPAN)):
        return None
    sampled = environ.get("HTTP_X_B3_SAMPLED", "1").strip().lower() in ("1", "true", "d")
    return Context(trace_id, span_id, sampled or environ.get("HTTP_X_B3_FLAGS", "").strip() == "1")


def _is_id(text, length, zero):
    return len(text) == length and text != zero and HEX.issuperset(text)

"""Sends spans to the collector in batches: OTLP over HTTP, in its JSON form."""

import collections
import json
import sys
import threading
import time

SCOPE = "io.kyma-project.serverless"
MOST_WAITING = 4096
BATCH = 512
DELAY_SECONDS = 2
TIMEOUT_SECONDS = 5
FLUSH_SECONDS = 5
MOST_DELAY_SECONDS = 60
RETRIED = (429, 502, 503, 504)


class Exporter:
    """Collects spans; a thread of its own, started by the first one, sends them.

    A collector that cannot be reached costs nothing but the oldest spans.
    """

    def __init__(self, endpoint, service):
        self._endpoint = endpoint
        self._resource = {"attributes": _attributes({"service.name": service, "telemetry.sdk.language": "python"})}
        self._waiting = collections.deque(maxlen=MOST_WAITING)
        self._wake = threading.Event()
        self._sending = threading.Lock()
        self._start = threading.Lock()
        self._thread = None
        self._connection = None
        self._warned = 0

    def add(self, span):
        """Have a span sent soon."""
        self._waiting.append(span)
        if self._thread is None:
            self._start_thread()
        elif len(self._waiting) >= BATCH and not self._wake.is_set():
            self._wake.set()

    def flush(self):
        """Send what is left, as far as there is time."""
        deadline = time.monotonic() + FLUSH_SECONDS
        while self._waiting and time.monotonic() < deadline and self._send_batch():
            pass

    def _start_thread(self):
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
                self._thread.start()

    def _run(self):
        delay = DELAY_SECONDS
        while True:
            self._wake.wait(delay)
            self._wake.clear()
            delay = DELAY_SECONDS
            while self._waiting:
                if not self._send_batch():
                    delay = min(2 * delay, MOST_DELAY_SECONDS)
                    time.sleep(delay)

    def _send_batch(self):
        """Send one batch; one that may be taken later goes back to the others."""
        with self._sending:
            batch = []
            while self._waiting and len(batch) < BATCH:
                batch.append(self._waiting.popleft())
            try:
                status = self._post(self._encode(batch)) if batch else 200
            except Exception as error:
                self._connection = None
                return self._failed(batch, f"cannot reach the trace collector: {error}")
            if status in RETRIED:
                return self._failed(batch, f"the trace collector answered {status}")
            if not 200 <= status <= 299:
                self._warn(f"the trace collector answered {status}; {len(batch)} spans are lost")
            return True

    def _failed(self, batch, text):
        free = MOST_WAITING - len(self._waiting)
        self._waiting.extendleft(reversed(batch[-free:] if free else []))
        self._warn(text)
        return False

    def _warn(self, text):
        now = time.monotonic()
        if now - self._warned > MOST_DELAY_SECONDS:
            self._warned = now
            print(text, file=sys.stderr, flush=True)

    def _post(self, body):
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.parse import urlsplit

        url = urlsplit(self._endpoint)
        if self._connection is None:
            kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
            self._connection = kind(url.hostname, url.port, timeout=TIMEOUT_SECONDS)
            self._connection._function_untraced = True  # see ../outgoing.py
        connection = self._connection
        target = (url.path or "/") + ("?" + url.query if url.query else "")
        connection.request("POST", target, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status

    def _encode(self, batch):
        scopes = {}
        for span in batch:
            scopes.setdefault(span.scope or SCOPE, []).append(_encode_span(span))
        spans = [{"scope": {"name": name}, "spans": spans} for name, spans in scopes.items()]
        return json.dumps({"resourceSpans": [{"resource": self._resource, "scopeSpans": spans}]}).encode()


def _encode_span(span):
    place = span.context
    made = {
        "traceId": place.trace_id,
        "spanId": place.span_id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
    }
    if place.parent:
        made["parentSpanId"] = place.parent
    if place.state:
        made["traceState"] = place.state
    if span.error is not None:
        made["status"] = {"code": 2, "message": span.error}
    if span.events:
        made["events"] = [
            {"timeUnixNano": str(at), "name": name, "attributes": _attributes(attributes)}
            for at, name, attributes in span.events
        ]
    if span.links:
        made["links"] = [
            {"traceId": trace_id, "spanId": span_id, "attributes": _attributes(attributes)}
            for trace_id, span_id, attributes in span.links
        ]
    return made


def _attributes(values):
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value):
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(entry) for entry in value]}}
    return {"stringValue": str(value)}

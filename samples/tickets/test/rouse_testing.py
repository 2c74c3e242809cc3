"""Calls a handler in a test as the runtime calls it, with an event as the runtime makes it, and records what the handler did."""

import base64
import contextlib
import contextvars
import datetime
import importlib.util
import io
import json
import sys
import types
import uuid

_current = contextvars.ContextVar("result", default=None)


class Result:
    """What a call did: status, headers and body of the answer, the events that were emitted, and the lines that were logged."""

    def __init__(self, received):
        self.status, self.headers, self.body = 200, {}, None
        self.emitted, self.logged = [], []
        self.received = received

    def _emit(self, type, source, data, attributes=None):  # noqa: A002
        """Record an event with the attributes that the runtime gives it, and refuse what the runtime refuses."""
        for name, value in (("type", type), ("source", source)):
            if not isinstance(value, str) or not value:
                raise ValueError(f"cannot emit a CloudEvent: {name} must be a non-empty string")
        attributes = dict(attributes or {})
        for name in attributes:
            if not (name.isascii() and name.isalnum() and name == name.lower()):
                raise ValueError(
                    f'cannot emit a CloudEvent: attribute "{name}" may have lower-case letters and digits only'
                )
        event = {"specversion": "1.0", "id": str(uuid.uuid4()), "time": _now(), **_payload(data)}
        if self.received:
            event["rousecause"] = self.received["id"]
        event.update(attributes)
        if self.received:
            event["rousehops"] = str(int(self.received.get("rousehops", 0)) + 1)
        event.update(type=type, source=source)
        self.emitted.append(event)


def event(type, source, data=None, id="1", time="2026-01-01T00:00:00.000000Z", **attributes):  # noqa: A002
    """Return an event with its attributes. Data go through JSON, as on their way to a Function; bytes stay bytes."""
    found = {"specversion": "1.0", "id": id, "time": time, "type": type, "source": source}
    if data is not None:
        is_bytes = isinstance(data, (bytes, bytearray))
        found["datacontenttype"] = "application/octet-stream" if is_bytes else "application/json"
        data = data if is_bytes else json.loads(json.dumps(data))
    return {**found, **attributes, "data": data}


def call(main, received):
    """Call main with an event, or without one for None, and return a Result. An exception of main is the call's."""
    result = Result(received)
    out = io.StringIO()
    token = _current.set(result)
    try:
        with contextlib.redirect_stdout(out):
            value = main(Event(result), dict(_CONTEXT))
    finally:
        _current.reset(token)
    result.logged = out.getvalue().splitlines()
    _answer(result, value)
    return result


def _answer(result, value):
    """Read a handler's return value: a body, or a body with a status and headers, or a response of the framework."""
    if isinstance(value, tuple):
        value, *rest = value
        for each in rest:
            if isinstance(each, int):
                result.status = each
            else:
                result.headers.update(each)
    elif hasattr(value, "status") and hasattr(value, "body"):
        result.status, value = getattr(value, "status_code", value.status), value.body
    result.body = value


def _payload(data):
    if data is None:
        return {}
    if isinstance(data, (bytes, bytearray, memoryview)):
        return {"datacontenttype": "application/octet-stream", "data_base64": base64.b64encode(data).decode()}
    if isinstance(data, str):
        return {"datacontenttype": "text/plain", "data": data}
    return {"datacontenttype": "application/json", "data": json.loads(json.dumps(data))}


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

_CONTEXT = {
    "function-name": "notifier",
    "namespace": "tickets",
    "timeout": 180,
    "runtime": "python312",
    "memory-limit": "128m",
    "body-size-limit": 1048576,
}


class Event:
    """The handler's first argument: keys, and methods to emit events."""

    def __init__(self, result):
        received = result.received or {}
        self._result = result
        self.ceHeaders = {}
        for name in ("type", "source", "id", "time", "eventtypeversion", "specversion"):
            if name in received:
                self.ceHeaders["ce-" + name] = received[name]
        self.ceHeaders["data"] = received.get("data")

    def __getitem__(self, key):
        return self.ceHeaders[key]

    def __setitem__(self, key, value):
        self.ceHeaders[key] = value

    def __contains__(self, key):
        return key in self.ceHeaders

    def get(self, key, default=None):
        """Return the value of a key, or the default."""
        return self.ceHeaders.get(key, default)

    def emitCloudEvent(self, type, source, data, attrs=None):  # noqa: A002, N802
        """Record an event."""
        self._result._emit(type, source, data, attrs)

    def publishCloudEvent(self, data):  # noqa: N802
        """Record an event given as a dict of its attributes and data."""
        attributes = {key: value for key, value in data.items() if key not in ("type", "source", "data", "specversion")}
        self._result._emit(data.get("type"), data.get("source"), data.get("data"), attributes)

    def buildResponseCloudEvent(self, id, type, data):  # noqa: A002, N802
        """Return a dict for publishCloudEvent that answers this event."""
        return {
            "type": type,
            "source": self.get("ce-source", ""),
            "eventtypeversion": self.get("ce-eventtypeversion", ""),
            "specversion": self.get("ce-specversion", "1.0"),
            "id": id,
            "data": data,
            "datacontenttype": "application/json",
        }


class HTTPResponse(Exception):  # noqa: N818 (Bottle's name)
    """What handlers use of Bottle's, where Bottle is not installed; the runtime brings it."""

    def __init__(self, body="", status=200, headers=None):
        super().__init__(body)
        self.body, self.status, self.headers = body, status, headers


if importlib.util.find_spec("bottle") is None:
    sys.modules["bottle"] = types.SimpleNamespace(HTTPResponse=HTTPResponse)

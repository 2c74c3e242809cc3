"""Reads CloudEvents, binary and structured, from requests, and makes the events that a handler emits.

The forms are read here, because a Function starts mostly for an event, and
the cloudevents package is slow to import; it is imported only for a handler
that uses a CloudEvent object.
"""

from . import request

STRUCTURED = "application/cloudevents+json"
REQUIRED = ("id", "source", "type")
VERSIONS = ("1.0", "0.3")
CAUSE = "rousecause"
HOPS = "rousehops"
MOST_HOPS = 1_000_000


def parse(environ):
    """Return the event's attributes and its `data` as a dict, or None when the request is not a CloudEvent."""
    structured = request.media_type(environ) == STRUCTURED
    if not structured and not (environ.get("HTTP_CE_TYPE") and environ.get("HTTP_CE_SOURCE")):
        return None
    event = _from_body(environ) if structured else _from_headers(environ)
    for name in REQUIRED:
        if not isinstance(event.get(name), str) or not event[name]:
            raise request.BadRequest(f'malformed CloudEvent: attribute "{name}" is missing')
    version = event.setdefault("specversion", "1.0")
    if version not in VERSIONS:
        raise request.BadRequest(f'malformed CloudEvent: specversion "{str(version)[:20]}" is unknown; it has to be 1.0')
    event.setdefault("time", _now())
    return event


def to_cloud_event(environ):
    """Return the event as an object of the cloudevents package."""
    event = parse(environ)
    if event is None:
        return None
    from cloudevents.http import CloudEvent

    data = event.pop("data", None)
    try:
        return CloudEvent(event, data)
    except Exception as error:  # the package has additional rules
        raise request.BadRequest(f"malformed CloudEvent: {error}") from error


def chain(environ):
    """Return the extensions of events emitted during a request, an empty dict when it carries no event."""
    if environ is None:
        return {}
    if environ.get("HTTP_CE_TYPE") and environ.get("HTTP_CE_SOURCE"):
        return _chained(_decode_header(environ.get("HTTP_CE_ID", "")), environ.get("HTTP_CE_ROUSEHOPS"))
    if request.media_type(environ) != STRUCTURED:
        return {}
    try:
        body = request.json_body(environ)
    except request.BadRequest:
        return {}
    return _chained(body.get("id"), body.get(HOPS)) if isinstance(body, dict) else {}


def _chained(found, hops):
    try:
        before = min(max(int(hops), 0), MOST_HOPS)
    except (OverflowError, TypeError, ValueError):
        before = 0
    extensions = {HOPS: str(before + 1)}
    if isinstance(found, str) and found:
        extensions[CAUSE] = found
    return extensions


def build(type, source, data, attributes=None, chain=None):  # noqa: A002 (the attribute's name)
    """Make the structured form of an event to emit, with defaults for the attributes that are not given.

    chain are the extensions that lead to it from the event that is being handled. A handler cannot make it shorter.
    """
    for name, value in (("type", type), ("source", source)):
        if not isinstance(value, str) or not value:
            raise ValueError(f"cannot emit a CloudEvent: {name} must be a non-empty string")
    attributes = dict(attributes or {})
    for name in attributes:
        if not (name.isascii() and name.isalnum() and name == name.lower()):
            raise ValueError(
                f'cannot emit a CloudEvent: attribute "{name}" may have lower-case letters and digits only'
            )
    event = {"specversion": "1.0", "id": _new_id(), "time": _now()}
    event.update(_payload(data))
    event.update(chain or {})
    event.update(attributes)
    if chain:
        event[HOPS] = chain[HOPS]
    event.update(type=type, source=source)
    return event


def _from_headers(environ):
    event = {}
    for key, value in environ.items():
        if key.startswith("HTTP_CE_"):
            event[key[8:].lower()] = _decode_header(value)
    content_type = environ.get("CONTENT_TYPE")
    if content_type:
        event["datacontenttype"] = content_type
    event["data"] = _data(environ)
    return event


def _data(environ):
    if request.media_type(environ) == "application/json":
        return request.json_body(environ)
    return _json_or_bytes(request.body(environ))


def _from_body(environ):
    event = request.json_body(environ)
    if not isinstance(event, dict):
        raise request.BadRequest("malformed CloudEvent: the body is not a JSON object")
    encoded = event.pop("data_base64", None)
    if isinstance(encoded, str):
        event["data"] = _json_or_bytes(_decode_base64(encoded))
    event.setdefault("data", None)
    if "id" not in event:
        event["id"] = _new_id()
    return event


def _decode_base64(text):
    import binascii

    try:
        return binascii.a2b_base64(text)
    except ValueError as error:
        raise request.BadRequest(f"malformed CloudEvent: data_base64: {error}") from error


def _json_or_bytes(data):
    import json

    if not data:
        return None
    try:
        return json.loads(data)
    except (RecursionError, ValueError):
        return data


def _decode_header(value):
    if "%" not in value:
        return value
    from urllib.parse import unquote

    return unquote(value)


def _payload(data):
    if data is None:
        return {}
    if isinstance(data, (bytes, bytearray, memoryview)):
        import binascii

        encoded = binascii.b2a_base64(data, newline=False).decode()
        return {"datacontenttype": "application/octet-stream", "data_base64": encoded}
    return {"datacontenttype": "text/plain" if isinstance(data, str) else "application/json", "data": data}


def _new_id():
    import os

    random = bytearray(os.urandom(16))
    random[6] = random[6] & 0x0F | 0x40
    random[8] = random[8] & 0x3F | 0x80
    text = random.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _now():
    import time

    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1_000_000):06d}Z"

"""Reads bodies and headers from a WSGI environ without a framework, and leaves the body readable for one."""

import io


class BadRequest(Exception):
    """The request cannot be understood; answered with 400."""


def body(environ):
    """Read the whole body, and put it back for whoever reads next."""
    stream = environ["wsgi.input"]
    data = stream.read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(data)
    return data


def media_type(environ):
    """Give the Content-Type without parameters, in lower case."""
    return environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()


def json_body(environ):
    """Parse the body as JSON; an empty body is None."""
    import json

    data = body(environ)
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError as error:
        raise BadRequest(f"malformed JSON: {error}") from error

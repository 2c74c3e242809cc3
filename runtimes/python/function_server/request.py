"""Reads bodies and headers from a WSGI environ without a framework, and leaves the body readable for one."""


class BadRequest(Exception):
    """The request is malformed; the response is 400."""


def body(environ):
    """Read the whole body, also after a framework has read from it, and keep the framework's position.

    The listener keeps bodies in memory, and Bottle replaces a stream that it has read by one in memory.
    """
    stream = environ["wsgi.input"]
    position = stream.tell()
    stream.seek(0)
    data = stream.read(int(environ.get("CONTENT_LENGTH") or 0))
    stream.seek(position)
    return data


def media_type(environ):
    """Return the Content-Type without parameters, in lower case."""
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
    except RecursionError:
        raise BadRequest("malformed JSON: it is nested too deeply") from None

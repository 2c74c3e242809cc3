"""Responses of the server itself, and of handlers that return plain values, without a framework."""

import sys
import traceback

from . import current

HTML = "text/html; charset=UTF-8"
TEXT = "text/plain; charset=utf-8"
PHRASES = {200: "OK", 204: "No Content", 400: "Bad Request", 500: "Internal Server Error"}


def respond(environ, start_response, status, content_type, body, *more):
    """Send one complete response; more are headers."""
    headers = [("Content-Length", str(len(body))), *more]
    if content_type:
        headers.append(("Content-Type", content_type))
    start_response(f"{status} {PHRASES[status]}", headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def text(environ, start_response, status, message):
    """Send a short text of the server."""
    return respond(environ, start_response, status, TEXT, message.encode())


def note_failure(error):
    """Mark the call as failed, and write the exception to stderr, from the handler's frame on."""
    current.call().fail(error)
    trace = error.__traceback__
    print(
        "".join(traceback.format_exception(type(error), error, trace and trace.tb_next)),
        end="",
        file=sys.stderr,
        flush=True,
    )

"""Sends events to the publisher as structured JSON, over persistent connections."""

import collections
import json

from . import cloudevent, current
from .token import TokenFile

TIMEOUT_SECONDS = 30
MAX_ANSWER = 64 * 1024


class PublishError(Exception):
    """The publisher could not be reached, or did not accept the event (then status is its response)."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class Publisher:
    """The client of the publisher, one for each server; emit is safe for threads.

    Only the publisher's address gets the token: redirects are not followed.
    """

    def __init__(self, address, token_file=""):
        self._address = address
        self._token = TokenFile(token_file)
        self._idle = collections.deque()

    def emit(self, type, source, data, attributes=None):  # noqa: A002 (the attribute's name)
        """Publish one event; raises PublishError unless the response is 2xx."""
        if not self._address:
            raise PublishError("cannot emit a CloudEvent: PUBLISHER_PROXY_ADDRESS is not set")
        event = cloudevent.build(type, source, data, attributes, cloudevent.chain(current.environ()))
        body = json.dumps(event, default=_encode).encode()
        try:
            status, answer = self._post(body)
        except OSError as error:
            raise PublishError(f"cannot reach the publisher: {error}") from error
        if not 200 <= status <= 299:
            raise PublishError(f"publisher answered {status}: {answer.decode('utf-8', 'replace').strip()}", status)

    def _post(self, body):
        """Use an idle connection, or a new one when the publisher has closed the idle ones.

        The event's id makes a repeat harmless.
        """
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            try:
                return self._send(connection, body)
            except (ConnectionError, BrokenPipeError):
                connection.close()
        return self._send(self._connect(), body)

    def _send(self, connection, body):
        from http.client import HTTPException

        headers = {"Content-Type": cloudevent.STRUCTURED}
        token = self._token.read()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            answer = response.read(MAX_ANSWER)
        except HTTPException as error:
            connection.close()
            raise ConnectionError(f"{type(error).__name__} {error}") from error
        except OSError:
            connection.close()
            raise
        if response.isclosed() and not response.will_close:
            self._idle.append(connection)
        else:
            connection.close()
        return response.status, answer

    def _connect(self):
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.parse import urlsplit

        url = urlsplit(self._address)
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        self._path = (url.path or "/") + ("?" + url.query if url.query else "")
        return kind(url.hostname, url.port, timeout=TIMEOUT_SECONDS)


def _encode(value):
    """Convert objects with a text form, such as dates and UUIDs, to text."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)

"""Counts the requests of one worker, for scaling by HTTP: the numbers received and in progress.

Requests from a gateway or the bridge are distinguished, because they are counted there, too.
"""

import threading

from waitress.parser import HTTPRequestParser

from . import board

HEADER = "ROUSE_VIA"  # the header's name in waitress
SENDERS = {"gateway": board.GATEWAY, "eventbridge": board.EVENTBRIDGE}


class Request(HTTPRequestParser):
    """A request from a connection."""

    sender = None  # set while the request is in progress


class Load:
    """Counts for the slot of the worker, from any of its threads."""

    def __init__(self, shared, slot):
        self._board = shared
        self._slot = slot
        self._lock = threading.Lock()

    def begin(self, request):
        """Count a received request, once."""
        with self._lock:
            if request.sender is None:
                request.sender = SENDERS.get(request.headers.get(HEADER), board.OTHER)
                self._slot.begin(request.sender)

    def end(self, request):
        """Count a request as ended, if it was in progress."""
        with self._lock:
            if request.sender is not None:
                self._slot.end(request.sender)
                request.sender = None

    def is_least(self):
        """Report whether every other serving worker has at least as many requests in progress."""
        own = self._slot.running
        return all(slot.running >= own for slot in self._board.serving())

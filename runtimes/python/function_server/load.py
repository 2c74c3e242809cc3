"""Counts the requests of one worker, for scaling by HTTP: how many have come, and how many are under way.

Those that a gateway or the bridge has sent are told apart, because they are counted there, too.
"""

import threading

from waitress.parser import HTTPRequestParser

from . import board

HEADER = "ROUSE_VIA"  # as waitress has it
SENDERS = {"gateway": board.GATEWAY, "eventbridge": board.EVENTBRIDGE}


class Request(HTTPRequestParser):
    """A request as it comes from a connection."""

    sender = None  # while it is under way


class Load:
    """Counts for the slot of the worker, from any of its threads."""

    def __init__(self, shared, slot):
        self._board = shared
        self._slot = slot
        self._lock = threading.Lock()

    def begin(self, request):
        """Count a request that has come, once."""
        with self._lock:
            if request.sender is None:
                request.sender = SENDERS.get(request.headers.get(HEADER), board.OTHER)
                self._slot.begin(request.sender)

    def end(self, request):
        """Count a request as under way no more, if it is."""
        with self._lock:
            if request.sender is not None:
                self._slot.end(request.sender)
                request.sender = None

    def is_least(self):
        """Tell whether no worker that serves has fewer requests under way."""
        own = self._slot.running
        return all(slot.running >= own for slot in self._board.serving())

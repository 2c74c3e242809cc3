"""Ends calls that take longer than the Function's timeout."""

import time

from . import current

MOST_INTERVAL = 0.25
REPEAT_SECONDS = 5
WORN_OUT = 50


class Expiry:
    """Ends overdue calls of one worker, from the thread that reads and writes.

    Python cannot stop a thread. It can raise an exception in one, which takes
    effect when the thread runs Python again. Until then the thread is counted
    as lost, and another replaces it in the pool; when too many are lost, the
    worker is replaced.
    """

    def __init__(self, server, config):
        self._server = server
        self._timeout = config.timeout
        self.interval = min(MOST_INTERVAL, config.timeout / 4)
        self._lost = {}  # from a thread's id to the time of its next interrupt

    @property
    def worn_out(self):
        """Report whether so many threads hang that the process should be replaced."""
        return len(self._lost) >= WORN_OUT

    def check(self):
        """End the calls that are due."""
        if self._server.calls:
            limit = time.perf_counter() - self._timeout
            for call, (thread, channel, request) in list(self._server.calls.items()):
                if call.start < limit and self._server.calls.pop(call, None):
                    self._server.load.end(request)
                    self._expire(call, thread, channel)
        if self._lost:
            self._interrupt_again()

    def _expire(self, call, thread, channel):
        self._server.application.expired(call)
        channel.expire()
        self._lost[thread] = time.monotonic() + REPEAT_SECONDS
        _interrupt(thread)
        thread.pool.abandon()

    def _interrupt_again(self):
        now = time.monotonic()
        for thread, due in list(self._lost.items()):
            if not thread.is_alive():
                del self._lost[thread]
            elif now >= due:
                self._lost[thread] = now + REPEAT_SECONDS
                _interrupt(thread)


def _interrupt(thread):
    import ctypes

    if thread.is_alive():
        ident = ctypes.c_ulong(thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(current.Expired))

"""Receives the signals that end a worker."""

import os
import signal


class Stop:
    """The first SIGTERM or SIGINT lets busy requests finish, the second does not."""

    def __init__(self):
        self.begun = False
        self._process = os.getpid()
        self._wake = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._receive)

    def attach(self, wake):
        """Call wake at the first signal; before this, a signal ends the process at once."""
        self._wake = wake

    def _receive(self, number, _frame):
        if os.getpid() != self._process:  # a process that the handler has forked, which ends as any other
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self.begun or self._wake is None:
            os._exit(1 if self.begun else 0)
        self.begun = True
        self._wake()

"""Receives the signals that end a worker."""

import os
import signal
import threading

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """The first SIGTERM or SIGINT lets busy requests finish, the second does not."""

    def __init__(self):
        self.begun = False
        self._wake = None
        self._forking = threading.local()
        for number in SIGNALS:
            signal.signal(number, self._receive)
        os.register_at_fork(before=self._hold, after_in_parent=self._release, after_in_child=self._resign)

    def attach(self, wake):
        """Call wake at the first signal; before this, a signal ends the process at once."""
        self._wake = wake

    def _hold(self):
        """Block signals while a handler forks: the new process would lose a signal that arrives in between."""
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def _release(self):
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)

    def _resign(self):
        """Restore the default action of signals in a process that a handler has forked."""
        for number in SIGNALS:
            if signal.getsignal(number) == self._receive:
                signal.signal(number, signal.SIG_DFL)
        self._release()

    def _receive(self, _number, _frame):
        if self.begun or self._wake is None:
            os._exit(1 if self.begun else 0)
        self.begun = True
        self._wake()

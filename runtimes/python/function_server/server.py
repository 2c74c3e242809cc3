"""Starts a Function and ends it politely."""

import os
import signal
import sys

from . import app, current, failure, handler
from .config import Config
from .publisher import Publisher


def main():
    """Load the handler, and only then listen, so that a server which accepts can serve."""
    config = Config(os.environ)
    stop = Stop()
    publisher = Publisher(config.publisher_address)
    current.start(current.Runtime(config, publisher))
    try:
        application = app.create(handler.load(config), config, publisher)
    except BaseException as error:  # a module may raise SystemExit while it loads
        _fail(failure.describe(error), config)

    from . import listener

    try:
        server = listener.create(application, config)
    except OSError as error:
        _fail(f"cannot listen on {config.host}:{config.port}: {error}", config)
    stop.attach(server.pull_trigger)
    print(f"listening on {config.host}:{server.effective_port}", flush=True)
    server.serve(lambda: stop.begun)


def _fail(text, config):
    failure.report(text, config.termination_log)
    sys.exit(1)


class Stop:
    """Receives SIGTERM and SIGINT: the server is PID 1, for which the kernel ignores a signal that has no handler."""

    def __init__(self):
        self.begun = False
        self._wake = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._receive)

    def attach(self, wake):
        """Call wake at the first signal; before this, a signal ends the process at once."""
        self._wake = wake

    def _receive(self, _number, _frame):
        if self.begun or self._wake is None:
            os._exit(1 if self.begun else 0)
        self.begun = True
        self._wake()

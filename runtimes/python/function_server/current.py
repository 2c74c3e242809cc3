"""The state of this process and of the call in progress."""

import contextvars
import time

_call = contextvars.ContextVar("call", default=None)
_runtime = []


class Expired(BaseException):
    """Raised inside a handler that takes longer than the Function's timeout."""


class Runtime:
    """The parts of the server that a handler can reach."""

    def __init__(self, config, publisher, tracing):
        self.config = config
        self.publisher = publisher
        self.tracing = tracing


class Call:
    """One request that a handler answers."""

    __slots__ = ("start", "environ", "failed", "counted", "trace", "span_start", "error")

    def __init__(self):
        self.start = time.perf_counter()
        self.environ = None
        self.failed = False
        self.counted = False
        self.trace = None
        self.span_start = 0
        self.error = None

    def fail(self, error):
        """Note that the handler failed, with the cause: an exception or a text."""
        self.failed = True
        self.error = error


def start(runtime):
    """Make runtime available to the handler; called once, before the handler loads."""
    _runtime[:] = [runtime]


def runtime():
    """Return the argument of start."""
    return _runtime[0]


def begin(call):
    """Note the call that this thread is about to make."""
    _call.set(call)


def call():
    """Return the call in progress, or None outside of one."""
    return _call.get()


def environ():
    """Return the WSGI environ of the call in progress, or None outside of one."""
    made = _call.get()
    return made.environ if made is not None else None

"""What belongs to this process and to the call in progress, for the `sdk` module."""

import contextvars

_environ = contextvars.ContextVar("environ", default=None)
_runtime = []


class Runtime:
    """The parts of the server that a handler can reach."""

    def __init__(self, config, publisher):
        self.config = config
        self.publisher = publisher


def start(runtime):
    """Make runtime the one that the handler reaches; called once, before it loads."""
    _runtime[:] = [runtime]


def runtime():
    """Give what start was called with."""
    return _runtime[0]


def begin(environ):
    """Note the WSGI environ of the call that this thread is about to make."""
    _environ.set(environ)


def environ():
    """Give the WSGI environ of the call in progress, or None outside of one."""
    return _environ.get()

"""Prepares each process of a Function: the server's workers, and processes that a handler starts."""

import os

from . import current, inline, outgoing, tracing
from .config import Config
from .publisher import Publisher


def begin(config):
    """Prepare the handler's interface, before its module loads; return the traces."""
    traces = tracing.Tracing(config)
    current.start(current.Runtime(config, Publisher(config.publisher_address, config.publisher_token_file), traces))
    outgoing.install(traces)
    if config.modern:
        import sdk  # noqa: F401 (before a package of this name can be found)
    return traces


def join():
    """Prepare a process that Python has started for spawn or forkserver.

    It finds the handler's module by name, and the handler's modules on the path that multiprocessing passes on.
    """
    config = Config(os.environ)
    begin(config)
    if config.handler_source:
        inline.provide(config)

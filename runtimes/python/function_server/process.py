"""What every process of a Function has: the server's workers, and those that a handler starts with multiprocessing."""

import os

from . import current, inline, outgoing, tracing
from .config import Config
from .publisher import Publisher


def begin(config):
    """Make what the handler reaches, before its module loads; gives the traces."""
    traces = tracing.Tracing(config)
    current.start(current.Runtime(config, Publisher(config.publisher_address, config.publisher_token_file), traces))
    outgoing.install(traces)
    if config.modern:
        import sdk  # noqa: F401 (before a package of that name can be found)
    return traces


def join():
    """Make a process that Python has started for spawn or forkserver one of the Function's.

    It looks for the handler's module by name, and for the modules of the handler on the path that multiprocessing has
    handed on.
    """
    config = Config(os.environ)
    begin(config)
    if config.handler_source:
        inline.provide(config)

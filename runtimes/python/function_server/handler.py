"""Loads the user's module, from the environment or from its file, and picks the handler."""

import sys

from . import inline


class Handler:
    """The handler function, and the frameworks that have to be ready when it is called."""

    def __init__(self, function, source):
        self.function = function
        self._source = source

    def uses(self, framework):
        """Report whether the framework is imported by now, or named in the source, so that a call may import it."""
        return framework in sys.modules or framework.encode() in self._source


def load(config):
    """Load the module and return its Handler; raises the error that prevents it."""
    import importlib

    if config.handler_source:
        inline.provide(config)
    module = importlib.import_module(config.module)
    function = getattr(module, config.function, None)
    if not callable(function):
        raise AttributeError(f"module '{config.module}' has no function '{config.function}'")
    return Handler(function, _source(module))


def _source(module):
    loader = module.__loader__
    if isinstance(loader, inline.Loader):
        return loader.source
    filename = getattr(module, "__file__", None)
    if not filename:
        return b""
    with open(filename, "rb") as file:
        return file.read()

"""Loads the user's module, from the environment or from its file, and picks the handler.

The variable holds base64 of gzip, because Kubernetes expands `$(X)` and `$$`
in plain text. The module is made in memory: it needs no writable directory.
"""

import os
import sys


class Handler:
    """The handler function, and which frameworks its module needs to be ready when it is called."""

    def __init__(self, function, source):
        self.function = function
        self._source = source

    def uses(self, framework):
        """Tell whether the framework is imported by now, or named in the source, so that a call may import it."""
        return framework in sys.modules or framework.encode() in self._source


def load(config):
    """Load the module and return its Handler; raises whatever keeps it from loading."""
    if config.handler_source:
        source = decode(config.handler_source)
        module = _module_from(source, config)
    else:
        import importlib

        module = importlib.import_module(config.module)
        source = _read(getattr(module, "__file__", None))
    function = getattr(module, config.function, None)
    if not callable(function):
        raise AttributeError(f"module '{config.module}' has no function '{config.function}'")
    return Handler(function, source)


def decode(encoded):
    """Decode the text of FUNC_HANDLER_SOURCE."""
    import binascii
    import zlib

    try:
        return zlib.decompress(binascii.a2b_base64(encoded), wbits=31)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"FUNC_HANDLER_SOURCE is not base64 of gzip: {error}") from error


def _module_from(source, config):
    filename = os.path.join(config.directory, config.module + ".py")
    module = type(sys)(config.module)
    module.__file__ = filename
    module.__loader__ = _Loader(source)
    sys.modules[config.module] = module
    exec(compile(source, filename, "exec"), module.__dict__)  # noqa: S102 (this is what the server is for)
    return module


class _Loader:
    """Lets tracebacks and inspect show lines of a module that has no file."""

    def __init__(self, source):
        self._source = source

    def get_source(self, _name):
        return self._source.decode("utf-8", "replace")


def _read(filename):
    if not filename:
        return b""
    with open(filename, "rb") as file:
        return file.read()

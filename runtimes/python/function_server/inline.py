"""Makes a module of the source in the environment, in the server and in the processes that a handler starts.

The variable holds base64 of gzip, because Kubernetes expands `$(X)` and `$$` in plain text. The module is made in
memory: it needs no writable directory.
"""

import os
import sys


def provide(config):
    """Make the handler's module importable from the source."""
    sys.meta_path.insert(0, _Finder(config))


def decode(encoded):
    """Decode the text of FUNC_HANDLER_SOURCE."""
    import binascii
    import zlib

    try:
        return zlib.decompress(binascii.a2b_base64(encoded), wbits=31)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"FUNC_HANDLER_SOURCE is not base64 of gzip: {error}") from error


class _Finder:
    def __init__(self, config):
        self._module = config.module
        self._encoded = config.handler_source
        self._filename = os.path.join(config.directory, config.module + ".py")

    def find_spec(self, name, _path=None, _target=None):
        if name != self._module:
            return None
        from importlib.machinery import ModuleSpec

        spec = ModuleSpec(name, Loader(decode(self._encoded), self._filename), origin=self._filename)
        spec.has_location = True  # as if the file existed
        return spec


class Loader:
    """Makes lines of a module without a file available to tracebacks and inspect, too."""

    def __init__(self, source, filename):
        self.source = source
        self._filename = filename

    def create_module(self, _spec):
        return None

    def exec_module(self, module):
        code = compile(self.source, self._filename, "exec")
        exec(code, module.__dict__)  # noqa: S102 (the purpose of the server)

    def get_source(self, _name):
        return self.source.decode("utf-8", "replace")

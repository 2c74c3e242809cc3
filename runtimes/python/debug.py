"""Starts the server with a debugger in its worker: debug.py ADDRESS MAIN.

The server forks its workers. A debugger needs threads, which no fork copies, so
it starts in the worker; what a handler forks has none of its own.
"""

import os
import runpy
import sys

_, address, main = sys.argv
host, port = address.rsplit(":", 1)
packages = os.path.join(os.path.dirname(os.path.abspath(__file__)), ".local")
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"


class Debugger:
    """Listens once, in the first process that is forked from this one."""

    listens = False

    def listen(self):
        """Do not wait for a client."""
        if self.listens:
            return
        self.listens = True
        sys.path.append(packages)
        import debugpy

        sys.path.remove(packages)
        debugpy.listen((host, int(port)), in_process_debug_adapter=True)


os.register_at_fork(after_in_child=Debugger().listen)
sys.argv = [main]
runpy.run_path(main, run_name="__main__")

"""Entry point of the container: finds the server's packages and starts it.

Kept this short because Python compiles its main script at every start, while
the modules of the server are in the image as bytecode.
"""

import os
import sys

APP = os.path.dirname(os.path.abspath(__file__))
sys.path[0:0] = [APP, os.path.join(APP, "site-packages")]  # for now; see function_server/path.py

from function_server.server import main  # noqa: E402 (needs the path above)

if __name__ == "__main__":
    main()

"""Entry point of the container: finds the server's packages and starts it.

Kept this short because Python compiles its main script at every start, while
the modules of the server are in the image as bytecode.
"""

import os
import sys

APP = os.path.dirname(os.path.abspath(__file__))
path = sys.path[:]
sys.path[0:0] = [APP, os.path.join(APP, "site-packages")]  # for now; see function_server/path.py

if __name__ == "__main__":
    from function_server.server import main

    main()
elif __name__ == "__mp_main__":  # as multiprocessing calls it
    from function_server.process import join

    join()
    sys.path[:] = path

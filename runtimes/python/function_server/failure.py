"""Reports why the handler did not load.

The text goes to stderr for logs, and into the termination message, which
Kubernetes puts into the pod's status.
"""

import os
import sys
import traceback

MAX_LENGTH = 2000
LAST_FRAMES = 4


def describe(error):
    """Return the last lines of the traceback that belong to the user's code, and the error."""
    import importlib

    own = os.path.dirname(os.path.abspath(__file__))
    importing = os.path.dirname(importlib.__file__)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((own, importing, "<frozen importlib"))
    ]
    lines = traceback.format_list(frames[-LAST_FRAMES:])
    lines += traceback.format_exception_only(error)
    return ("handler did not load:\n" + "".join(lines)).strip()[:MAX_LENGTH]


def report(text, termination_log):
    """Write the text; without a termination log, stderr has it."""
    print(text, file=sys.stderr, flush=True)
    try:
        fd = os.open(termination_log, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as error:
        print("termination log not written:", error, file=sys.stderr, flush=True)

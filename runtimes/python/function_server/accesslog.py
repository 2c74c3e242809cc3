"""Writes the request log: Apache's combined format, on stdout."""

import sys
import time


def write(environ, status, size):
    """Write the line of one request."""
    target = environ.get("REQUEST_URI") or environ["PATH_INFO"]
    line = (
        f"{environ['REMOTE_ADDR']} - - [{_now()}] "
        f'"{environ["REQUEST_METHOD"]} {_quote(target)} {environ["SERVER_PROTOCOL"]}" {status} {size or "-"} '
        f'"{_quote(environ.get("HTTP_REFERER") or "-")}" "{_quote(environ.get("HTTP_USER_AGENT") or "-")}"\n'
    )
    sys.stdout.write(line)


def _now():
    return time.strftime("%d/%b/%Y:%H:%M:%S %z")


def _quote(text):
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(c if c.isascii() and c.isprintable() else f"\\x{ord(c):02x}" for c in text)

"""The token that the publisher asks for where an installation restricts publishing: a file that is replaced now and then."""

import os

MAX_TOKEN = 8192  # the publisher reads no more


class TokenFile:
    """Read again when it has changed; while it cannot be read, the last token counts. Threads may share it."""

    def __init__(self, path):
        self._path = path
        self._seen = (None, None)  # the file's identity, and the token in it

    def read(self):
        """Give the token, or None when there is none."""
        if not self._path:
            return None
        seen, token = self._seen
        try:
            status = os.stat(self._path)
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
            if identity != seen:
                with open(self._path, encoding="latin-1") as file:
                    token = _token(file.read(MAX_TOKEN + 2))
                self._seen = (identity, token)
        except OSError:
            pass  # the publisher refuses a request without a token, with the reason
        return token


def _token(text):
    """Give what a header can carry: http.client would quote anything else in its error."""
    token = text.strip()
    printable = all("!" <= character <= "~" for character in token)
    return token if printable and 0 < len(token) <= MAX_TOKEN else None

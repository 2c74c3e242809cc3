"""The token for the publisher in installations that restrict publishing: a file that is replaced from time to time."""

import os

MAX_TOKEN = 8192  # the publisher's limit


class TokenFile:
    """Reads the file again when it has changed; while it is unreadable, keeps the last token. Safe for threads."""

    def __init__(self, path):
        self._path = path
        self._seen = (None, None)  # the file's identity, and the token in it

    def read(self):
        """Return the token, or None without a token."""
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
            pass  # the publisher rejects a request without a token and names the reason
        return token


def _token(text):
    """Return the token if a header can carry it: http.client would quote any other text in its error."""
    token = text.strip()
    printable = all("!" <= character <= "~" for character in token)
    return token if printable and 0 < len(token) <= MAX_TOKEN else None

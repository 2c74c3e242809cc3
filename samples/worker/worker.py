"""Takes CloudEvents over HTTP, and answers each with another one. It needs the standard library alone, and knows nothing of Rouse."""

import json
import os
import signal
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080
WORK_SECONDS = 0.1
IDLE_SECONDS = float(os.environ.get("IDLE_SECONDS", "0"))  # as a Job: end after so long without a call; 0: never

calls = {"under way": 0, "last": time.monotonic()}
lock = threading.Lock()


def count(more):
    with lock:
        calls["under way"] += more
        calls["last"] = time.monotonic()


def is_idle():
    with lock:
        return calls["under way"] == 0 and time.monotonic() - calls["last"] > IDLE_SECONDS


def report(request):
    """The work: a report of a request."""
    time.sleep(WORK_SECONDS)
    return {**request, "at": int(time.time() * 1000)}


class Worker(BaseHTTPRequestHandler):
    # HTTP/1.0: a connection ends with its answer, and the process with its last one.

    def do_POST(self):
        count(1)
        try:
            self.answer()
        finally:
            count(-1)

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            answer = report(json.loads(body))
        except (ValueError, TypeError):
            self.respond(400, {"content-type": "text/plain"}, b"the data is no JSON object")  # a dead letter: it stays wrong
            return
        self.respond(200, {
            "content-type": "application/json",
            "ce-specversion": "1.0",
            "ce-type": "report.ready",
            "ce-source": "reports",
            "ce-id": str(uuid.uuid5(uuid.NAMESPACE_URL, self.headers.get("ce-id", ""))),  # the same for an event that comes twice
        }, json.dumps(answer).encode())

    def respond(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def end_when_idle(server):
    while not is_idle():
        time.sleep(0.1)
    server.shutdown()


def main():
    server = ThreadingHTTPServer(("", PORT), Worker)
    server.daemon_threads = False
    # Calls under way are answered before the process ends.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    if IDLE_SECONDS:
        threading.Thread(target=end_when_idle, args=(server,), daemon=True).start()
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()

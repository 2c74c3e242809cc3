"""A model server in small: it rates reviews by their words. It needs the standard library alone, and knows nothing of Rouse.

What is true of large ones is true of it. It loads for a while before it can answer, takes one request at a time, and wants to keep what
it has loaded.
"""

import csv
import hashlib
import json
import math
import os
import pathlib
import re
import signal
import threading
import uuid
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080
REVIEWS = pathlib.Path(os.environ.get("REVIEWS", "/app/reviews.csv"))
WEIGHTS = pathlib.Path(os.environ.get("WEIGHTS", "/weights/weights.json"))


def words(text):
    return re.findall(r"[a-z']+", text.lower())


def train(reviews):
    """Weights of words: how much more likely each is in a good review than in a bad one (naive Bayes)."""
    counts = {"good": Counter(), "bad": Counter()}
    for row in csv.DictReader(reviews.splitlines()):
        counts[row["label"]].update(words(row["text"]))
    vocabulary = counts["good"].keys() | counts["bad"].keys()
    totals = {label: sum(count.values()) + len(vocabulary) for label, count in counts.items()}
    return {
        word: math.log((counts["good"][word] + 1) / totals["good"]) - math.log((counts["bad"][word] + 1) / totals["bad"])
        for word in vocabulary
    }


def load():
    """The weights, from the volume where these reviews were trained on before: a wake is quicker than the first start."""
    reviews = REVIEWS.read_text()
    version = hashlib.sha256(reviews.encode()).hexdigest()
    try:
        saved = json.loads(WEIGHTS.read_text())
        if saved["version"] == version:
            return saved["weights"]
    except (OSError, ValueError, KeyError):
        pass  # there are none yet, or a part of them
    weights = train(reviews)
    part = WEIGHTS.with_suffix(".part")
    part.write_text(json.dumps({"version": version, "weights": weights}))
    part.replace(WEIGHTS)
    return weights


class Model:
    def __init__(self, weights):
        self.weights = weights
        self.turn = threading.Lock()  # one at a time, as a GPU has it

    def rate(self, text):
        """A number of stars from 1 to 5."""
        with self.turn:
            score = sum(self.weights.get(word, 0) for word in words(text))
            return round(1 + 4 / (1 + math.exp(-score)))


class Server(BaseHTTPRequestHandler):
    model = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            review = json.loads(body)
            stars = self.model.rate(review["text"])
        except (ValueError, TypeError, KeyError, AttributeError):
            self.respond(400, {"content-type": "text/plain"}, b"the data is no JSON object with a text")  # a dead letter: it stays wrong
            return
        self.respond(200, {
            "content-type": "application/json",
            "ce-specversion": "1.0",
            "ce-type": "review.rated",
            "ce-source": "reviews",
            "ce-id": str(uuid.uuid5(uuid.NAMESPACE_URL, self.headers.get("ce-id", ""))),  # the same for an event that comes twice
        }, json.dumps({**review, "stars": stars}).encode())

    def respond(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def main():
    Server.model = Model(load())  # it listens, and is ready, when the model is loaded
    server = ThreadingHTTPServer(("", PORT), Server)
    server.daemon_threads = False
    # Calls under way are answered before the process ends.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()

"""The model, over real HTTP."""

import http.client
import importlib.util
import json
import pathlib
import tempfile
import threading
import unittest
from http.server import ThreadingHTTPServer

SAMPLE = pathlib.Path(__file__).resolve().parent.parent


def program(weights):
    spec = importlib.util.spec_from_file_location("model", SAMPLE / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.REVIEWS, module.WEIGHTS = SAMPLE / "reviews.csv", weights
    return module


class TestModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.weights = pathlib.Path(folder.name) / "weights.json"
        self.model = program(self.weights)

    def serve(self):
        self.model.Server.model = self.model.Model(self.model.load())
        server = ThreadingHTTPServer(("127.0.0.1", 0), self.model.Server)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

        def post(body, **headers):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
            self.addCleanup(connection.close)
            connection.request("POST", "/", body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        return post

    def test_good_reviews_have_more_stars_than_bad_ones(self):
        post = self.serve()
        stars = {}
        for text in ("great quality and value: excellent, perfect, and beautiful", "broken, a waste of money"):
            status, headers, body = post(json.dumps({"review": "1", "text": text}), ce_id="1")
            self.assertEqual((status, headers["ce-type"], headers["ce-source"]), (200, "review.rated", "reviews"))
            self.assertEqual(json.loads(body)["review"], "1")
            stars[text[:5]] = json.loads(body)["stars"]
        self.assertEqual(stars, {"great": 5, "broke": 1})

    def test_an_event_that_comes_twice_has_the_same_answer_for_deduplication(self):
        post = self.serve()
        ids = {post('{"text": ""}', ce_id="1")[1]["ce-id"] for _ in range(2)}
        self.assertEqual(len(ids), 1)
        self.assertNotIn(post('{"text": ""}', ce_id="2")[1]["ce-id"], ids)

    def test_a_review_without_a_text_becomes_a_dead_letter(self):
        post = self.serve()
        for body in ("", "[", "7", "{}", '{"text": 7}'):
            self.assertEqual(post(body)[0], 400, body)

    def test_weights_that_are_there_are_loaded(self):
        trained = self.model.load()
        saved = json.loads(self.weights.read_text())
        saved["weights"] = {"again": 1.0}
        self.weights.write_text(json.dumps(saved))
        self.assertEqual(self.model.load(), {"again": 1.0})
        for broken in ("", '{"version": "of other reviews", "weights": {}}'):
            self.weights.write_text(broken)
            self.assertEqual(self.model.load(), trained, broken)


if __name__ == "__main__":
    unittest.main()

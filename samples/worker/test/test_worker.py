"""The worker, over real HTTP."""

import http.client
import importlib.util
import json
import pathlib
import threading
import unittest
from http.server import ThreadingHTTPServer

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "worker.py"


def load():
    spec = importlib.util.spec_from_file_location("worker", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WORK_SECONDS = 0
    return module


class TestWorker(unittest.TestCase):
    def setUp(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), load().Worker)
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def post(self, body, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", "/", body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def test_an_event_is_answered_with_another(self):
        status, headers, body = self.post(json.dumps({"key": "a"}), ce_id="1", ce_type="report.requested")
        self.assertEqual((status, headers["ce-type"], headers["ce-source"]), (200, "report.ready", "reports"))
        self.assertEqual(json.loads(body)["key"], "a")

    def test_an_event_that_comes_twice_has_the_same_answer_for_deduplication(self):
        ids = {self.post("{}", ce_id="1")[1]["ce-id"] for _ in range(2)}
        self.assertEqual(len(ids), 1)
        self.assertNotIn(self.post("{}", ce_id="2")[1]["ce-id"], ids)

    def test_data_that_is_no_object_becomes_a_dead_letter(self):
        for body in ("", "[", "7"):
            self.assertEqual(self.post(body)[0], 400, body)


class TestJob(unittest.TestCase):
    def test_it_ends_when_nothing_comes(self):
        module = load()
        module.IDLE_SECONDS = 0.2
        server = ThreadingHTTPServer(("127.0.0.1", 0), module.Worker)
        self.addCleanup(server.server_close)
        ending = threading.Thread(target=module.end_when_idle, args=(server,))
        ending.start()
        server.serve_forever()
        ending.join()

    def test_a_call_under_way_keeps_it(self):
        module = load()
        module.count(1)
        self.assertFalse(module.is_idle())

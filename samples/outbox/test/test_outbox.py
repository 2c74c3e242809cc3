"""The outbox, over real HTTP. Of the database the connection and its cursor are fakes."""

import importlib.util
import logging
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
import types
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "outbox.py"
CREATED = "2026-01-02T03:04:05.678900Z"


def load():
    spec = importlib.util.spec_from_file_location("outbox", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DatabaseError(Exception):
    pass


class Table:
    """Rows, with a lease that one transaction has at a time."""

    def __init__(self, *rows):
        self.rows = {row[0]: row for row in rows}
        self.refused = {}
        self.holder = None
        self.lost_commits = 0

    def connect(self):
        return Connection(self)


class Connection:
    """A connection, and its cursor."""

    def __init__(self, table):
        self.table, self.changes, self.answer = table, [], []

    def cursor(self):
        return self

    def execute(self, statement, args=()):
        table = self.table
        if "pg_try_advisory_xact_lock" in statement:
            table.holder = table.holder or self
            self.answer = [[table.holder is self]]
        elif statement.startswith("SELECT"):
            limit = int(statement.split("LIMIT")[1])
            self.answer = [row for key, row in sorted(table.rows.items()) if key not in table.refused][:limit]
        elif statement.startswith("DELETE"):
            self.changes.append(lambda: table.rows.pop(args[0]))
        elif statement.startswith("UPDATE"):
            self.changes.append(lambda: table.refused.update({args[1]: args[0]}))

    def fetchone(self):
        return self.answer[0]

    def fetchall(self):
        return self.answer

    def commit(self):
        if self.table.lost_commits:
            self.table.lost_commits -= 1
            raise DatabaseError("the connection is gone")
        for change in self.changes:
            change()
        self.end()

    def end(self):
        self.changes = []
        if self.table.holder is self:
            self.table.holder = None

    rollback = close = end


class Ingress(ThreadingHTTPServer):
    """Answers as it is told to, and stores each id once, as Rouse does."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/publish"
        self.answers, self.asked, self.stored = {}, [], {}  # answers of each id, in order; then it is stored
        self.before = lambda id: None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        id, server = self.headers["ce-id"], self.server
        server.asked.append(id)
        server.before(id)
        status, headers = server.answers[id].pop(0) if server.answers.get(id) else (204, {})
        if status == 413:  # answers before it has read the body
            self.close_connection = True
        else:
            body = self.rfile.read(int(self.headers["content-length"]))
        if status == 204:
            server.stored.setdefault(id, (dict(self.headers), body))
        text = b"" if status == 204 else b"says why"
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format, *args):
        pass


def row(key, kind="order.received", subject=None, data='{"id": "1001"}'):
    return (key, kind, subject, CREATED, data)


class TestOutbox(unittest.TestCase):
    def setUp(self):
        self.outbox, self.ingress, self.stopping = load(), Ingress(), threading.Event()
        self.outbox.IDLE_SECONDS, self.outbox.pause = 0.01, lambda failures: 0.01
        thread = threading.Thread(target=self.ingress.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.ingress.server_close)
        self.addCleanup(self.ingress.shutdown)

    def run_until(self, table, done, url=""):
        """Runs the program until a condition holds, and returns what it logs."""
        def watch():
            while not done() and not self.stopping.wait(0.005):
                pass
            self.stopping.set()
        watcher = threading.Thread(target=watch)
        limit = threading.Timer(30, self.stopping.set)
        with self.assertLogs("outbox") as logged:
            self.outbox.log.info("begins")
            limit.start()
            watcher.start()
            self.outbox.run(table.connect, (DatabaseError,), url or self.ingress.url, self.stopping)
            watcher.join()
            limit.cancel()
        self.assertTrue(done(), logged.output)
        return "\n".join(logged.output)

    def publish_all(self, table):
        return self.run_until(table, lambda: not table.rows)

    def test_rows_become_events_in_order_and_are_deleted(self):
        table = Table(*(row(key) for key in range(45, 0, -1)))
        self.publish_all(table)
        self.assertEqual(self.ingress.asked, [f"outbox-{key}" for key in range(1, 46)])
        headers, body = self.ingress.stored["outbox-7"]
        self.assertEqual(body, b'{"id": "1001"}')
        self.assertEqual({name: value for name, value in headers.items() if name.startswith("ce-")}, {
            "ce-specversion": "1.0", "ce-id": "outbox-7", "ce-source": "shop", "ce-type": "order.received", "ce-time": CREATED,
        })
        self.assertEqual(headers["content-type"], "application/json")

    def test_a_batch_is_bounded(self):
        table = Table(*(row(key) for key in range(1, 46)))
        self.assertEqual(self.outbox.publish_batch(table.connect(), self.ingress.url, self.stopping), (20, None))
        self.assertEqual(len(table.rows), 25)
        self.outbox.BATCH_SECONDS = 0.2
        self.ingress.before = lambda id: threading.Event().wait(0.15)
        self.assertEqual(self.outbox.publish_batch(table.connect(), self.ingress.url, self.stopping), (2, None))

    def test_what_is_published_and_not_deleted_is_published_again_with_the_same_id(self):
        table = Table(row(1), row(2))
        table.lost_commits = 1
        said = self.publish_all(table)
        self.assertEqual(self.ingress.asked, ["outbox-1", "outbox-2"] * 2)
        self.assertEqual(list(self.ingress.stored), ["outbox-1", "outbox-2"])
        self.assertIn("the connection is gone", said)

    def test_nothing_overtakes_a_row_that_is_tried_again(self):
        table = Table(row(1), row(2), row(3))
        self.ingress.answers["outbox-2"] = [(status, {}) for status in (429, 503, 507, 401, 403, 404, 200, 302)]
        said = self.publish_all(table)
        self.assertEqual(self.ingress.asked, ["outbox-1"] + ["outbox-2"] * 9 + ["outbox-3"])
        self.assertIn("row 2 waits, and all behind it: 503 says why", said)

    def test_retry_after_is_waited_for(self):
        table = Table(row(1))
        for value, seconds in {"7": 7, "Fri, 31 Dec 2027 23:59:59 GMT": 0}.items():
            self.ingress.answers["outbox-1"] = [(503, {"retry-after": value})]
            with self.assertLogs("outbox"):
                _, problem = self.outbox.publish_batch(table.connect(), self.ingress.url, self.stopping)
            self.assertEqual(problem.after, seconds)

    def test_pauses_grow_up_to_a_bound(self):
        pauses = [load().pause(failures) for failures in (*range(1, 20), 10_000)]
        self.assertLessEqual(pauses[0], 1)
        self.assertGreater(pauses[8], 10)
        self.assertLessEqual(max(pauses), 30)

    def test_an_ingress_that_is_away_is_waited_for(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}/publish"
            table, tries = Table(row(1)), []
            self.outbox.pause = lambda failures: tries.append(failures) or 0.01
            said = self.run_until(table, lambda: len(tries) > 3, url)
        self.assertEqual(tries[:3], [1, 2, 3])
        self.assertEqual(list(table.rows), [1])
        self.assertIn("ConnectionRefusedError", said)

    def test_a_row_that_is_refused_is_set_aside_with_the_reason_and_the_others_go_on(self):
        table = Table(row(1), row(2), row(3))
        self.ingress.answers["outbox-2"] = [(400, {})]
        said = self.run_until(table, lambda: list(table.rows) == [2])
        self.assertEqual(table.refused, {2: "400 says why"})
        self.assertIn("ERROR:outbox:row 2 is set aside until its column refused is NULL again: 400 says why", said)
        self.assertEqual(self.ingress.asked, ["outbox-1", "outbox-2", "outbox-3"])

    def test_a_body_that_is_answered_before_it_is_read_is_refused(self):
        table = Table(row(1, data=" " * 16_000_000), row(2))
        self.ingress.answers["outbox-1"] = [(413, {})] * 5
        self.run_until(table, lambda: list(table.rows) == [1])
        self.assertEqual(table.refused, {1: "413 says why"})

    def test_attributes_are_encoded(self):
        table = Table(row(1, kind="a\r\nevil: yes", subject='größe "10%"'))
        self.publish_all(table)
        headers, _ = self.ingress.stored["outbox-1"]
        self.assertEqual((headers["ce-type"], headers["ce-subject"]), ("a%0D%0Aevil:%20yes", "gr%C3%B6%C3%9Fe%20%2210%25%22"))
        self.assertNotIn("evil", headers)

    def test_while_another_replica_has_the_lease_nothing_is_published(self):
        table = Table(row(1))
        other = table.connect()
        other.execute("SELECT pg_try_advisory_xact_lock")
        self.assertEqual(self.outbox.publish_batch(table.connect(), self.ingress.url, self.stopping), (0, None))
        self.assertEqual(self.ingress.asked, [])
        other.close()
        self.assertEqual(self.outbox.publish_batch(table.connect(), self.ingress.url, self.stopping), (1, None))

    def test_two_replicas_keep_the_order(self):
        table = Table(*(row(key) for key in range(1, 60)))
        self.ingress.before = lambda id: threading.Event().wait(0.001)
        second = threading.Thread(target=self.outbox.run, args=(table.connect, (DatabaseError,), self.ingress.url, self.stopping))
        second.start()
        self.publish_all(table)
        second.join()
        self.assertEqual(self.ingress.asked, [f"outbox-{key}" for key in range(1, 60)])

    def test_the_token_is_read_for_each_event(self):
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder) / "token"
            self.outbox.TOKEN_FILE = token
            token.write_text("first\n")
            self.ingress.before = lambda id: token.write_text("second\n")
            self.publish_all(Table(row(1), row(2)))
        self.assertEqual([headers["authorization"] for headers, _ in self.ingress.stored.values()], ["Bearer first", "Bearer second"])

    def program(self, table):
        """The module with a driver of the fake database, and the arguments of each connection."""
        calls, driver = [], types.ModuleType("pg8000.dbapi")
        driver.Error = DatabaseError
        driver.connect = lambda **arguments: calls.append(arguments) or table.connect()
        package = types.ModuleType("pg8000")
        package.dbapi = driver
        for name, module in {"pg8000": package, "pg8000.dbapi": driver}.items():
            sys.modules[name] = module
            self.addCleanup(sys.modules.pop, name)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        secret = {"host": "db", "port": "5432\n", "dbName": "shop", "userName": "outbox", "password": "s", "sslmode": "disable"}
        self.outbox.DATABASE = pathlib.Path(folder.name)
        for name, value in secret.items():
            (self.outbox.DATABASE / name).write_text(value)
        return calls

    def test_a_connection_has_what_the_secret_says_now(self):
        calls = self.program(Table())
        self.outbox.connect()
        (self.outbox.DATABASE / "password").write_text("rotated")
        (self.outbox.DATABASE / "sslmode").write_text("verify-full")
        self.outbox.connect()
        self.assertEqual((calls[0]["host"], calls[0]["port"], calls[0]["database"], calls[0]["user"]), ("db", 5432, "shop", "outbox"))
        self.assertEqual([call["password"] for call in calls], ["s", "rotated"])
        self.assertIs(calls[0]["ssl_context"], False)
        self.assertTrue(calls[1]["ssl_context"].check_hostname)

    def test_sigterm_ends_it_after_the_row_under_way(self):
        table = Table(*(row(key) for key in range(1, 10)))
        self.program(table)
        self.outbox.INGRESS = self.ingress.url

        def terminate(id):
            if id == "outbox-3":
                os.kill(os.getpid(), signal.SIGTERM)
                threading.Event().wait(0.3)
        self.ingress.before = terminate
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        self.addCleanup(logging.root.handlers.clear)
        with self.assertLogs("outbox"):
            self.outbox.main()
        self.assertEqual(list(self.ingress.stored), ["outbox-1", "outbox-2", "outbox-3"])
        self.assertEqual(list(table.rows), [4, 5, 6, 7, 8, 9])


if __name__ == "__main__":
    unittest.main()

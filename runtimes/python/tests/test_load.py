"""The load that any worker reports: the requests that count as in progress, and until when."""

import json
import socket
import threading
import time

import pytest
from conftest import START_TIMEOUT, wait_for

LOAD = "/.well-known/rouse/load"

# Each call lasts until a file with the name of its path exists.
LASTING = """
import os, time

def main(event, context):
    path = event["extensions"]["request"].path
    if path == "/die":
        os._exit(3)
    while not os.path.exists(os.environ["ENDS"] + path):
        time.sleep(0.01)
    return str(os.getpid())
"""


@pytest.fixture(name="lasting")
def start_lasting(serve, tmp_path):
    """Start a server whose calls last until the test ends them."""

    def start(**environment):
        return serve(LASTING, FUNC_RUNTIME="python312", ENDS=str(tmp_path), **environment).listening()

    return start


def load(server):
    """Return requests, running, viaGateway and viaEventbridge."""
    answer = server.request(path=LOAD)
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    told = json.loads(answer.text)
    assert list(told) == ["requests", "running", "viaGateway", "viaEventbridge"]
    return tuple(told.values())


def shows(server, *wanted):
    """Wait until the load is as expected; a worker that ends may not respond."""

    def told():
        try:
            return load(server)
        except OSError:
            return None

    wait_for(lambda: told() == wanted)


def test_every_worker_reports_the_calls_of_all_also_while_all_threads_are_busy(lasting, tmp_path):
    server = lasting(SERVER_PROCESSES="2", CHERRYPY_NUMTHREADS="2")
    senders = [{}, *({"Rouse-Via": via} for via in ("gateway", "eventbridge", "gateway", "me"))]
    workers = set()
    total = 0

    def call(path, headers):
        workers.add(server.request(path=path, headers=headers).text)

    deadline = time.monotonic() + START_TIMEOUT
    while len(workers) < 2:  # until the second one serves
        assert time.monotonic() < deadline
        path = f"/{total}"
        threads = [threading.Thread(target=call, args=(path, headers)) for headers in senders]
        for thread in threads:
            thread.start()
        total += len(senders)
        shows(server, total, 5, 2, 1)
        assert server.request(path="/healthz").text == "OK"
        (tmp_path / path[1:]).touch()
        for thread in threads:
            thread.join()
        shows(server, total, 0, 0, 0)


def test_calls_of_a_dead_worker_are_not_in_progress_and_its_requests_still_count(lasting):
    server = lasting()
    lost = []
    threads = [threading.Thread(target=lambda: lost.append(_lost(server, "/0"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    shows(server, 3, 3, 0, 0)
    lost.append(_lost(server, "/die"))
    for thread in threads:
        thread.join()
    assert lost == [True] * 4
    server.printed("another one takes its place")
    shows(server, 4, 0, 0, 0)


def _lost(server, path):
    try:
        server.request(path=path)
    except OSError:
        return True
    return False


def test_hanging_calls_are_not_in_progress_after_the_timeouts_response(serve):
    source = "import time\ndef main(event, context):\n    time.sleep(600)\n"
    server = serve(source, FUNC_RUNTIME="python312", CHERRYPY_NUMTHREADS="10", FUNC_TIMEOUT="0.2").listening()
    threads = [threading.Thread(target=server.request) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shows(server, 60, 0, 0, 0)


@pytest.mark.parametrize(
    ("runtime", "source"),
    [
        ("python312", "def main(event, context):\n    return stream()\n"),
        ("python314", "import flask\ndef main():\n    return flask.Response(stream())\n"),
    ],
)
def test_stream_is_in_progress_until_it_ends(serve, tmp_path, runtime, source):
    stream = """
import os, time

def stream():
    yield "a"
    while not os.path.exists(os.environ["ENDS"]):
        time.sleep(0.01)
    yield "b"
"""
    end = tmp_path / "end"
    server = serve(source + stream, FUNC_RUNTIME=runtime, ENDS=str(end)).listening()
    connection = server.connect()
    connection.request("GET", "/", headers={"Rouse-Via": "gateway"})
    response = connection.getresponse()
    shows(server, 1, 1, 1, 0)
    end.touch()
    assert response.read() == b"ab"
    shows(server, 1, 0, 0, 0)


def test_incomplete_request_of_a_disconnected_client_is_not_in_progress(serve):
    server = serve("def main(event, context):\n    return 'x'\n", FUNC_RUNTIME="python312").listening()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: f\r\nContent-Length: 9\r\nRouse-Via: eventbridge\r\n\r\nx")
        shows(server, 1, 1, 0, 1)
    shows(server, 1, 0, 0, 0)


def test_pipelined_requests_are_in_progress_in_turn(lasting, tmp_path):
    server = lasting()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"".join(b"GET /%d HTTP/1.1\r\nHost: f\r\n\r\n" % i for i in range(3)))
        for i in range(3):
            shows(server, i + 1, 1, 0, 0)
            (tmp_path / str(i)).touch()
        shows(server, 3, 0, 0, 0)


def test_the_load_is_not_in_the_request_log(serve):
    source = "def main(event, context):\n    return 'x'\n"
    server = serve(source, FUNC_RUNTIME="python312", KYMA_INTERNAL_LOGGER_ENABLED="1").listening()
    load(server)
    server.request(path="/orders")
    server.printed("GET /orders")
    assert LOAD not in server.output

"""A pod that stands in takes one Function in its life, from who has its key."""

import hashlib
import http.client
import json
import signal
import socket

import pytest
from conftest import encode

KEY = "the key of this pod"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()
PATH = "/.well-known/rouse/stand-in"
SOURCES = {
    "python312": "import os\n\ndef main(event, context):\n    return os.environ['GREETING'] + str(os.environ.get('FUNC_STAND_IN'))\n",
    "python314": "import os\n\ndef main():\n    return os.environ['GREETING'] + str(os.environ.get('FUNC_STAND_IN'))\n",
}


@pytest.fixture
def stand_in(serve):
    """Return a function that starts a server that stands in."""
    return lambda **environment: serve(FUNC_STAND_IN=DIGEST, **environment).listening()


def give(server, source, key=KEY, **environment):
    """Hand a Function over."""
    environment["FUNC_HANDLER_SOURCE"] = encode(source)
    return server.request("POST", PATH, body=json.dumps({"key": key, "environment": environment}))


@pytest.mark.parametrize("processes", ["1", "3"])
@pytest.mark.parametrize("runtime", SOURCES)
def test_becomes_the_server_of_a_function(stand_in, runtime, processes):
    server = stand_in(FUNC_RUNTIME=runtime, SERVER_PROCESSES=processes)
    assert server.request(path="/healthz").status == 200
    assert server.request().status == 503
    assert give(server, SOURCES[runtime], GREETING="hello").status == 204
    answer = server.request()
    assert (answer.status, answer.text) == (200, "helloNone")
    assert server.request(path="/healthz").status == 200


def test_takes_no_function_from_a_stranger_and_none_twice(stand_in):
    server = stand_in()
    for body, status in [
        ("", 400),
        ("{}", 400),
        (json.dumps({"key": 1, "environment": {}}), 400),
        (json.dumps({"key": KEY, "environment": {"A": {}}}), 400),
        (json.dumps({"key": KEY, "environment": None}), 400),
        (json.dumps({"key": "", "environment": {}}), 403),
        (json.dumps({"key": DIGEST, "environment": {}}), 403),
    ]:
        assert server.request("POST", PATH, body=body).status == status, body
    connection = server.connect()
    connection.putrequest("POST", PATH)
    connection.putheader("Content-Length", str(1024 * 1024 + 1))
    connection.endheaders()
    assert connection.getresponse().status == 400
    assert give(server, SOURCES["python312"], GREETING="first").status == 204
    give(server, SOURCES["python312"], GREETING="second")
    assert server.request().text == "firstNone"


def test_ends_when_the_handler_does_not_load(stand_in):
    server = stand_in()
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        give(server, "raise ValueError('no')\n")
    assert server.exit_code() == 1
    assert "no" in server.termination_log.read_text()


@pytest.mark.parametrize("given", [False, True])
def test_ends_on_a_signal_before_and_after_the_hand_over(stand_in, given):
    server = stand_in()
    if given:
        give(server, SOURCES["python312"])
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0


def test_closes_the_connections_of_those_who_send_nothing(stand_in):
    server = stand_in()
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
    assert server.request(path="/healthz").status == 200
    for each in silent:
        each.settimeout(60)
        assert each.recv(1) == b""
        each.close()

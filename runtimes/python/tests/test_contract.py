"""Drives both Python APIs through the cases that all runtimes share."""

import json
import re
import signal
import threading
import time
from datetime import datetime

import pytest
from conftest import CASES, read_handler

VARIANTS = {name: variant for name, variant in CASES["variants"].items() if name.startswith("python-")}


@pytest.fixture(params=VARIANTS, name="variant")
def each_variant(request):
    """One of the two APIs."""
    return {"name": request.param, **VARIANTS[request.param]}


@pytest.fixture(name="start")
def start_variant(serve, variant):
    """Start the server with a handler of the contract."""

    def start(handler, **environment):
        source = read_handler(handler, variant["file"])
        return serve(source, FUNC_RUNTIME=variant["runtime"], **CASES["environment"], **environment)

    return start


@pytest.mark.parametrize("case", CASES["requests"], ids=lambda case: case["name"])
def test_request(case, variant, start, publisher):
    if variant["name"] not in case.get("only", VARIANTS):
        pytest.skip("not a case of this API")
    publisher.status = case.get("publisherStatus", 204)
    environment = {"PUBLISHER_PROXY_ADDRESS": publisher.address, **case.get("environment", {})}
    if case.get("limitBody"):
        environment.update(variant["bodyLimit"])
    answer = start(case["handler"], **environment).listening().request(**case["request"])
    check(answer, case["response"], variant)
    if "emitted" in case:
        check_emitted(publisher.events, case["emitted"])


def check(answer, want, variant):
    assert answer.status == want["status"], answer.text
    for name, pattern in want.get("headers", {}).items():
        assert re.search(pattern, answer.headers.get(name, ""))
    if "json" in want:
        assert json.loads(answer.text) == json.loads(json.dumps(want["json"]).replace("$runtime", variant["runtime"]))
    if "text" in want:
        assert (answer.text.lower() if want.get("foldCase") else answer.text) == want["text"]


def check_emitted(events, want):
    [(path, content_type, event)] = events
    assert path == "/publish"
    assert content_type == "application/cloudevents+json"
    assert event.pop("id")
    assert datetime.fromisoformat(event.pop("time").replace("Z", "+00:00")).utcoffset() is not None
    assert event == want


@pytest.mark.parametrize("case", CASES["loadFailures"], ids=lambda case: case["handler"])
def test_load_failure_is_in_the_termination_message_and_the_exit_code_is_1(case, start):
    server = start(case["handler"])
    assert server.exit_code() == 1
    message = server.termination_log.read_text()
    assert message.startswith("handler did not load")
    assert case["python"] in message
    assert case["python"] in server.output


def test_sigterm_lets_a_busy_request_finish_takes_no_new_one_and_exits_0(start):
    server = start("slow").listening()
    answers = []
    busy = threading.Thread(target=lambda: answers.append(server.request()))
    busy.start()
    time.sleep(0.3)  # the request is on its way; that the handler runs cannot be seen from outside
    server.process.send_signal(signal.SIGTERM)
    busy.join()
    assert json.loads(answers[0].text) == {"finished": True}
    assert server.exit_code() == 0
    with pytest.raises(ConnectionRefusedError):
        server.request()


def test_sigterm_ends_an_idle_server_at_once_also_with_an_open_connection(start):
    server = start("object").listening()
    connection = server.connect()
    server.request(connection=connection)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert time.monotonic() - begin < 5


def test_slow_requests_run_side_by_side(start):
    server = start("slow").listening()
    threads = [threading.Thread(target=server.request) for _ in range(5)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begin < 2 * 1.5

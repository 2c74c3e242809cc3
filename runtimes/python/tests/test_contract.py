"""Drives both Python APIs through the cases that all runtimes share."""

import contextlib
import json
import re
import signal
import threading
import time
from datetime import datetime

import pytest
from conftest import CASES, START_TIMEOUT, attributes, read_handler

VARIANTS = {name: variant for name, variant in CASES["variants"].items() if name.startswith("python-")}
KINDS = {2: "server", 3: "client"}
STATUSES = {0: "unset", 1: "ok", 2: "error"}


@pytest.fixture(params=VARIANTS, name="variant")
def each_variant(request):
    """One of the two APIs."""
    return {"name": request.param, **VARIANTS[request.param]}


@pytest.fixture(name="start")
def start_variant(serve, variant):
    """Start the server with a handler of the contract."""

    def start(handler, **environment):
        source = read_handler(handler, variant["file"])
        shared = {"FUNC_RUNTIME": variant["runtime"], "SERVER_PROCESSES": "2", **CASES["environment"]}
        return serve(source, **shared, **environment)

    return start


@pytest.mark.parametrize("case", CASES["requests"], ids=lambda case: case["name"])
def test_request(case, variant, start, publisher, recorder, tmp_path):
    if variant["name"] not in case.get("only", VARIANTS):
        pytest.skip("not a case of this API")
    publisher.status = case.get("publisherStatus", 204)
    environment = {"PUBLISHER_PROXY_ADDRESS": publisher.address, **case.get("environment", {})}
    if case.get("limitBody"):
        environment.update(variant["bodyLimit"])
    if "memoryLimit" in case:
        (tmp_path / "memory.max").write_text(f"{case['memoryLimit']}\n")
        environment["FUNC_CGROUP"] = str(tmp_path)
    collector = recorder() if "spans" in case else None
    if collector is not None:
        environment["TRACE_COLLECTOR_ENDPOINT"] = collector.address + "/v1/traces"
    server = start(case["handler"], **environment).listening()
    held = [(server.hold(**step["request"]), step["response"]) for step in case.get("held", [])]
    ask(server, case, variant)
    for finish, want in held:
        check(finish(), want, variant)
    for step in case.get("then", []):
        ask(server, step, variant)
    if "emitted" in case:
        check_emitted(publisher.events, case["emitted"])
    if "emittedHeaders" in case:
        check_headers(publisher.headers[0], case["emittedHeaders"])
    if collector is not None:
        server.process.send_signal(signal.SIGTERM)  # at its end, a server sends its spans
        assert server.exit_code() == 0
        check_spans(collector.spans(), case["spans"])


def ask(server, step, variant):
    def asked():
        check(server.request(**step["request"]), step["response"], variant)

    if not step.get("eventually"):
        asked()
        return
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        with contextlib.suppress(AssertionError):
            asked()
            return
        time.sleep(0.01)
    asked()


def check(answer, want, variant):
    assert answer.status == want["status"], answer.text
    check_headers(answer.headers, want.get("headers", {}))
    if "json" in want:
        assert json.loads(answer.text) == json.loads(json.dumps(want["json"]).replace("$runtime", variant["runtime"]))
    if "text" in want:
        assert (answer.text.lower() if want.get("foldCase") else answer.text) == want["text"]
    for pattern in want.get("matches", {}).get("python", []):
        assert re.search(pattern, answer.text, re.M), f"{pattern} is not in {answer.text}"


def check_headers(headers, want):
    for name, pattern in want.items():
        if pattern is None:
            assert name not in headers
        else:
            assert re.search(pattern, headers.get(name, "")), (name, headers)


def check_spans(spans, want):
    assert sorted(KINDS[span["kind"]] for span in spans) == sorted(wanted["kind"] for wanted in want)
    for wanted in want:
        [span] = [span for span in spans if KINDS[span["kind"]] == wanted["kind"]]
        assert STATUSES[span.get("status", {}).get("code", 0)] == wanted.get("status", "unset")
        for key in ("traceId", "parentSpanId"):
            assert span.get(key) == wanted.get(key, span.get(key))
        for name, value in wanted.get("attributes", {}).items():
            assert attributes(span).get(name) == value


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
    server.printed("began")
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
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0  # in less time than a server keeps a silent connection


def test_slow_requests_run_side_by_side(serve, variant):
    # The handler responds to no request before all have arrived.
    source = """
import threading

there = threading.Barrier(5)

def main(*arguments):
    there.wait()
    return "x"
"""
    server = serve(source, FUNC_RUNTIME=variant["runtime"], SERVER_PROCESSES="1").listening()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.request().text)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["x"] * 5

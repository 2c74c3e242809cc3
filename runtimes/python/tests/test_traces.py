"""Traces: the spans at the collector and the context in a handler's requests."""

import re
import sys

import pytest
from conftest import ROOT, attributes, wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
W3C = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b", "baggage": "user=7"}
B3 = {"X-B3-TraceId": TRACE, "X-B3-SpanId": PARENT, "X-B3-Sampled": "1"}
LEGACY = {"FUNC_RUNTIME": "python312", "FUNC_NAME": "pricing"}
CLIENT = """
import os

def call():
    {statement}

def main(event, context):
    call()
    return "ok"
"""
CLIENTS = {
    "requests": "import requests; requests.get(os.environ['TARGET'] + '/a?secret=1')",
    "urllib": "import urllib.request; urllib.request.urlopen(os.environ['TARGET'] + '/a?secret=1')",
    "urllib3": "import urllib3; urllib3.request('GET', os.environ['TARGET'] + '/a?secret=1')",
    "http.client": "import http.client; c = http.client.HTTPConnection(os.environ['TARGET'][7:]);"
    " c.request('GET', '/a?secret=1'); c.getresponse()",
}


def traced(serve, collector, source, target="", headers=W3C, runtime="python312", paths=("/",)):
    """Run a handler for requests and end the server, so that all spans have arrived."""
    environment = {"TRACE_COLLECTOR_ENDPOINT": collector.address + "/v1/traces", "TARGET": target}
    server = serve(source, **{**LEGACY, "FUNC_RUNTIME": runtime}, **environment).listening()
    answers = [server.request(path=path, headers=headers) for path in paths]
    server.process.terminate()
    assert server.exit_code() == 0, server.output
    return answers, collector.spans()


@pytest.mark.parametrize("headers", [W3C, B3], ids=["W3C", "B3"])
@pytest.mark.parametrize(
    ("runtime", "source"),
    [
        ("python312", "def main(event, context):\n    return 'x'\n"),
        ("python312", "import bottle\ndef main(event, context):\n    return 'x'\n"),
        ("python314", "def main():\n    return 'x'\n"),
        ("python314", "import flask\ndef main():\n    return 'x'\n"),
    ],
    ids=["legacy", "Bottle", "modern", "Flask"],
)
def test_a_call_has_a_span_below_its_callers(serve, recorder, headers, runtime, source):
    [answer], [span] = traced(serve, recorder(), source, headers=headers, runtime=runtime)
    assert answer.text == "x"
    assert (span["traceId"], span["parentSpanId"], span["kind"], span["name"]) == (TRACE, PARENT, 2, "GET")
    assert attributes(span)["http.response.status_code"] == 200
    assert attributes(span)["url.path"] == "/"
    assert 0 <= int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) < 60e9
    assert "status" not in span


def test_a_call_without_a_caller_begins_a_trace_and_reserved_paths_have_none(serve, recorder):
    source = "def main(event, context):\n    return 'x'\n"
    _, [span] = traced(serve, recorder(), source, headers={}, paths=("/healthz", "/metrics", "/favicon.ico", "/a"))
    assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
    assert "parentSpanId" not in span


def test_a_caller_that_is_not_sampled_is_not_recorded(serve, recorder):
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    _, spans = traced(serve, recorder(), "def main(event, context):\n    return 'x'\n", headers=headers)
    assert spans == []


def test_a_failure_is_an_error_of_the_span(serve, recorder):
    _, [span] = traced(serve, recorder(), "def main(event, context):\n    raise ValueError('x')\n")
    assert span["status"] == {"code": 2, "message": "x"}
    assert (attributes(span)["error"], attributes(span)["error.type"]) == ("x", "ValueError")


def test_response_that_is_not_json_is_an_error_of_the_span(serve, recorder):
    [answer], [span] = traced(serve, recorder(), "def main(event, context):\n    return {'a': {1}}\n")
    assert (answer.status, answer.text) == (500, "Internal server error")
    assert span["status"]["code"] == 2
    assert (attributes(span)["http.response.status_code"], attributes(span)["error.type"]) == (500, "TypeError")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("early", [True, False], ids=["imported at load", "imported in the call"])
def test_requests_of_a_handler_are_in_the_trace(serve, recorder, client, early):
    target = recorder()
    source = CLIENT.format(statement=CLIENTS[client])
    if early:
        source = f"import {client if client != 'urllib' else 'urllib.request'}\n" + source
    _, spans = traced(serve, recorder(), source, target.address)
    [call] = [span for span in spans if span["kind"] == 2]
    [request] = [span for span in spans if span["kind"] == 3]
    assert (request["traceId"], request["parentSpanId"]) == (TRACE, call["spanId"])
    assert attributes(request)["url.full"] == target.address + "/a"
    [(_, headers, _)] = target.requests
    headers = {name.lower(): value for name, value in headers.items()}
    assert headers["traceparent"] == f"00-{TRACE}-{request['spanId']}-01"
    assert (headers["x-b3-traceid"], headers["x-b3-spanid"], headers["x-b3-sampled"]) == (TRACE, request["spanId"], "1")
    assert (headers["tracestate"], headers["baggage"]) == ("a=b", "user=7")


@pytest.mark.parametrize("headers", [W3C, B3], ids=["W3C", "B3"])
def test_without_a_collector_the_callers_trace_is_passed_on(serve, recorder, headers):
    target = recorder()
    source = CLIENT.format(statement=CLIENTS["requests"])
    server = serve(source, **LEGACY, TARGET=target.address).listening()
    server.request(headers=headers)
    [(_, passed, _)] = target.requests
    assert passed["traceparent"] == W3C["traceparent"]
    assert passed["X-B3-TraceId"] == TRACE


BEGUN = re.compile("00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-01")
TWICE = """
import os, threading, urllib.request

def send():
    urllib.request.urlopen(os.environ["TARGET"])
{more}
def main(event, context):
{main}
    return "ok"
"""
SENDING = {
    "in the call": ("", "    send()\n    send()", 2, 1),
    "in threads of the call": (
        "",
        "    threads = [threading.Thread(target=send) for _ in range(2)]\n"
        "    for thread in threads:\n        thread.start()\n    for thread in threads:\n        thread.join()",
        2,
        2,
    ),
    "while the handler loads": ("send()\nsend()", "    pass", 2, 2),
}


@pytest.mark.parametrize("collected", [True, False], ids=["with a collector", "without a collector"])
@pytest.mark.parametrize("name", SENDING)
def test_requests_without_a_trace_begin_one(serve, recorder, name, collected):
    more, main, requests, traces = SENDING[name]
    target, collector = recorder(), recorder()
    endpoint = {"TRACE_COLLECTOR_ENDPOINT": collector.address + "/v1/traces"} if collected else {}
    server = serve(TWICE.format(more=more, main=main), **LEGACY, TARGET=target.address, **endpoint).listening()
    assert server.request(headers={"X-B3-Sampled": "1"}).text == "ok"
    server.process.terminate()
    assert server.exit_code() == 0
    sent = [BEGUN.fullmatch(headers["traceparent"]) for _, headers, _ in target.requests]
    assert len(sent) == requests
    assert len({trace[1] for trace in sent}) == traces
    assert [headers["X-B3-TraceId"] for _, headers, _ in target.requests] == [trace[1] for trace in sent]
    spans = {span["spanId"] for span in collector.spans() if span["kind"] == 3}
    assert spans == ({trace[2] for trace in sent} if collected else set())
    assert not [headers for _, headers, _ in collector.requests if "traceparent" in headers]


def test_an_emitted_event_is_in_the_trace(serve, recorder):
    target = recorder()
    source = "def main(event, context):\n    event.emitCloudEvent('t', 's', {})\n    return 'ok'\n"
    server = serve(source, **LEGACY, PUBLISHER_PROXY_ADDRESS=target.address).listening()
    assert server.request(headers=W3C).text == "ok"
    assert target.requests[0][1]["traceparent"] == W3C["traceparent"]


@pytest.mark.parametrize("collected", [True, False], ids=["with a collector", "without a collector"])
def test_a_handler_may_instrument_requests_itself_as_kymas_server_does(serve, recorder, collected):
    target, collector = recorder(), recorder()
    source = (
        "from opentelemetry.instrumentation.requests import RequestsInstrumentor\nRequestsInstrumentor().instrument()\n"
        + CLIENT.format(statement=CLIENTS["requests"])
    )
    endpoint = {"TRACE_COLLECTOR_ENDPOINT": collector.address + "/v1/traces"} if collected else {}
    server = serve(source, **LEGACY, TARGET=target.address, **endpoint).listening()
    assert server.request(headers=W3C).text == "ok"
    server.process.terminate()
    assert server.exit_code() == 0
    [(_, headers, _)] = target.requests
    assert headers["traceparent"].startswith(f"00-{TRACE}-")
    clients = [span for span in collector.spans() if span["kind"] == 3]
    assert [span["spanId"] for span in clients] == ([headers["traceparent"].split("-")[2]] if collected else [])


SPAN = """
{imports}
def main({arguments}):
    with {tracer}.start_as_current_span("work") as span:
        span.set_attribute("orders", 7)
        span.add_event("begun", {{"a": True}})
        import os, requests
        requests.get(os.environ["TARGET"])
    return "ok"
"""
TRACERS = {
    "event.tracer": ("python312", "event, context", "event.tracer", ""),
    "sdk.get_tracer()": ("python314", "", "sdk.get_tracer()", "import sdk"),
    "a tracer made at load": ("python314", "", "TRACER", "import sdk\nTRACER = sdk.get_tracer()"),
    "the library's own": ("python312", "event, context", "trace.get_tracer('x')", "from opentelemetry import trace"),
}


@pytest.mark.parametrize("name", TRACERS)
def test_handlers_spans_are_between_the_calls_span_and_its_servers_spans(serve, recorder, name):
    runtime, arguments, tracer, imports = TRACERS[name]
    target = recorder()
    source = SPAN.format(imports=imports, arguments=arguments, tracer=tracer)
    answers, spans = traced(serve, recorder(), source, target.address, runtime=runtime, paths=("/", "/"))
    assert [answer.text for answer in answers] == ["ok", "ok"]
    calls = [span for span in spans if span["kind"] == 2]
    works = [span for span in spans if span["name"] == "work"]
    clients = [span for span in spans if span["kind"] == 3]
    assert {span["traceId"] for span in spans} == {TRACE}
    # The collector gets batches, whose order on a busy machine is not that of the calls.
    assert sorted(span["parentSpanId"] for span in works) == sorted(span["spanId"] for span in calls)
    assert sorted(span["parentSpanId"] for span in clients) == sorted(span["spanId"] for span in works)
    assert attributes(works[0]) == {"orders": 7}
    assert works[0]["events"][0]["name"] == "begun"
    sent = {request[1]["traceparent"] for request in target.requests}
    assert sent == {f"00-{TRACE}-{span['spanId']}-01" for span in clients}


@pytest.mark.parametrize("name", TRACERS)
def test_a_tracer_is_usable_without_a_collector(serve, recorder, name):
    runtime, arguments, tracer, imports = TRACERS[name]
    target = recorder()
    source = SPAN.format(imports=imports, arguments=arguments, tracer=tracer)
    server = serve(source, **{**LEGACY, "FUNC_RUNTIME": runtime}, TARGET=target.address).listening()
    assert server.request(headers=W3C).text == "ok"
    assert target.requests[0][1]["traceparent"] == W3C["traceparent"]


def test_missing_collector_does_not_affect_calls(serve):
    source = "def main(event, context):\n    return 'x'\n"
    server = serve(source, **LEGACY, TRACE_COLLECTOR_ENDPOINT="http://127.0.0.1:1/v1/traces").listening()
    assert server.request().text == "x"
    server.printed("cannot reach the trace collector")
    assert server.request().text == "x"
    server.process.terminate()
    assert server.exit_code() == 0


def test_spans_arrive_while_the_server_runs(serve, recorder):
    collector = recorder()
    endpoint = collector.address + "/v1/traces"
    server = serve(
        "def main(event, context):\n    return 'x'\n", **LEGACY, TRACE_COLLECTOR_ENDPOINT=endpoint
    ).listening()
    for _ in range(3):
        server.request()
    wait_for(lambda: len(collector.spans()) == 3)


def test_tracing_imports_no_library_for_a_handler_that_uses_none(serve, recorder):
    source = "import sys\ndef main(event, context):\n    return str([m for m in sys.modules if 'telemetry' in m])\n"
    [answer], _ = traced(serve, recorder(), source)
    assert answer.text == "[]"


CONTEXTS = {
    "W3C": ({"HTTP_TRACEPARENT": W3C["traceparent"]}, (TRACE, PARENT, True)),
    "W3C, a later version with more in it": ({"HTTP_TRACEPARENT": f"01-{TRACE}-{PARENT}-01-x"}, (TRACE, PARENT, True)),
    "W3C, too much in it": ({"HTTP_TRACEPARENT": W3C["traceparent"] + "-x"}, None),
    "W3C, no trace": ({"HTTP_TRACEPARENT": f"00-{'0' * 32}-{PARENT}-01"}, None),
    "W3C, upper case": ({"HTTP_TRACEPARENT": f"00-{TRACE.upper()}-{PARENT}-01"}, None),
    "W3C, flags that are none": ({"HTTP_TRACEPARENT": f"00-{TRACE}-{PARENT}-zz"}, None),
    "B3 with a short id": (
        {"HTTP_X_B3_TRACEID": PARENT, "HTTP_X_B3_SPANID": PARENT},
        ("0" * 16 + PARENT, PARENT, True),
    ),
    "B3, not sampled": (
        {"HTTP_X_B3_TRACEID": TRACE, "HTTP_X_B3_SPANID": PARENT, "HTTP_X_B3_SAMPLED": "0"},
        (TRACE, PARENT, False),
    ),
    "B3 without a span": ({"HTTP_X_B3_TRACEID": TRACE}, None),
    "B3 when W3C is malformed": (
        {"HTTP_TRACEPARENT": "x", "HTTP_X_B3_TRACEID": TRACE, "HTTP_X_B3_SPANID": PARENT},
        (TRACE, PARENT, True),
    ),
    "nothing": ({}, None),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts_are_read(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from function_server.tracing import context

    environ, want = CONTEXTS[name]
    found = context.read(environ)
    assert (found and (found.trace_id, found.span_id, found.sampled)) == want

"""The numbers of /metrics, the request log, and several workers behind one address."""

import http.client
import re
import threading
import time

import pytest

LEGACY = {"FUNC_RUNTIME": "python312"}


def metrics(server):
    """Read /metrics as a dict from the name with its labels to the value."""
    answer = server.request(path="/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = [line for line in answer.text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_calls_failures_and_durations_are_counted_by_method(serve):
    source = """
import time

def main(event, context):
    request = event["extensions"]["request"]
    if request.path == "/fail":
        raise ValueError("no")
    if request.path == "/slow":
        time.sleep(0.3)
    return "x"
"""
    server = serve(source, **LEGACY).listening()
    assert not [name for name in metrics(server) if name.startswith("function_")]
    for method, path in [("GET", "/"), ("GET", "/fail"), ("POST", "/slow"), ("GET", "/healthz")]:
        server.request(method, path)
    found = metrics(server)
    assert found['function_calls_total{method="GET"}'] == 2
    assert found['function_failures_total{method="GET"}'] == 1
    assert found['function_calls_total{method="POST"}'] == 1
    assert found['function_failures_total{method="POST"}'] == 0
    assert found['function_duration_seconds_count{method="POST"}'] == 1
    assert found['function_duration_seconds_bucket{le="0.25",method="POST"}'] == 0
    assert found['function_duration_seconds_bucket{le="+Inf",method="POST"}'] == 1
    assert 0.3 <= found['function_duration_seconds_sum{method="POST"}'] < 60
    for name in ("calls", "failures", "duration_seconds"):
        assert time.time() - found[f'function_{name}_created{{method="GET"}}'] < 600


def test_the_process_and_python_are_described(serve):
    found = metrics(serve("def main(event, context):\n    pass\n", **LEGACY).listening())
    assert found["process_resident_memory_bytes"] > 1e6
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_open_fds"] > 3
    assert time.time() - found["process_start_time_seconds"] < 600
    assert 'python_gc_collections_total{generation="0"}' in found
    assert [name for name in found if name.startswith("python_info{")]


NO_FAILURES = {
    "a response that is returned": "return bottle.HTTPResponse('no', 404)",
    "a response that is raised": "raise bottle.HTTPResponse('no', 403)",
}


@pytest.mark.parametrize("name", NO_FAILURES)
def test_http_response_is_not_a_failure(serve, name):
    server = serve(f"import bottle\ndef main(event, context):\n    {NO_FAILURES[name]}\n", **LEGACY).listening()
    assert server.request().status in (403, 404)
    found = metrics(server)
    assert found['function_calls_total{method="GET"}'] == 1
    assert found['function_failures_total{method="GET"}'] == 0


ENDLESS = """
import time

def main(event, context):
    try:
        while True:
            time.sleep(0.1)
    finally:
        print("ended", flush=True)
"""
FAILURES = {
    "an exception": ("python312", "def main(event, context):\n    raise ValueError\n", {}),
    "an exception, with Bottle": ("python312", "import bottle\ndef main(event, context):\n    raise ValueError\n", {}),
    "a value that is no answer": ("python312", "def main(event, context):\n    return 7\n", {}),
    "an exception, new API": ("python314", "def main():\n    raise ValueError\n", {}),
    "an exception, with Flask": ("python314", "import flask\ndef main():\n    raise ValueError\n", {}),
    "nothing, new API": ("python314", "def main():\n    pass\n", {}),
    "a dict that is no JSON": ("python312", "def main(event, context):\n    return {'a': {1}}\n", {}),
    "a dict that is no JSON, with Bottle": (
        "python312",
        "import bottle\ndef main(event, context):\n    return {'a': {1}}\n",
        {},
    ),
    "a text that is no UTF-8": ("python312", "def main(event, context):\n    return '\\ud800'\n", {}),
    "a text that is no UTF-8, with Bottle": (
        "python312",
        "import bottle\ndef main(event, context):\n    return '\\ud800'\n",
        {},
    ),
    "a dict that holds itself, new API": ("python314", "def main():\n    d = {}\n    d['d'] = d\n    return d\n", {}),
    "a dict that is no JSON, new API": ("python314", "def main():\n    return {'a': {1}}\n", {}),
    "a text that is no UTF-8, new API": ("python314", "def main():\n    return '\\ud800'\n", {}),
    "a stream without a beginning": ("python314", "def main():\n    return (1 / 0 for _ in 'a')\n", {}),
    "a timeout": ("python312", ENDLESS, {"FUNC_TIMEOUT": "1"}),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_counted_once(serve, name):
    runtime, source, environment = FAILURES[name]
    server = serve(source, FUNC_RUNTIME=runtime, **environment).listening()
    assert server.request().status in (408, 500)
    if source == ENDLESS:
        server.printed("ended")  # the call that exceeded the timeout must not count again
    found = metrics(server)
    assert found['function_calls_total{method="GET"}'] == 1
    assert found['function_failures_total{method="GET"}'] == 1


BROKEN_STREAMS = {
    "python312": "def main(event, context):\n    yield 'a'\n    raise ValueError\n",
    "python314": "def main():\n    return stream()\ndef stream():\n    yield 'a'\n    raise ValueError\n",
}


@pytest.mark.parametrize("runtime", BROKEN_STREAMS)
def test_a_stream_that_breaks_is_a_failure(serve, runtime):
    server = serve(BROKEN_STREAMS[runtime], FUNC_RUNTIME=runtime).listening()
    with pytest.raises(http.client.IncompleteRead):
        server.request()
    found = metrics(server)
    assert found['function_calls_total{method="GET"}'] == 1
    assert found['function_failures_total{method="GET"}'] == 1


def test_metrics_include_the_handlers_own(serve):
    source = """
import prometheus_client

orders = prometheus_client.Counter("orders", "Orders.")

def main(event, context):
    orders.inc()
    return "x"
"""
    server = serve(source, **LEGACY).listening()
    server.request()
    assert metrics(server)["orders_total"] == 1


def test_every_worker_reports_the_numbers_of_all(serve):
    source = "import os, time\ndef main(event, context):\n    time.sleep(0.2)\n    return str(os.getpid())\n"
    server = serve(source, **LEGACY, SERVER_PROCESSES="2", CHERRYPY_NUMTHREADS="10").listening()
    workers = set()
    total = 0
    deadline = time.monotonic() + 120
    while len(workers) < 2:
        assert time.monotonic() < deadline
        threads = [threading.Thread(target=lambda: workers.add(server.request().text)) for _ in range(10)]
        total += len(threads)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for _ in range(5):
        assert metrics(server)['function_calls_total{method="GET"}'] == total


@pytest.mark.parametrize(
    ("runtime", "variable", "source"),
    [
        ("python312", "KYMA_INTERNAL_LOGGER_ENABLED", "def main(event, context):\n    return 'hello'\n"),
        ("python314", "SERVER_INTERNAL_LOGGER", "import flask\ndef main():\n    return 'hello'\n"),
    ],
)
def test_the_request_log_is_apaches_combined_format(serve, runtime, variable, source):
    server = serve(source, FUNC_RUNTIME=runtime, **{variable: "1"}).listening()
    server.request("POST", "/a?b=c", {"User-Agent": 'curl "8"', "Referer": "http://x/"})
    pattern = r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "POST /a\?b=c HTTP/1\.1" 200 5 '
    server.printed(pattern + re.escape(r'"http://x/" "curl \"8\""'))


def test_request_log_is_off_by_default(serve):
    server = serve("def main(event, context):\n    return 'hello'\n", **LEGACY, SERVER_INTERNAL_LOGGER="1").listening()
    server.request()
    server.process.terminate()
    server.exit_code()
    assert "GET /" not in server.output


def test_unknown_method_is_refused(serve):
    answer = serve("def main(event, context):\n    return 'x'\n", **LEGACY).listening().request("BREW")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    ("runtime", "source"),
    [
        ("python312", "def main(event, context):\n    return 'x'\n"),
        ("python312", "import bottle\ndef main(event, context):\n    return bottle.request.method\n"),
        ("python314", "def main():\n    return 'x'\n"),
        ("python314", "import flask\ndef main():\n    return flask.request.method\n"),
    ],
    ids=["legacy", "Bottle", "modern", "Flask"],
)
def test_every_method_reaches_the_handler(serve, method, runtime, source):
    answer = serve(source, FUNC_RUNTIME=runtime).listening().request(method)
    assert answer.status == 200
    assert answer.text == ("" if method == "HEAD" else method if "." in source else "x")
    assert "access-control-allow-origin" not in answer.headers

"""Features of the Python runtimes only: return values of each framework, settings, files, broken connections."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import threading

import pytest
from conftest import IMAGE, PYTHONS, ROOT, encode, wait_for

LEGACY = "python312"
MODERN = "python314"


def ask(serve, source, runtime=LEGACY, request=None, **environment):
    """Start a server for the source and send it one request."""
    server = serve(source, FUNC_RUNTIME=runtime, **environment).listening()
    return server.request(**(request or {}))


LEGACY_ANSWERS = {
    "bytes": ("return b'raw'", 200, "raw"),
    "an empty dict is JSON": ("return {}", 200, "{}"),
    "an empty list is empty": ("return []", 200, ""),
    "False is empty": ("return False", 200, ""),
    "a list of strings is joined": ("return ['a', 'b']", 200, "ab"),
    "a number is refused": ("return 7", 500, "Internal server error"),
    "a tuple carries the status": ("return 'a', 201", 201, "a"),
    "a tuple that makes no sense is refused": ("return 'a', 'b'", 500, "Internal server error"),
    "a generator is streamed": ("return (part for part in ('a', 'b'))", 200, "ab"),
}


@pytest.mark.parametrize("name", LEGACY_ANSWERS)
@pytest.mark.parametrize("header", ["", "import bottle\n"], ids=["without Bottle", "with Bottle"])
def test_return_values_mean_the_same_with_and_without_bottle(serve, name, header):
    statement, status, text = LEGACY_ANSWERS[name]
    answer = ask(serve, f"{header}def main(event, context):\n    {statement}\n")
    assert (answer.status, answer.text) == (status, text)


@pytest.mark.parametrize("statement", ["return {'b': 1, 'a': 'ü'}", "return 'ü'", "return b'x'", "return None"])
def test_headers_are_the_same_with_and_without_bottle(serve, statement):
    source = f"def main(event, context):\n    {statement}\n"
    plain = ask(serve, source)
    bottle = ask(serve, "import bottle\n" + source)
    del plain.headers["date"], bottle.headers["date"]
    assert vars(plain) == vars(bottle)


@pytest.mark.parametrize(
    "statement", ["return {'b': 1, 'a': 'ü'}", "return 'ü'", "return b'x'", "return [1, 2]", "return ''"]
)
def test_headers_are_the_same_with_and_without_flask(serve, statement):
    source = f"def main():\n    {statement}\n"
    plain = ask(serve, source, MODERN)
    flask = ask(serve, "import flask\n" + source, MODERN)
    del plain.headers["date"], flask.headers["date"]
    assert vars(plain) == vars(flask)


MODERN_ANSWERS = {
    "a tuple carries the status": ("return 'a', 201", 201, "a"),
    "None is refused": ("return None", 500, "Internal Server Error"),
    "a date is JSON for Flask": (
        "import datetime; return {'d': datetime.date(2026, 1, 2)}",
        200,
        '{"d":"Fri, 02 Jan 2026 00:00:00 GMT"}\n',
    ),
    "abort answers with its status": ("import flask; flask.abort(418)", 418, None),
}


@pytest.mark.parametrize("name", MODERN_ANSWERS)
def test_flask_return_values(serve, name):
    statement, status, text = MODERN_ANSWERS[name]
    answer = ask(serve, f"def main():\n    {statement}\n", MODERN)
    assert answer.status == status
    assert text is None or answer.text == text


@pytest.mark.parametrize(
    ("runtime", "framework", "arguments"), [(LEGACY, "bottle", "event, context"), (MODERN, "flask", "")]
)
def test_a_handler_that_uses_no_framework_loads_none(serve, runtime, framework, arguments):
    source = f"import sys\ndef main({arguments}):\n    return str('{framework}'.upper().lower() in sys.modules)\n"
    # The source must not contain the name, or the server would count it as a use.
    source = source.replace(framework, "{}" + framework[1:]).replace("'{}", f"'{framework[0]}' '")
    assert ask(serve, source, runtime).text == "False"


def test_the_request_keeps_its_body_after_the_event_was_read(serve):
    source = "def main(event, context):\n    return event['extensions']['request'].json['a'] + str(event['data'])\n"
    request = {"method": "POST", "headers": {"Content-Type": "application/json"}, "body": '{"a": "b"}'}
    assert ask(serve, source, request=request).text == "b{'a': 'b'}"


FIRST = {
    "request.get_data()": "flask.request.get_data()",
    "request.get_json()": "flask.request.get_json(force=True)",
    "a part of the stream": "flask.request.stream.read(3)",
}
EVENTS = {
    "binary": {
        "headers": {"ce-id": "1", "ce-type": "t", "ce-source": "s", "Content-Type": "application/json"},
        "body": '{"a": 1}',
    },
    "structured": {
        "headers": {"Content-Type": "application/cloudevents+json"},
        "body": '{"specversion": "1.0", "id": "1", "type": "t", "source": "s", "data": {"a": 1}}',
    },
}


@pytest.mark.parametrize("mode", EVENTS)
@pytest.mark.parametrize("first", FIRST)
def test_an_event_is_whole_after_flask_has_read_the_body(serve, first, mode):
    source = f"""
import flask, sdk

def main():
    {FIRST[first]}
    event = sdk.get_cloud_event()
    return [event["id"], event.data, len(flask.request.stream.read()) if "stream" in {first!r} else 0]
"""
    answer = ask(serve, source, MODERN, {"method": "POST", **EVENTS[mode]})
    rest = len(EVENTS[mode]["body"]) - 3 if "stream" in first else 0
    assert (answer.status, json.loads(answer.text)) == (200, ["1", {"a": 1}, rest])


@pytest.mark.parametrize("mode", EVENTS)
def test_flask_has_the_whole_body_after_the_event_was_read(serve, mode):
    source = "import flask, sdk\ndef main():\n    sdk.get_cloud_event()\n    return flask.request.get_data()\n"
    assert ask(serve, source, MODERN, {"method": "POST", **EVENTS[mode]}).text == EVENTS[mode]["body"]


LARGE = {
    "JSON": (".json['a']", "application/json", '{"a": "%s"}'),
    "a form": (".forms.a", "application/x-www-form-urlencoded", "a=%s"),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("header", ["", "import bottle\n"], ids=["without Bottle", "with Bottle"])
def test_a_body_above_bottles_own_limit_is_read(serve, name, header):
    value, content_type, body = LARGE[name]
    source = f"{header}def main(event, context):\n    return str(len(event['extensions']['request']{value}))\n"
    request = {"method": "POST", "headers": {"Content-Type": content_type}, "body": body % ("x" * 200_000)}
    assert ask(serve, source, request=request).text == "200000"


def test_events_keys_can_be_set(serve):
    source = "def main(event, context):\n    event['mine'] = 'x'\n    return event['mine'] + str('data' in event)\n"
    assert ask(serve, source).text == "xFalse"


def test_other_bodies_are_no_data(serve):
    source = "def main(event, context):\n    return str('data' in event)\n"
    request = {"method": "POST", "headers": {"Content-Type": "text/plain"}, "body": "x"}
    assert ask(serve, source, request=request).text == "False"


def test_bottles_response_object_is_the_calls_own(serve):
    source = """
from bottle import response

def main(event, context):
    response.status = 202
    response.set_header("X-A", "b")
    return "x"
"""
    answer = ask(serve, source)
    assert (answer.status, answer.headers["x-a"], answer.text) == (202, "b", "x")


def test_a_bottle_response_can_be_raised(serve):
    source = "import bottle\ndef main(event, context):\n    raise bottle.HTTPResponse('no', 403)\n"
    answer = ask(serve, source)
    assert (answer.status, answer.text) == (403, "no")


def test_the_traceback_is_logged_with_the_lines_of_the_source(serve):
    server = serve("def main(event, context):\n    raise ValueError('the reason')\n").listening()
    server.request()
    server.printed(r"raise ValueError\('the reason'\)\s+ValueError: the reason")


def test_the_file_and_the_function_can_be_named(serve, tmp_path):
    (tmp_path / "other.py").write_text("TEXT = 'from a file'\n")
    (tmp_path / "orders.py").write_text("import other\ndef price(event, context):\n    return other.TEXT\n")
    assert ask(serve, None, FUNCTION_PATH=str(tmp_path), MOD_NAME="orders", FUNC_HANDLER="price").text == "from a file"


def test_the_new_api_has_names_of_its_own(serve, tmp_path):
    (tmp_path / "orders.py").write_text("def price():\n    return 'from a file'\n")
    names = {"HANDLER_PATH": str(tmp_path), "HANDLER_MOD_NAME": "orders", "HANDLER_FUNC_NAME": "price"}
    assert ask(serve, None, MODERN, **names).text == "from a file"


def test_a_missing_file_is_a_load_failure(serve):
    server = serve(None, FUNCTION_PATH="/no/such/directory")
    assert server.exit_code() == 1
    assert "No module named 'handler'" in server.termination_log.read_text()


def test_a_source_that_is_not_gzip_is_a_load_failure(serve):
    server = serve(None, FUNC_HANDLER_SOURCE="bm90IGd6aXA=")
    assert server.exit_code() == 1
    assert "FUNC_HANDLER_SOURCE is not base64 of gzip" in server.termination_log.read_text()


def test_the_reason_names_file_and_line_of_the_user_and_no_path_of_the_server(serve, app):
    server = serve("a = 1\nimport no_such_package\n")
    assert server.exit_code() == 1
    message = server.termination_log.read_text()
    assert re.search(r'handler\.py", line 2', message)
    assert str(app) not in message


def test_an_expired_call_frees_its_place(serve):
    source = """
import time

def main(event, context):
    time.sleep(float(event["extensions"]["request"].query.s))
    return "ok"
"""
    server = serve(source, CHERRYPY_NUMTHREADS="1", FUNC_TIMEOUT="0.5").listening()
    first = server.request(path="/?s=600")
    assert (first.status, first.text) == (408, "Timeout while processing the function")
    wait_for(lambda: server.request(path="/?s=0").text == "ok")  # a busy machine may exceed the timeout here, too


def test_an_event_is_sent_again_when_the_publisher_has_closed_the_idle_connection(serve, publisher):
    publisher.closes = True
    source = "def main(event, context):\n    event.emitCloudEvent('t', 's', 'text')\n    return 'ok'\n"
    server = serve(source, PUBLISHER_PROXY_ADDRESS=publisher.address).listening()
    for _ in range(3):
        assert server.request().text == "ok"
    assert len(publisher.events) == 3
    assert publisher.connections == 3


def test_a_connection_to_the_publisher_is_kept(serve, publisher):
    source = "def main(event, context):\n    event.emitCloudEvent('t', 's', b'bytes')\n    return 'ok'\n"
    server = serve(source, PUBLISHER_PROXY_ADDRESS=publisher.address).listening()
    for _ in range(3):
        assert server.request().text == "ok"
    assert publisher.connections == 1
    assert publisher.events[0][2]["data_base64"] == "Ynl0ZXM="


@pytest.mark.parametrize(
    ("address", "reason"),
    [("", "PUBLISHER_PROXY_ADDRESS is not set"), ("http://127.0.0.1:1", "cannot reach the publisher")],
)
def test_missing_publisher_is_reported(serve, address, reason):
    source = """
def main(event, context):
    try:
        event.emitCloudEvent("t", "s", {})
    except Exception as error:
        return str(error)
"""
    assert reason in ask(serve, source, PUBLISHER_PROXY_ADDRESS=address).text


def test_keep_alive_requests_share_a_connection(serve):
    server = serve("def main(event, context):\n    return 'x'\n").listening()
    connection = server.connect()
    for _ in range(3):
        assert server.request(connection=connection).text == "x"
        assert connection.sock is not None


def test_many_requests_at_once_are_all_answered(serve):
    server = serve("def main(event, context):\n    return event['extensions']['request'].path\n").listening()
    answers = {}

    def call(number):
        answers[number] = server.request(path=f"/{number}").text

    threads = [threading.Thread(target=call, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"/{number}" for number in range(100)}


@pytest.mark.parametrize("chunked", [False, True], ids=["its length announced", "in chunks"])
def test_a_body_over_the_limit_may_be_sent_to_its_end(serve, chunked):
    server = serve("def main(event, context):\n    return ''", FUNC_RUNTIME=MODERN, FUNC_BODY_MB_LIMIT="1").listening()
    size, piece = 32 << 20, b"x" * (1 << 20)  # more than buffers hold
    connection = server.connect()
    connection.putrequest("POST", "/")
    connection.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(size))))
    connection.endheaders()
    for _ in range(size // len(piece)):
        connection.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
    response = connection.getresponse()
    assert response.status == 413
    assert b"Too Large" in response.read()
    server.process.send_signal(signal.SIGTERM)  # the connection must not delay the end
    assert server.exit_code() == 0


def test_a_signal_while_the_handler_loads_ends_the_process(serve):
    server = serve("print('loading', flush=True)\nimport time\nwhile True:\n    time.sleep(0.05)\n")
    server.printed("loading")
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0


@pytest.mark.skipif(not PYTHONS, reason="there is only the machine's interpreter; make test-runtimes brings each version")
@pytest.mark.parametrize("runtime", [LEGACY, MODERN])
def test_server_runs_with_the_version_in_the_runtimes_name(serve, runtime):
    arguments = "event, context" if runtime == LEGACY else ""
    source = f"import sys\ndef main({arguments}):\n    return 'python%d%d' % sys.version_info[:2]\n"
    assert ask(serve, source, runtime).text == runtime


@pytest.mark.parametrize("runtime", [LEGACY, MODERN])
def test_layer_has_bytecode_for_every_module(layers, runtime):
    missing = [
        file
        for file in layers(runtime).rglob("*.py")
        if file.name != "main.py" and not list((file.parent / "__pycache__").glob(f"{file.stem}.cpython-*.pyc"))
    ]
    assert not missing


def test_dockerfile_and_image_json_start_the_same_server():
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert json.loads(re.search(r"^ENTRYPOINT (.*)$", dockerfile, re.M)[1]) == IMAGE["entrypoint"]
    assert re.findall(r"^WORKDIR (.*)$", dockerfile, re.M)[-1] == IMAGE["workdir"]
    assert re.search(r"^USER (.*)$", dockerfile, re.M)[1] == IMAGE["user"]
    assert re.search(r"^EXPOSE (.*)$", dockerfile, re.M)[1] == str(IMAGE["port"])
    for name, value in IMAGE["env"].items():
        assert f"ENV {name}={value}\n" in dockerfile


def test_source_is_base64_of_gzip():
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from function_server.inline import decode
print(decode(sys.argv[2]).decode())
"""
    output = subprocess.run(
        [sys.executable, "-c", code, str(pathlib.Path(ROOT)), encode("x $$ y")], capture_output=True, check=True
    )
    assert output.stdout.decode().strip() == "x $$ y"

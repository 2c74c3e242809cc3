"""Starts the real server as a child process, from the content of its image layer, and talks to it over real HTTP."""

import base64
import contextlib
import gzip
import http.client
import http.server
import json
import os
import pathlib
import re
import selectors
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTRACT = ROOT.parent / "contract"
IMAGE = json.loads((ROOT / "image.json").read_text())
CASES = json.loads((CONTRACT / "cases.json").read_text())
for more in sorted((CONTRACT / "cases").glob("*.json")):
    CASES["requests"] += json.loads(more.read_text())["requests"]
START_TIMEOUT, END_TIMEOUT = 120, 60  # enough for a busy machine

# The folder with an interpreter of each version.
PYTHONS = os.environ.get("RUNTIME_PYTHONS")


def interpreter(runtime):
    """Return the interpreter of a runtime's tests: of the version in its name if a folder of interpreters is set."""
    if PYTHONS:
        return f"{PYTHONS}/python3.{runtime.removeprefix('python3')}"
    # The interpreter itself and not the virtual environment's, so that the layer's packages are all there is.
    return os.path.realpath(sys.executable)


def encode(source):
    """Encode a handler's source as the controller does."""
    return base64.b64encode(gzip.compress(source.encode())).decode()


def read_handler(handler, file):
    """Read the source of a handler of the contract."""
    return (CONTRACT / "handlers" / handler / file).read_text()


@pytest.fixture(scope="session")
def layers(tmp_path_factory):
    """Return a function that returns the directory of the server in a runtime's layer."""
    made = {}

    def layer(runtime):
        python = interpreter(runtime)
        if python not in made:
            directory = tmp_path_factory.mktemp("layer")
            subprocess.run([ROOT / "layer.sh", directory, python], check=True)
            made[python] = directory / "usr/src/app"
        return made[python]

    return layer


@pytest.fixture
def app(layers):
    """The directory of the server in the layer of the default runtime."""
    return layers("python312")


class Server:
    """One running server; listening() sets its port."""

    def __init__(self, layers, directory, environment):
        runtime = environment.get("FUNC_RUNTIME", "python312")
        self.directory = directory
        self.termination_log = directory / "termination-log"
        self.termination_log.touch()
        self.output = ""
        self.process = subprocess.Popen(
            [interpreter(runtime), *IMAGE["entrypoint"][1:-1], layers(runtime) / "main.py"],
            cwd=directory,
            env={
                "PATH": os.environ["PATH"],
                "TERMINATION_LOG_PATH": str(self.termination_log),
                "FUNC_PORT": "0",
                "FUNC_RUNTIME": runtime,
                "SERVER_PROCESSES": "1",
                "FUNCTION_PATH": str(directory),
                **IMAGE["env"],
                **environment,
            },
            close_fds=False,  # the server inherits descriptors that a test made inheritable
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def printed(self, pattern):
        """Wait until the server's output has a match of the pattern."""
        deadline = time.monotonic() + START_TIMEOUT
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not (match := re.search(pattern, self.output)):
                assert selector.select(deadline - time.monotonic()), f"no {pattern!r} in time: {self.output}"
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, f"server ended: {self.output}"
                self.output += chunk.decode()
        return match

    def listening(self):
        """Wait until the server listens."""
        self.port = int(self.printed(r"listening on .*:(\d+)")[1])
        return self

    def connect(self):
        """Open a new connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_TIMEOUT)

    def request(self, method="GET", path="/", headers=None, body=None, bodyLength=None, connection=None):
        """Send one request and read the response."""
        connection = connection or self.connect()
        if bodyLength is not None:
            body = ((body or "x") * bodyLength)[:bodyLength]
        if connection.sock is None:
            connection.connect()
        connection.request(method, path, body.encode() if body is not None else None, headers or {})
        return Answer(connection.getresponse())

    def hold(self, method, path, headers, body):
        """Send a request without its body's last byte; return a function that sends it and reads the response."""
        content = body.encode()
        connection = self.connect()
        connection.putrequest(method, path)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            connection.putheader(name, value)
        connection.endheaders(content[:-1])

        def finish():
            connection.send(content[-1:])
            return Answer(connection.getresponse())

        return finish

    def exit_code(self):
        """Wait for the end of the process."""
        output, _ = self.process.communicate(timeout=END_TIMEOUT)
        self.output += output.decode()
        return self.process.returncode


def wait_for(condition, seconds=60):
    """Wait until condition() returns a true value, and return the value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)
    return found


class Answer:
    """Status, headers with lower-case names, and text of a response."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.text = response.read().decode()


@pytest.fixture
def serve(layers, tmp_path):
    """Start servers for handlers' sources; the servers end with the test."""
    servers = []

    def start(source=None, **environment):
        if source is not None:
            environment["FUNC_HANDLER_SOURCE"] = encode(source)
        server = Server(layers, tmp_path, environment)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.process.kill()
        server.process.wait()
        server.process.stdout.close()


class Publisher:
    """A local publisher that answers every event with the same status and keeps the requests."""

    def __init__(self):
        publisher = self
        self.status = 204
        self.closes = False  # closes each connection after its first response, without announcing it
        self.events = []
        self.headers = []
        self.connections = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                publisher.connections += 1

            def do_POST(self):  # noqa: N802 (http.server's name)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                publisher.events.append((self.path, self.headers["Content-Type"], json.loads(body)))
                publisher.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(publisher.status)
                if publisher.status != 204:
                    self.send_header("Content-Length", "0")
                self.end_headers()
                self.close_connection = publisher.closes

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/publish"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()


@pytest.fixture
def publisher():
    """Return a running publisher."""
    made = Publisher()
    yield made
    with contextlib.suppress(OSError):
        made.server.shutdown()
    made.server.server_close()


class Recorder:
    """An HTTP server that keeps the requests: a collector, or a server that a handler calls."""

    def __init__(self):
        recorder = self
        self.requests = []
        self.status = 200
        self.location = None  # where a redirect leads

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                recorder.requests.append((self.path, dict(self.headers.items()), body))
                self.send_response(recorder.status)
                self.send_header("Content-Length", "0")
                if recorder.location:
                    self.send_header("Location", recorder.location)
                self.end_headers()

            do_GET = do_POST = answer  # noqa: N815 (http.server's names)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def spans(self):
        """Return the received spans, and check their resource and scope."""
        found = []
        for path, headers, body in self.requests:
            assert (path, headers["Content-Type"]) == ("/v1/traces", "application/json")
            for resource in json.loads(body)["resourceSpans"]:
                assert attributes(resource["resource"])["service.name"] == "pricing"
                for scope in resource["scopeSpans"]:
                    assert scope["scope"]["name"]
                    found += scope["spans"]
        return found


def attributes(span):
    """Return the attributes of a span as a dict."""
    return {entry["key"]: _value(**entry["value"]) for entry in span["attributes"]}


def _value(intValue=None, **other):  # noqa: N803 (the name of OTLP)
    return int(intValue) if intValue is not None else next(iter(other.values()))


@pytest.fixture
def recorder():
    """Make recorders; they end with the test."""
    made = []

    def make():
        made.append(Recorder())
        return made[-1]

    yield make
    for each in made:
        each.server.shutdown()
        each.server.server_close()

"""The token of a Function: only the publisher gets it."""

import os

import pytest

LEGACY, MODERN = "python312", "python314"
EMIT = {
    LEGACY: "def main(event, context):\n    event.emitCloudEvent('t', 's', {})\n    return 'ok'\n",
    MODERN: "import sdk\ndef main():\n    sdk.emit_cloud_event('t', 's', {})\n    return 'ok'\n",
}


class Mount:
    """A directory of tokens as the kubelet makes it: the file is a link, and a new token changes its target."""

    def __init__(self, directory):
        self._directory = directory
        self._times = 0
        self.file = directory / "token"
        self.file.symlink_to("..data/token")

    def write(self, token):
        self._times += 1
        version = f"..{self._times}"
        (self._directory / version).mkdir()
        (self._directory / version / "token").write_text(token)
        (self._directory / "..new").symlink_to(version)
        os.replace(self._directory / "..new", self._directory / "..data")

    def remove(self):
        (self._directory / "..data").unlink()


@pytest.fixture
def mount(tmp_path):
    """Return an empty directory of tokens."""
    directory = tmp_path / "secrets"
    directory.mkdir()
    return Mount(directory)


def shown(requests):
    """Return each request's Authorization header."""
    return [headers.get("Authorization") for _, headers, _ in requests]


@pytest.mark.parametrize("runtime", EMIT)
def test_token_is_sent_and_replaced(serve, recorder, mount, runtime):
    publisher = recorder()
    names = {"PUBLISHER_PROXY_ADDRESS": publisher.address, "PUBLISHER_TOKEN_FILE": str(mount.file)}
    server = serve(EMIT[runtime], FUNC_RUNTIME=runtime, **names).listening()
    assert server.request().text == "ok"  # before the kubelet replaces the token
    mount.write("header.first.signature\n")
    assert server.request().text == "ok"
    assert server.request().text == "ok"
    mount.write("header.other.signature\n")
    assert server.request().text == "ok"
    mount.remove()
    assert server.request().text == "ok"
    first, other = "Bearer header.first.signature", "Bearer header.other.signature"
    assert shown(publisher.requests) == [None, first, first, other, other]


@pytest.mark.parametrize("file", [None, "/no/such/token", "/"], ids=["no variable", "no file", "a directory"])
def test_without_a_token_no_header_is_sent(serve, recorder, file):
    publisher = recorder()
    names = {"PUBLISHER_TOKEN_FILE": file} if file else {}
    server = serve(EMIT[LEGACY], PUBLISHER_PROXY_ADDRESS=publisher.address, **names).listening()
    assert server.request().text == "ok"
    assert shown(publisher.requests) == [None]


@pytest.mark.parametrize("content", [" \n", "two\r\nlines", "x" * 8193], ids=["nothing", "two lines", "too much"])
def test_content_that_a_header_cannot_carry_is_ignored(serve, recorder, mount, content):
    publisher = recorder()
    mount.write(content)
    names = {"PUBLISHER_PROXY_ADDRESS": publisher.address, "PUBLISHER_TOKEN_FILE": str(mount.file)}
    assert serve(EMIT[LEGACY], **names).listening().request().text == "ok"
    assert shown(publisher.requests) == [None]


ELSEWHERE = """
import os, traceback, requests

def main(event, context):
    os.environ["PUBLISHER_PROXY_ADDRESS"] = os.environ["ELSEWHERE"]
    requests.post(os.environ["ELSEWHERE"], json={})
    try:
        event.emitCloudEvent("t", "s", {})
    except Exception:
        return traceback.format_exc()
"""


def test_token_goes_only_to_the_publisher(serve, recorder, mount):
    elsewhere, publisher = recorder(), recorder()
    publisher.status, publisher.location = 307, elsewhere.address
    mount.write("header.first.signature")
    names = {"PUBLISHER_PROXY_ADDRESS": publisher.address, "PUBLISHER_TOKEN_FILE": str(mount.file)}
    server = serve(ELSEWHERE, ELSEWHERE=elsewhere.address, **names).listening()
    event = {"ce-id": "1", "ce-type": "t", "ce-source": elsewhere.address, "ce-specversion": "1.0"}
    text = server.request(headers=event).text
    assert "publisher answered 307" in text
    assert "signature" not in text
    assert shown(publisher.requests) == ["Bearer header.first.signature"]
    assert shown(elsewhere.requests) == [None]


def test_token_is_in_no_error_log_or_span(serve, recorder, mount):
    publisher, collector = recorder(), recorder()
    publisher.status = 401
    mount.write("header.first.signature")
    server = serve(
        EMIT[LEGACY],
        FUNC_NAME="pricing",
        KYMA_INTERNAL_LOGGER_ENABLED="true",
        PUBLISHER_PROXY_ADDRESS=publisher.address,
        PUBLISHER_TOKEN_FILE=str(mount.file),
        TRACE_COLLECTOR_ENDPOINT=collector.address + "/v1/traces",
    ).listening()
    answer = server.request()
    assert answer.status == 500
    server.printed("publisher answered 401")
    server.process.terminate()
    assert server.exit_code() == 0
    assert shown(publisher.requests) == ["Bearer header.first.signature"]
    assert len(collector.spans()) == 2
    for output in (answer.text, server.output, str(collector.requests)):
        assert "signature" not in output

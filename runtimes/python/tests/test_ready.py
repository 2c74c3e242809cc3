"""The server reports its port to the process that starts it on a shared machine."""

import os
import socket

import pytest

SOURCES = {
    "python312": "def main(event, context):\n    return 'here'\n",
    "python314": "def main():\n    return 'here'\n",
}


def start_and_read_port(serve, source, **environment):
    """Start a server that has to report its port; return it and its text up to the end of the descriptor."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        server = serve(source, FUNC_READY_FD=str(write), **environment)
    finally:
        os.close(write)
    with open(read) as pipe:
        return server, pipe.read()


@pytest.mark.parametrize("processes", ["1", "3"])
@pytest.mark.parametrize("runtime", SOURCES)
def test_writes_its_port_once_it_serves_this_machine_only(serve, runtime, processes):
    server, text = start_and_read_port(
        serve,
        SOURCES[runtime],
        FUNC_RUNTIME=runtime,
        SERVER_PROCESSES=processes,
        SERVER_HOST="0.0.0.0",  # noqa: S104 (it has to be ignored)
        SERVER_PORT="9",
    )
    assert text.endswith("\n")
    server.port = int(text)
    assert server.request().text == "here"
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", server.port)):
        pass


def test_writes_nothing_when_the_handler_does_not_load(serve):
    server, text = start_and_read_port(serve, "raise ValueError('no')\n")
    assert text == ""
    assert server.exit_code() == 1
    assert "no" in server.termination_log.read_text()


def test_does_not_run_when_its_port_cannot_be_written(serve):
    server = serve(SOURCES["python312"], FUNC_READY_FD="999")
    assert server.exit_code() == 1
    assert "FUNC_READY_FD=999" in server.termination_log.read_text()


def test_descriptor_is_ignored_without_func_port_0(serve):
    serve(SOURCES["python312"], FUNC_READY_FD="3", FUNC_PORT="00").printed(r"listening on 0\.0\.0\.0:")

"""Settings of the server, read once from the environment that the controller gives a Function's container."""

import sys

from . import cores

MIB = 1024 * 1024
MOST_BODY, LEAST_BODY = 100 * MIB, MIB
MEMORY_SHARE = 16  # parsed JSON takes many times its length
FIRST_MODERN = 314  # the first Python runtime whose handler is main() without arguments


class Config:
    """The settings of the environment, with the contract's defaults."""

    def __init__(self, env):
        self.function_name = env.get("FUNC_NAME", "")
        self.namespace = env.get("SERVICE_NAMESPACE", "")
        self.runtime = env.get("FUNC_RUNTIME") or f"python{sys.version_info.major}{sys.version_info.minor}"
        self.modern = _digits(self.runtime) >= FIRST_MODERN
        self.timeout = _positive(env.get("FUNC_TIMEOUT"), 180.0)
        self.memory_limit = env.get("FUNC_MEMORY_LIMIT")
        self.publisher_address = env.get("PUBLISHER_PROXY_ADDRESS", "")
        self.publisher_token_file = env.get("PUBLISHER_TOKEN_FILE", "")
        self.trace_endpoint = env.get("TRACE_COLLECTOR_ENDPOINT", "")
        self.handler_source = env.get("FUNC_HANDLER_SOURCE", "")
        self.termination_log = env.get("TERMINATION_LOG_PATH") or "/dev/termination-log"

        # The new runtimes have other names for the following. FUNC_PORT
        # is reserved, so a Function cannot set it by accident.
        new = env.get if self.modern else _nothing
        self.ready = _descriptor(env)
        self.ready_text = None
        self.host = "127.0.0.1" if self.ready is not None else new("SERVER_HOST") or "0.0.0.0"
        self.port = 0 if self.ready is not None else _port(new("SERVER_PORT") or env.get("FUNC_PORT"))
        self.threads = int(_positive(env.get("SERVER_NUMTHREADS" if self.modern else "CHERRYPY_NUMTHREADS"), 50))
        self.processes = int(_positive(env.get("SERVER_PROCESSES"), 0)) or cores.processes()
        self.request_log = _on(env.get("SERVER_INTERNAL_LOGGER" if self.modern else "KYMA_INTERNAL_LOGGER_ENABLED"))
        self.directory = new("HANDLER_PATH") or env.get("FUNCTION_PATH") or "/kubeless"
        self.module = new("HANDLER_MOD_NAME") or env.get("MOD_NAME") or "handler"
        self.function = new("HANDLER_FUNC_NAME") or env.get("FUNC_HANDLER") or "main"
        most = _body_limit(env)
        if self.modern:
            self.body_limit = int(_positive(env.get("FUNC_BODY_MB_LIMIT"), most / MIB) * MIB)
        else:
            self.body_limit = int(_positive(env.get("FUNC_MEMFILE_MAX"), most))


def _body_limit(env):
    """Return the limit in bytes of a container that names none."""
    cgroup = env.get("FUNC_CGROUP") if env.get("FUNC_PORT") == "0" else None
    memory = cores.memory_limit(cgroup or cores.CGROUP)
    return min(max(memory // MEMORY_SHARE, LEAST_BODY), MOST_BODY) if memory else MOST_BODY


def _nothing(_name):
    return None


def _digits(text):
    return int("".join(filter(str.isdigit, text)) or 0)


def _positive(text, default):
    try:
        value = float(text)
    except (TypeError, ValueError):
        return default
    return value if value > 0 else default


def _on(text):
    return bool(text) and text.lower() not in ("0", "false")


def _descriptor(env):
    """Return the descriptor that the port is written to, or None without one."""
    text = env.get("FUNC_READY_FD")
    return int(text) if env.get("FUNC_PORT") == "0" and text and text.isdecimal() else None


def _port(text):
    return int(text) if text and text.isdecimal() and int(text) < 65536 else 8080

"""The API of python312: main(event, context), with Bottle's request and response objects.

A handler that does not touch Bottle is served without it. One whose source
names it, or that returns something only Bottle can turn into an answer, gets a
Bottle application around it.
"""

import json
import sys

from . import cloudevent, current, plain, request

KEYS = ("type", "source", "id", "time")
OPTIONAL_KEYS = ("eventtypeversion", "specversion")
ANY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
RESULT = "function.result"


class Event:
    """The handler's `event` argument: keys, and methods to emit events."""

    def __init__(self, environ):
        self._environ = environ
        self.ceHeaders = _keys(environ)  # noqa: N815 (the contract's name)

    @property
    def tracer(self):
        """A tracer of OpenTelemetry's library."""
        return current.runtime().tracing.tracer()

    @property
    def req(self):
        """The request as Bottle's object."""
        return self["extensions"]["request"]

    def __getitem__(self, key):
        if key == "extensions" and key not in self.ceHeaders:
            self.ceHeaders[key] = {"request": _bottle().Request(self._environ)}
        return self.ceHeaders[key]

    def __setitem__(self, key, value):
        self.ceHeaders[key] = value

    def __contains__(self, key):
        return key == "extensions" or key in self.ceHeaders

    def get(self, key, default=None):
        """Return the value of a key, or the default."""
        return self[key] if key in self else default  # noqa: SIM401 (this is the get)

    def emitCloudEvent(self, type, source, data, attrs=None):  # noqa: A002, N802 (the contract's names)
        """Publish a CloudEvent; raises when the publisher does not accept it."""
        current.runtime().publisher.emit(type, source, data, attrs)

    def publishCloudEvent(self, data):  # noqa: N802 (the contract's name)
        """Publish an event given as a dict of its attributes and data."""
        attributes = {key: value for key, value in data.items() if key not in ("type", "source", "data", "specversion")}
        current.runtime().publisher.emit(data.get("type"), data.get("source"), data.get("data"), attributes)

    def buildResponseCloudEvent(self, id, type, data):  # noqa: A002, N802 (the contract's names)
        """Return a dict for publishCloudEvent that answers this event."""
        return {
            "type": type,
            "source": self.get("ce-source", ""),
            "eventtypeversion": self.get("ce-eventtypeversion", ""),
            "specversion": self.get("ce-specversion", "1.0"),
            "id": id,
            "data": data,
            "datacontenttype": "application/json",
        }


def _bottle():
    """Import Bottle, and raise its limit of 100 KiB for bodies to the Function's limit."""
    import bottle

    bottle.BaseRequest.MEMFILE_MAX = current.runtime().config.body_limit
    return bottle


def _keys(environ):
    received = cloudevent.parse(environ)
    if received is not None:
        keys = {"ce-" + key: received[key] for key in KEYS}
        keys.update({"ce-" + key: received[key] for key in OPTIONAL_KEYS if key in received})
        keys["data"] = received["data"]
        return keys
    if request.media_type(environ) == "application/json":
        return {"data": request.json_body(environ)}
    return {}


class Application:
    """Calls the handler for each request."""

    def __init__(self, handler, config):
        self._main = handler.function
        self._context = {
            "function-name": config.function_name,
            "namespace": config.namespace,
            "timeout": config.timeout,
            "runtime": config.runtime,
            "memory-limit": config.memory_limit,
            "body-size-limit": config.body_limit,
        }
        self._bottle = self._wrap() if handler.uses("bottle") else None

    def __call__(self, environ, start_response):
        if self._bottle is not None:
            return self._bottle(environ, start_response)
        try:
            value = self._call(environ)
            answer = _plain_answer(value)
        except request.BadRequest as error:
            return plain.text(environ, start_response, 400, str(error))
        except current.Expired:
            raise
        except BaseException as error:  # also SystemExit: the server continues
            plain.note_failure(error)
            return plain.text(environ, start_response, 500, "Internal server error")
        if answer is not None:
            return plain.respond(environ, start_response, 200, *answer)
        self._bottle = self._wrap()
        environ[RESULT] = value
        return self._bottle(environ, start_response)

    def _call(self, environ):
        return self._main(Event(environ), dict(self._context))

    def _wrap(self):
        """Make the Bottle application: any path, any method, Bottle's rules for return values."""
        bottle = _bottle()
        app = bottle.Bottle()
        page = app.default_error_handler

        def describe(error):
            """Keep Bottle's page for an abort of the handler, without details of an exception."""
            unusable = str(error.body).startswith("Unsupported response type")
            if not (error.exception or unusable):
                return page(error)
            current.call().fail(error.exception or error.body)
            print(error.traceback or error.body, file=sys.stderr, flush=True)
            bottle.response.content_type = plain.TEXT
            return "Internal server error"

        app.default_error_handler = describe

        @app.route("<:re:.*>", ANY_METHOD)
        def call():
            environ = bottle.request.environ
            try:
                value = environ[RESULT] if RESULT in environ else self._call(environ)
                # Body, status, headers: promised by Kyma's documents, unknown to Bottle.
                return bottle.HTTPResponse(*value) if isinstance(value, tuple) else value
            except bottle.HTTPResponse:
                raise
            except request.BadRequest as error:
                return bottle.HTTPResponse(str(error), 400, {"Content-Type": plain.TEXT})
            except current.Expired:
                raise
            except BaseException as error:
                plain.note_failure(error)
                return bottle.HTTPResponse("Internal server error", 500, {"Content-Type": plain.TEXT})

        return app


def _plain_answer(value):
    """Return content type and body of a value that needs no framework, or None."""
    if isinstance(value, dict):
        return "application/json", json.dumps(value).encode()
    if isinstance(value, str):
        return plain.HTML, value.encode()
    if isinstance(value, bytes):
        return plain.HTML, value
    if value is None or value is False:
        return plain.HTML, b""
    return None

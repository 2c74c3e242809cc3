"""The API of python314: main() without arguments, with Flask's request and response objects.

A handler that does not use Flask is served without it; see legacy.py.
"""

import json

from . import current, plain, request


class Application:
    """Calls the handler for each request."""

    def __init__(self, handler):
        self._main = handler.function
        self._flask = self._wrap(self._main) if handler.uses("flask") else None

    def __call__(self, environ, start_response):
        if self._flask is not None:
            return self._flask(environ, start_response)
        try:
            value = self._main()
            answer = _plain_answer(value)
        except request.BadRequest as error:
            return plain.text(environ, start_response, 400, str(error))
        except current.Expired:
            raise
        except BaseException as error:  # also SystemExit: the server continues
            plain.note_failure(error)
            return plain.text(environ, start_response, 500, "Internal Server Error")
        if answer is not None:
            return plain.respond(environ, start_response, 200, *answer)
        return self._wrap(lambda: value)(environ, start_response)

    @staticmethod
    def _wrap(main):
        """Make the Flask application: any path, any method, Flask's rules for return values."""
        import flask
        from werkzeug.exceptions import HTTPException

        class Provider(flask.json.provider.DefaultJSONProvider):
            def loads(self, text, **options):
                try:
                    return super().loads(text, **options)
                except RecursionError:  # Flask answers 400 to a ValueError
                    raise ValueError("it is nested too deeply") from None

        class FunctionApp(flask.Flask):
            json_provider_class = Provider

            def create_url_adapter(self, request):
                """Skip routing: one handler serves every path."""

            def dispatch_request(self):
                try:
                    return self.make_response(main())
                except HTTPException:
                    raise
                except request.BadRequest as error:
                    return str(error), 400, {"Content-Type": plain.TEXT}
                except current.Expired:
                    raise
                except BaseException as error:
                    plain.note_failure(error)
                    return "Internal Server Error", 500, {"Content-Type": plain.TEXT}

        return FunctionApp("function", static_folder=None, root_path="/")


def _plain_answer(value):
    """Return content type and body of a value that needs no framework, or None."""
    if isinstance(value, str):
        return "text/html; charset=utf-8", value.encode()
    if isinstance(value, bytes):
        return "text/html; charset=utf-8", value
    if isinstance(value, (dict, list)):
        try:
            return "application/json", (json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n").encode()
        except TypeError:  # Flask supports more types than the standard library
            return None
    return None

"""The WSGI application: the reserved paths, and the handler for everything else."""

from . import current, plain


def create(handler, config, publisher):
    """Make the application for the API that the runtime has."""
    if config.modern:
        from . import modern

        function = modern.Application(handler)
    else:
        from . import legacy

        function = legacy.Application(handler, config, publisher)

    def application(environ, start_response):
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            path = environ["PATH_INFO"]
            if path == "/healthz":
                return plain.text(environ, start_response, 200, "OK")
            if path == "/favicon.ico":
                return plain.respond(environ, start_response, 204, None, b"")
        current.begin(environ)
        return function(environ, start_response)

    return application

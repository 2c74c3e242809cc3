"""The server that runs a Python Function over HTTP.

It loads the handler first and listens only then, so that a server which
accepts can serve. Importing a web framework is most of a Python cold start, so
Bottle (main(event, context)) and Flask (main()) are imported when a handler
uses them, and not before.
"""

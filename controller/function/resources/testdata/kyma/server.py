# The least that Kyma's contract wants of an image for Python, on a free port.
import http.server
import os
import sys

sys.path.insert(0, os.environ["FUNCTION_PATH"])
main = __import__(os.environ["MOD_NAME"]).main


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"OK" if self.path == "/healthz" else main(None, None).encode())

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("listening", server.server_port, flush=True)
server.serve_forever()

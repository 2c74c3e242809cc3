"""The handler of the webhooks, called as the runtime calls it."""

import hashlib
import hmac
import io
import os
import pathlib
import sys
import types
import unittest
from unittest import mock

MANIFEST = pathlib.Path(__file__).resolve().parent.parent / "webhook.yaml"
SECRET = "s3cret"


class HTTPResponse:
    """What a handler needs of bottle's."""

    def __init__(self, body="", status=200, headers=None):
        self.body, self.status, self.headers = body, status, headers or {}


class Request:
    """What a handler needs of bottle's."""

    def __init__(self, method, body, headers):
        self.method, self.body, self._headers = method, io.BytesIO(body), headers

    def get_header(self, name, default=None):
        return self._headers.get(name, default)


class Event(dict):
    """What a handler needs of the runtime's event."""

    def __init__(self, request):
        super().__init__(extensions={"request": request})
        self.emitted = []

    def emitCloudEvent(self, *event):
        self.emitted.append(event)


def load():
    """Takes the handler out of the manifest: the block below "source: |"."""
    lines = MANIFEST.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == "source: |") + 1
    indent = len(lines[start]) - len(lines[start].lstrip())
    module = types.ModuleType("handler")
    exec(compile("\n".join(line[indent:] for line in lines[start:]), MANIFEST.name, "exec"), module.__dict__)
    return module.main


def signed(body, secret=SECRET):
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class WebhookTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bottle = types.ModuleType("bottle")
        bottle.HTTPResponse = HTTPResponse
        sys.modules["bottle"] = bottle
        cls.addClassCleanup(sys.modules.pop, "bottle")
        cls.main = staticmethod(load())

    def call(self, body=b'{"ref": "main"}', method="POST", **headers):
        sent = {"X-Hub-Signature-256": signed(body), "X-GitHub-Event": "push", "X-GitHub-Delivery": "d-1"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        event = Event(Request(method, body, sent))
        with mock.patch.dict(os.environ, WEBHOOK_SECRET=SECRET):
            return event, self.main(event, {})

    def test_a_signed_webhook_becomes_an_event_with_the_id_of_its_delivery(self):
        event, answer = self.call()
        self.assertEqual(answer.status, 202)
        self.assertEqual(event.emitted, [("repository.push", "github", {"ref": "main"}, {"id": "d-1"})])

    def test_a_webhook_without_a_valid_signature_is_refused(self):
        for signature in ("", "sha256=", signed(b"other"), signed(b'{"ref": "main"}', "another"), "sha256=\N{SNOWMAN}"):
            with self.subTest(signature=signature):
                event, answer = self.call(X_Hub_Signature_256=signature)
                self.assertEqual((answer.status, event.emitted), (401, []))

    def test_a_webhook_that_cannot_become_an_event_is_refused(self):
        for refused in ({"body": b"{"}, {"X_GitHub_Event": ""}, {"X_GitHub_Delivery": ""}):
            with self.subTest(refused=refused):
                event, answer = self.call(**refused)
                self.assertEqual((answer.status, event.emitted), (400, []))

    def test_other_methods_are_not_allowed(self):
        event, answer = self.call(method="GET")
        self.assertEqual((answer.status, answer.headers, event.emitted), (405, {"Allow": "POST"}, []))

    def test_an_event_that_is_not_stored_fails_the_webhook(self):
        with mock.patch.object(Event, "emitCloudEvent", side_effect=OSError("no space")), self.assertRaises(OSError):
            self.call()

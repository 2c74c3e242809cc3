"""The Python handler of the order chain, called as the runtime calls it."""

import contextlib
import io
import json
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


class HTTPResponse:
    """What a handler needs of bottle's."""

    def __init__(self, body="", status=200):
        self.body, self.status = body, status


class Event(dict):
    """What a handler needs of the runtime's event."""

    def __init__(self, data):
        super().__init__({"ce-type": "order.priced", "ce-id": "order-1001.priced", "data": data})
        self.emitted = []

    def emitCloudEvent(self, *event):
        self.emitted.append(event)


def load(manifest):
    """Takes the handler out of a manifest: the block below "source: |"."""
    lines = (ROOT / manifest).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == "source: |") + 1
    indent = len(lines[start]) - len(lines[start].lstrip())
    source = []
    for line in lines[start:]:
        if line.strip() and not line.startswith(" " * indent):
            break
        source.append(line[indent:])
    module = types.ModuleType("handler")
    exec(compile("\n".join(source), manifest, "exec"), module.__dict__)
    return module.main


class InvoicingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bottle = types.ModuleType("bottle")
        bottle.HTTPResponse = HTTPResponse
        sys.modules["bottle"] = bottle
        cls.addClassCleanup(sys.modules.pop, "bottle")
        cls.main = staticmethod(load("invoicing.yaml"))

    def call(self, data):
        event, out = Event(data), io.StringIO()
        with contextlib.redirect_stdout(out):
            answer = self.main(event, {})
        (line,) = out.getvalue().splitlines()
        return event, answer, json.loads(line)

    def test_an_order_is_invoiced_with_tax(self):
        event, answer, line = self.call({"id": "order-1001", "net": 1120, "lines": []})
        invoice = {"id": "order-1001", "invoice": "INV-order-1001", "net": 1120, "tax": 213, "gross": 1333}
        self.assertEqual(event.emitted, [("order.invoiced", "invoicing", invoice, {"id": "order-1001.invoiced"})])
        self.assertEqual(answer, "")
        self.assertEqual((line["event"], line["order"]), ("order.priced", "order-1001"))
        self.assertRegex(line["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$")

    def test_a_second_delivery_gives_the_same_invoice(self):
        first, second = (self.call({"id": "order-7", "net": 99})[0] for _ in range(2))
        self.assertEqual(first.emitted, second.emitted)

    def test_what_cannot_be_invoiced_is_refused_and_emits_nothing(self):
        for data in ({}, {"id": ""}, {"id": "o"}, {"id": "o", "net": "12"}, {"id": "o", "net": True}, {"id": "o", "net": -1}, "text", None):
            with self.subTest(data=data):
                event, answer, _ = self.call(data)
                self.assertEqual(answer.status, 400)
                self.assertEqual(event.emitted, [])


if __name__ == "__main__":
    unittest.main()

"""The handler in Python, called as the runtime calls it."""

import os
import pathlib
import sys
import unittest

from rouse_testing import call, event

os.environ["LINKS_KEY"] = "a-key"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "notifier"))

import handler  # noqa: E402 - its folder is on the path only now

TICKET = {"id": "t-1", "title": "The checkout is down", "customer": "ada@example.com", "team": "commerce", "priority": "urgent"}


def triaged(**changes):
    return event(type="ticket.triaged", source="support", data={**TICKET, **changes})


class NotifierTest(unittest.TestCase):
    def test_a_customer_is_told_with_a_link_of_the_ticket(self):
        result = call(handler.main, triaged())
        self.assertEqual(result.status, 200)
        self.assertEqual([e["id"] for e in result.emitted], ["t-1.announced"])
        link = result.emitted[0]["data"]["link"]
        self.assertRegex(link, r"^/tickets/t-1\?key=[0-9a-f]{32}$")
        self.assertNotEqual(link[-32:], call(handler.main, triaged(id="t-2")).emitted[0]["data"]["link"][-32:])
        self.assertNotIn(link[-32:], "".join(result.logged), "who reads logs needs no link")

    def test_a_customer_without_an_address_is_refused(self):
        result = call(handler.main, triaged(customer="bob"))
        self.assertEqual((result.status, result.body, result.emitted), (400, "the customer has no address", []))


if __name__ == "__main__":
    unittest.main()

"""Tells the customer who answers the ticket, with a link to its page that nobody can guess."""

import json

from links import link_to
from message import write


def main(event, context):
    ticket = event["data"]
    if "@" not in ticket["customer"]:
        return "the customer has no address", 400  # no retry can mend it: a dead letter
    link = link_to(ticket["id"])
    text = write(ticket, link)
    # A real one hands the text to a mail server, with the event's id, by which that knows a repeat.
    print(json.dumps({"ticket": ticket["id"], "to": ticket["customer"], "characters": len(text)}))
    event.emitCloudEvent("ticket.announced", "support", {"id": ticket["id"], "link": link}, {"id": f"{ticket['id']}.announced"})
    return None

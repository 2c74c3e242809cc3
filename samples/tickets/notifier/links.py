"""Links to the pages of tickets, signed by the key of the Secret links, which the status page has too."""

import hashlib
import hmac
import os


def link_to(ticket):
    key = os.environ["LINKS_KEY"].encode()
    return f"/tickets/{ticket}?key={hmac.new(key, ticket.encode(), hashlib.sha256).hexdigest()[:32]}"

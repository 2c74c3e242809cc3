"""The text that a customer gets."""

SOON = {"urgent": "at once", "normal": "within two working days"}


def write(ticket, link):
    return (
        f"Your ticket \"{ticket['title']}\" is with the team {ticket['team']}.\n"
        f"Somebody will answer {SOON[ticket['priority']]}. What happens is at {link}.\n"
    )

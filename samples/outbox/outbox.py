"""Publishes the rows of a table as events, in their order, and deletes what is stored. KEDA wakes it when rows wait.

When it ends before a deletion is committed, the next one publishes the row again. The event has the same id then, and is stored once.
"""

import http.client
import logging
import os
import pathlib
import random
import signal
import ssl
import string
import threading
import time
import urllib.parse

SOURCE = os.environ.get("SOURCE", "shop")
INGRESS = os.environ.get("INGRESS", "http://rouse-eventbridge.rouse-system.svc.cluster.local/publish")
TOKEN_FILE = os.environ.get("PUBLISHER_TOKEN_FILE")  # where nobody publishes without a token
DATABASE = pathlib.Path(os.environ.get("DATABASE", "/database"))  # the Secret
TABLE = "outbox"

# A batch is one transaction. It ends long before Rouse forgets the ids of its first events (stream.duplicateWindow: two minutes).
BATCH_ROWS = 20
BATCH_SECONDS = 10
REQUEST_SECONDS = 10
DATABASE_SECONDS = 30
IDLE_SECONDS = 1
MAX_PAUSE_SECONDS = 30

# Answers to an event that stays wrong. All others pass, or are not the row's fault: a token, a right, an address, a full stream.
REFUSALS = {400, 413, 431}

# What is connected to needs no certificate, any certificate, or one of a known authority for its name.
TLS = {"disable": lambda: False, "require": lambda: True, "verify-full": ssl.create_default_context}

ROWS = f"""SELECT id, type, subject, to_char(created AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), data::text
    FROM {TABLE} WHERE refused IS NULL ORDER BY id LIMIT {BATCH_ROWS}"""

log = logging.getLogger(TABLE)


class Refused(Exception):
    """The ingress will never take this event."""


class Unavailable(Exception):
    """Whether the event is stored is not known, or it is not: it has to be published again."""

    def __init__(self, reason, after=0):
        super().__init__(reason)
        self.after = after


class Ingress:
    def __init__(self, url):
        where = urllib.parse.urlsplit(url)
        self.path = where.path or "/"
        self.connection = http.client.HTTPConnection(where.hostname, where.port, timeout=REQUEST_SECONDS)

    def publish(self, key, kind, subject, created, data):
        """Returns when the event is stored."""
        attributes = {"specversion": "1.0", "id": f"{TABLE}-{key}", "source": SOURCE, "type": kind, "subject": subject, "time": created}
        headers = {f"ce-{name}": quoted(value) for name, value in attributes.items() if value is not None}
        headers["content-type"] = "application/json"
        try:
            status, retry_after, text = self.post(data.encode(), headers)
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        if status in REFUSALS:
            raise Refused(f"{status} {text}")
        if status != 204:
            raise Unavailable(f"{status} {text}", int(retry_after) if retry_after.isdecimal() else 0)

    def post(self, body, headers):
        if TOKEN_FILE:  # it changes
            headers["authorization"] = "Bearer " + pathlib.Path(TOKEN_FILE).read_text().strip()
        try:
            self.connection.request("POST", self.path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # a body that is too large is answered before all of it is read
        answer = self.connection.getresponse()
        return answer.status, answer.headers.get("retry-after", ""), answer.read().decode(errors="replace")[:300].strip()


def quoted(text):
    """A value in a header, as CloudEvents has it."""
    return urllib.parse.quote(text, safe=string.punctuation.replace('"', "").replace("%", ""))


def publish_batch(database, url, stopping):
    """Publishes the rows that wait longest. Returns how many are done, and what keeps the next one from being published."""
    cursor = database.cursor()
    # The lease: an advisory lock, because rows that are skipped (FOR UPDATE SKIP LOCKED) would let a second replica, as in a rollout,
    # publish later rows at the same time. Nobody who inserts waits for it. It is the transaction's, so that it needs no session of a
    # pooler, and it ends when this process is killed, or by the server's timeout when its node is gone. Who has lost it fails at the next
    # deletion, one event later.
    cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{3 * REQUEST_SECONDS}s'")
    cursor.execute(f"SELECT pg_try_advisory_xact_lock('{TABLE}'::regclass::oid::bigint)")
    if not cursor.fetchone()[0]:
        database.rollback()
        return 0, None
    # No position is remembered: a row that is committed late is published then, though its id is lower than others before.
    cursor.execute(ROWS)
    done, problem = 0, None
    ingress, end = Ingress(url), time.monotonic() + BATCH_SECONDS
    for key, *row in cursor.fetchall():
        if stopping.is_set() or time.monotonic() > end:
            break
        try:
            ingress.publish(key, *row)
        except Refused as refusal:
            # One wrong row must not hold up all. It stays in the table with the reason.
            log.error("row %s is set aside until its column refused is NULL again: %s", key, refusal)
            cursor.execute(f"UPDATE {TABLE} SET refused = %s WHERE id = %s", (str(refusal), key))
        except Unavailable as unavailable:
            log.warning("row %s waits, and all behind it: %s", key, unavailable)
            problem = unavailable
            break
        else:
            cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
        done += 1
    ingress.connection.close()
    database.commit()
    if done:
        log.info("%d rows are done", done)
    return done, problem


def run(connect, errors, url, stopping):
    """Publishes until stopping is set. The errors are those of the database."""
    database, failures = None, 0
    while not stopping.is_set():
        done, after = 0, 0
        try:
            database = database or connect()
            done, problem = publish_batch(database, url, stopping)
            after = problem.after if problem else 0
        except errors as error:
            problem = error
            log.warning("database: %s: %s", type(error).__name__, error)
            close(database, errors)
            database = None
        if problem:
            failures = 1 if done else failures + 1
            stopping.wait(max(after, pause(failures)))
        else:
            failures = 0
            stopping.wait(0 if done else IDLE_SECONDS)
    close(database, errors)


def pause(failures):
    """Seconds until the next try: more for each failure, and not the same for all clients."""
    return min(MAX_PAUSE_SECONDS, 2 ** min(failures, 10) / 2) * random.uniform(0.5, 1)


def close(database, errors):
    try:
        if database:
            database.close()
    except errors:
        pass  # it is gone already


def connect():
    """A new connection, with what the Secret says now."""
    import pg8000.dbapi  # not above: the tests have no database
    secret = {key: (DATABASE / key).read_text().strip() for key in ("host", "port", "dbName", "userName", "password", "sslmode")}
    return pg8000.dbapi.connect(
        host=secret["host"], port=int(secret["port"]), database=secret["dbName"], user=secret["userName"], password=secret["password"],
        ssl_context=TLS[secret["sslmode"]](), timeout=DATABASE_SECONDS, application_name=TABLE)


def main():
    import pg8000.dbapi
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopping = threading.Event()
    # The row under way is finished, and its batch committed. A thread sets the event: its lock may be held where the signal arrives.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stopping.set).start())
    run(connect, (pg8000.dbapi.Error, OSError), INGRESS, stopping)


if __name__ == "__main__":
    main()

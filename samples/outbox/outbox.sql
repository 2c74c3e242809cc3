-- The application inserts a row in the transaction that changes its own tables, so that there is an event exactly when there is a
-- change. The id becomes a part of the event's: never restart its sequence.
CREATE TABLE outbox (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  type    text NOT NULL,
  subject text,
  data    jsonb NOT NULL CHECK (octet_length(data::text) <= 60000), -- an event may have 64 KiB
  created timestamptz NOT NULL DEFAULT now(),
  refused text -- why the ingress will never take the event; NULL while the row waits
);

-- KEDA and the program log in as this role.
GRANT SELECT, DELETE, UPDATE (refused) ON outbox TO outbox;

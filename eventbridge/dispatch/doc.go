// Package dispatch delivers the messages of one Subscription to its sink.
//
// A Dispatcher waits for the sink's gate, receives what its Source may hold, sends each event, and settles its message
// according to the sink's answer: Ack, Retry or Reject. It depends neither on Kubernetes nor on the message broker: the
// interfaces of message.go hide both. Delivery is at-least-once, with backpressure: no more is received than may be held.
//
//	gate open? --> Receive --> free slot? --> Send --> classify --> Ack | Retry | dead letter, Reject
//	     ^            |                        |
//	     |            +-- gate closes: back    +-- every AckWait/2: Extend
//	     +------------------------------------------------------------------- next round
//
// Guarantees:
//   - Nothing is fetched while the gate is closed, and a waiting fetch is cancelled when it closes, so that
//     a backlog stays pending and costs no delivery attempt. Messages that are too old (TTL) or over the Quota are an
//     exception: they are fetched, the oldest first, and become dead letters. The first that is neither is returned.
//   - A message that is too old or over the quota waits neither for the sink nor for the rate, and a message over the quota
//     not long for the filter: a PromptFilter that cannot answer soon does not leave it out. Calls of a Subscription
//     over its quota are interrupted when they keep further messages from coming, also while its dispatcher drains and
//     another one receives.
//   - At most MaxInFlight messages are delivered at a time, and no more than Limit allows; a retry that is not due
//     holds no worker. The Source bounds how many messages are held.
//   - A call without an answer after a quarter of its timeout is detached: its slot goes to the
//     next message while the call continues, so that hanging events do not block the others for their whole timeout (no
//     head-of-line blocking). At most
//     MaxInFlight calls are detached at a time. While a struggling sink has fewer slots, each is held for a shorter time.
//     A detached call settles its message as any other; its timeout counts against the sink only if no other call was
//     answered meanwhile.
//   - The dispatcher holds an ordered message that fails, or does not reach the sink, and sends no later one of its
//     key. When receiving ends, messages that are not running are returned, and those that fail then are returned
//     too: never to the retries, which come back behind what was published meanwhile.
//   - A message is rejected only after its dead letter is stored. When that fails it is retried.
//   - A slow sink costs no second delivery: the message is extended for as long as the call runs.
//   - When the context ends no more messages are fetched, busy workers get DrainTimeout to finish from when BoundDrain is
//     closed, and unanswered messages are then returned for a prompt redelivery. Run returns when all are settled.
//   - An event beyond MaxHops in its chain is not sent: it becomes a dead letter. So does one whose reply would
//     exceed the limit of its chain.
//   - A panic while one message is handled is a failed attempt of that message and of nothing else.
package dispatch

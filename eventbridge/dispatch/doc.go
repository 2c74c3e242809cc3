// Package dispatch delivers the messages of one Subscription to its sink.
//
// A Dispatcher waits for the sink's gate, receives what its Source may hold, sends each event, and settles its message by
// what the sink answered: Ack, Retry or Reject. It knows neither Kubernetes nor the message broker: both stand behind the
// interfaces of message.go.
//
//	gate open? --> Receive --> free slot? --> Send --> judge --> Ack | Retry | dead letter, Reject
//	     ^            |                        |
//	     |            +-- gate closes: back    +-- every AckWait/2: Extend
//	     +------------------------------------------------------------------- next round
//
// Guarantees:
//   - Nothing is fetched while the gate is closed, and a fetch that waits is called off when it closes, so
//     a backlog stays pending and costs no delivery attempt. What is too old (TTL) or one of too many (Quota) is an
//     exception: it is fetched, the oldest first, and becomes a dead letter. The first that is neither goes back.
//   - A message that is too old or over the quota waits neither for the sink nor for the rate, and a message over the quota
//     not long for the filter: a PromptFilter that cannot answer soon does not leave it out. Calls of a Subscription
//     over its quota are interrupted when they keep further messages from coming, also while its dispatcher drains and
//     another one receives.
//   - At most MaxInFlight messages are delivered at a time, and no more than Limit says; a retry that waits for its time holds
//     no worker. How many messages are held is the Source's part.
//   - A call without an answer after a quarter of its timeout is detached: its slot goes to the
//     next message while it goes on, so that events that hang do not hold up the others for their whole timeout. At most
//     MaxInFlight calls are detached at a time. While a struggling sink has fewer slots, each is held for a shorter time.
//     A detached call settles its message as any other; that it timed out counts against the sink only if no other call had
//     an answer meanwhile.
//   - The dispatcher holds an ordered message that fails, or does not reach the sink, and sends no later one of its
//     key. When receiving ends, what is not running is given back, and what then fails is given back too: never
//     to the retries, which come back behind what was published meanwhile.
//   - A message is rejected only after its dead letter is stored. When that fails it is retried.
//   - A slow sink costs no second delivery: the message is extended for as long as the call runs.
//   - When the context ends no more messages are fetched, busy workers get DrainTimeout to finish, from when BoundDrain is
//     closed, and what is then still unanswered is given back for a prompt redelivery. Run returns when all is settled.
//   - An event that has come further than MaxHops in its chain is not sent: it becomes a dead letter. So does one whose reply would
//     make its chain larger than it may be.
//   - A panic while one message is handled is a failed attempt of that message and of nothing else.
package dispatch

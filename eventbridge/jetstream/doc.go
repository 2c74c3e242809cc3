// Package jetstream is the data plane's store on NATS JetStream. It connects the packages of the data plane, which define
// the interfaces that they need, with internal/broker, which owns everything about NATS.
//
//	ingress  --> Store --> broker.Publisher
//	dispatch <-- Store <-- broker.Source, broker.DeadLetterSource
//	quota    --> Store --> broker.Conn
//	admin    --> AdminStore --> broker.Conn
//
// It owns the mapping of types and decides nothing. Errors pass as they are: both sides use those of internal/failure.
//
// It guarantees that handing a message to its dispatcher, and storing an event without an error, allocates no memory here.
package jetstream

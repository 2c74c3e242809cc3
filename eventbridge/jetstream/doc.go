// Package jetstream is the data plane's store on NATS JetStream: the one package between those of the data plane, which
// define what they need, and internal/broker, which knows NATS.
//
//	ingress  --> Store --> broker.Publisher
//	dispatch <-- Store <-- broker.Source, broker.DeadLetterSource
//	quota, storage, admin --> Store, AdminStore --> broker.Conn
//
// It owns the mapping of types and of errors, and decides nothing.
//
// Guarantees:
//   - An error says what internal/broker said, and is besides one of those that its caller defines.
//   - Handing a message to its dispatcher, and storing an event without an error, allocates no memory here.
package jetstream

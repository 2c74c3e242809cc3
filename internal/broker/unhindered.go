package broker

import "github.com/nats-io/nats.go/jetstream"

// unhindered takes out of a consumer's configuration what would keep it from delivering
// each event until it is settled. Somebody else may have put it there.
func unhindered(config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.MaxDeliver = -1 // the dispatcher decides which attempt is the last
	config.BackOff = nil
	config.HeadersOnly = false
	config.InactiveThreshold = 0 // a Subscription whose sink sleeps asks for nothing
	config.MaxRequestBatch, config.MaxRequestExpires, config.MaxRequestMaxBytes = 0, 0, 0
	return config
}

// unsuitable tells whether a consumer hinders in ways that JetStream cannot change in place.
func unsuitable(config jetstream.ConsumerConfig) bool {
	return config.AckPolicy != jetstream.AckExplicitPolicy || config.ReplayPolicy != jetstream.ReplayInstantPolicy ||
		config.MemoryStorage || config.DeliverSubject != "" || config.Durable == ""
}

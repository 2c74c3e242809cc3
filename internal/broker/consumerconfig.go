package broker

import "github.com/nats-io/nats.go/jetstream"

// normalizeConsumerConfig removes from a consumer's configuration what would keep it from delivering
// each event until it is settled. Another client may have set it.
func normalizeConsumerConfig(config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.MaxDeliver = -1 // the dispatcher decides which attempt is the last
	config.BackOff = nil
	config.HeadersOnly = false
	config.InactiveThreshold = 0 // a Subscription whose sink sleeps asks for nothing
	config.MaxRequestBatch, config.MaxRequestExpires, config.MaxRequestMaxBytes = 0, 0, 0
	return config
}

// needsRecreation reports whether a consumer has settings that JetStream cannot change in place.
func needsRecreation(config jetstream.ConsumerConfig) bool {
	return config.AckPolicy != jetstream.AckExplicitPolicy || config.ReplayPolicy != jetstream.ReplayInstantPolicy ||
		config.MemoryStorage || config.DeliverSubject != "" || config.Durable == ""
}

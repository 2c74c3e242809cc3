package broker

// ForeignConsumers are the consumers, among those of a stream of events, that serve no Subscription. They keep what they have
// not settled, as those of Subscriptions do.
func ForeignConsumers(consumers []Consumer) []Consumer {
	var found []Consumer
	for _, consumer := range consumers {
		_, ours := SubscriptionOf(consumer)
		_, isStandby := consumer.Metadata[metadataStarted]
		if !ours && !isStandby {
			found = append(found, consumer)
		}
	}
	return found
}

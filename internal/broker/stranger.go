package broker

// Strangers are the consumers among those of a stream of events that serve no Subscription, whoever made them. They keep what
// they have not settled, as ours do.
func Strangers(consumers []Consumer) []Consumer {
	var found []Consumer
	for _, consumer := range consumers {
		_, ours := SubscriptionOf(consumer)
		_, standsIn := consumer.Metadata[metadataStarted]
		if !ours && !standsIn {
			found = append(found, consumer)
		}
	}
	return found
}

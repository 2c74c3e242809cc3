package routing

// Ahead is how many events are held beside those that are being delivered: as many as quick sinks take in the time from an
// acknowledgement to the next events.
const Ahead = 128

// leastShared is the smallest limit of deliveries that replicas divide: each of so many has one at a time then.
const leastShared = 8

// Ahead is how many events the replicas of the data plane may hold beside those that are being delivered, so that a sink need
// not wait for the way from an acknowledgement to the next event. The server bounds both together, and replicas divide the
// deliveries among themselves. It is 0 where the server bounds the deliveries alone: where they are few or in order.
func (r Route) Ahead() int {
	if r.MaxInFlight < leastShared || r.Delivery.OrderedBy != "" || r.OfDeadLetters {
		return 0
	}
	return Ahead
}

// Share is how many deliveries at a time one of so many replicas may have, and how many events it may hold beside them. It is for
// routes with something Ahead.
func (r Route) Share(replicas int) (deliveries, held int) {
	replicas = max(replicas, 1)
	return max(r.MaxInFlight/replicas, 1), r.Ahead() / replicas
}

package broker

import (
	"strconv"

	"github.com/nats-io/nats.go"
)

// inboxSlack is the capacity for the server's status messages beside the events.
const inboxSlack = 32

// inbox is the subscription that the answers to pull requests arrive on.
type inbox struct {
	conn         *Conn
	subscription *nats.Subscription
	prefix       string
	arrived      chan *nats.Msg
	requests     uint64
	pin          string // with which the last message came that was handed back
}

// openInbox has the capacity for so many messages: beyond that the client library drops them.
func openInbox(conn *Conn, capacity int) (*inbox, error) {
	prefix := conn.nc.NewInbox() + "."
	arrived := make(chan *nats.Msg, capacity+inboxSlack)
	subscription, err := conn.nc.ChanSubscribe(prefix+"*", arrived)
	if err != nil {
		return nil, mapError(err)
	}
	return &inbox{conn: conn, subscription: subscription, prefix: prefix, arrived: arrived}, nil
}

// request sends a pull request. Each has a reply subject of its own, by which the
// server distinguishes them.
func (in *inbox) request(subject string, body []byte) error {
	in.requests++
	return mapError(in.conn.nc.PublishRequest(subject, in.prefix+strconv.FormatUint(in.requests, 10), body))
}

// close ends the subscription when no request is open.
func (in *inbox) close() { _ = in.subscription.Unsubscribe() }

// abandon ends the subscription while requests may be open, and hands back, in the
// background, every message that still comes. When that is over the server has seen
// that the subscription is gone, has dropped the requests, and sends nothing more. (Servers of a
// cluster learn it one after the other: a message on its way just then waits for its AckWait.)
//
// Then it calls over with the pin of the last message, empty without one.
func (in *inbox) abandon(over func(pin string)) {
	drained := in.conn.inBackground(func() {
		in.drain()
		over(in.pin)
	})
	if !drained {
		in.close()
		in.returnRest()
	}
}

func (in *inbox) drain() {
	gone := in.subscription.StatusChanged(nats.SubscriptionClosed)
	if !in.conn.Connected() || in.subscription.Drain() != nil {
		in.close()
	}
	for {
		select {
		case raw := <-in.arrived:
			in.giveBack(raw)
		case <-gone:
			in.returnRest()
			return
		case <-in.conn.closed: // it ends its subscriptions without notice
			in.returnRest()
			return
		}
	}
}

func (in *inbox) returnRest() {
	for {
		select {
		case raw := <-in.arrived:
			in.giveBack(raw)
		default:
			return
		}
	}
}

// giveBack returns a message whose source has stopped, so that it need not wait for AckWait.
// Without a connection it comes again after AckWait.
func (in *inbox) giveBack(raw *nats.Msg) {
	if raw.Reply != "" {
		if pin := raw.Header.Get(headerPin); pin != "" {
			in.pin = pin
		}
		_ = in.conn.nc.Publish(raw.Reply, []byte(verbNak))
	}
}

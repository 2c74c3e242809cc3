package broker

import (
	"strconv"

	"github.com/nats-io/nats.go"
)

// inboxSlack is room for heartbeats beside the messages of one pull.
const inboxSlack = 64

// inbox is the subscription that the answers to pull requests arrive on. Each
// request has its own reply subject, so that late words about an earlier one are
// told apart. There is one request at a time.
type inbox struct {
	conn         *Conn
	subscription *nats.Subscription
	prefix       string
	arrived      chan *nats.Msg
	requests     uint64
}

func openInbox(conn *Conn, room int) (*inbox, error) {
	prefix := conn.nc.NewInbox() + "."
	arrived := make(chan *nats.Msg, room+inboxSlack)
	subscription, err := conn.nc.ChanSubscribe(prefix+"*", arrived)
	if err != nil {
		return nil, mapError(err)
	}
	return &inbox{conn: conn, subscription: subscription, prefix: prefix, arrived: arrived}, nil
}

// fits tells whether as many messages can arrive at once: beyond that the client
// library drops them.
func (in *inbox) fits(room int) bool { return cap(in.arrived) >= room+inboxSlack }

// request sends a pull request and returns the reply subject of its answers.
func (in *inbox) request(subject string, body []byte) (string, error) {
	in.requests++
	reply := in.prefix + strconv.FormatUint(in.requests, 10)
	return reply, mapError(in.conn.nc.PublishRequest(subject, reply, body))
}

// close ends the subscription when no request is open.
func (in *inbox) close() { _ = in.subscription.Unsubscribe() }

// drain ends the subscription while a request may be open, and passes on every
// message that still comes. When it returns, the server has seen that nobody
// listens, drops the request, and sends nothing more. (Servers of a cluster learn
// it one after the other: a message on its way just then waits for its AckWait.)
func (in *inbox) drain(each func(*Message)) {
	gone := in.subscription.StatusChanged(nats.SubscriptionClosed)
	if !in.conn.Connected() || in.subscription.Drain() != nil {
		in.close()
	}
	for {
		select {
		case raw := <-in.arrived:
			in.pass(raw, each)
		case <-gone:
			in.passRest(each)
			return
		case <-in.conn.closed: // it ends its subscriptions without a word
			in.passRest(each)
			return
		}
	}
}

func (in *inbox) passRest(each func(*Message)) {
	for {
		select {
		case raw := <-in.arrived:
			in.pass(raw, each)
		default:
			return
		}
	}
}

func (in *inbox) pass(raw *nats.Msg, each func(*Message)) {
	if raw.Reply == "" {
		return
	}
	if message, err := newMessage(in.conn, raw); err == nil {
		each(message)
	}
}

// abandon drains in the background and hands back what still comes.
func (in *inbox) abandon() {
	if !in.conn.inBackground(func() { in.drain((*Message).handBack) }) {
		in.close()
	}
}

package broker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consumerSeenFor is how long a consumer is believed to be as it was, before something is published for it. Afterwards it
// is looked at in any case.
const consumerSeenFor = 2 * time.Second

// presence knows since when the consumers exist that events come back to. What is published for one that is gone is
// confirmed and dropped by the stream.
type presence struct {
	find func(ctx context.Context, consumer string) (since time.Time, err error)

	mu    sync.Mutex
	seen  map[string]seen
	looks map[string]*look // that run
}

type seen struct{ since, at time.Time }

// look is one for all who wait for it.
type look struct {
	done  chan struct{}
	since time.Time
	err   error
	next  *look // for those who came after it had begun
}

func newPresence(find func(ctx context.Context, consumer string) (time.Time, error)) *presence {
	return &presence{find: find, seen: map[string]seen{}, looks: map[string]*look{}}
}

// publish stores what comes back to a consumer, and returns nil only if the consumer was there all the time.
func (p *presence) publish(ctx context.Context, js jetstream.JetStream, consumer string, message *nats.Msg) error {
	before, err := p.known(ctx, consumer)
	if err != nil {
		return err
	}
	nameFor(message, before)
	if _, err := js.PublishMsg(ctx, message); err != nil {
		return mapError(err)
	}
	after, err := p.fresh(ctx, consumer)
	if err == nil && !after.Equal(before) {
		err = fmt.Errorf("the consumer was made again meanwhile: %w", ErrConsumerNotFound)
	}
	return err
}

// nameFor adds to the id of a message when the consumer was made that it comes back to. A stream remembers the ids of what it
// dropped, too, and would take the message for a duplicate when the consumer has been made again.
func nameFor(message *nats.Msg, since time.Time) {
	id := message.Header.Get(jetstream.MsgIDHeader)
	message.Header.Set(jetstream.MsgIDHeader, id+"/"+strconv.FormatInt(since.UnixNano(), 10))
}

// known is what was seen of a consumer lately.
func (p *presence) known(ctx context.Context, consumer string) (time.Time, error) {
	p.mu.Lock()
	last, ok := p.seen[consumer]
	p.mu.Unlock()
	if ok && time.Since(last.at) < consumerSeenFor {
		return last.since, nil
	}
	return p.fresh(ctx, consumer)
}

// fresh is what a look finds that begins after the call. Calls that come while one runs share the next.
func (p *presence) fresh(ctx context.Context, consumer string) (time.Time, error) {
	p.mu.Lock()
	mine := &look{done: make(chan struct{})}
	switch running := p.looks[consumer]; {
	case running == nil:
		p.looks[consumer] = mine
		go p.run(context.WithoutCancel(ctx), consumer, mine)
	case running.next == nil:
		running.next = mine
	default:
		mine = running.next
	}
	p.mu.Unlock()
	select {
	case <-mine.done:
		return mine.since, mine.err
	case <-ctx.Done():
		return time.Time{}, mapError(ctx.Err())
	}
}

// run looks until nobody waits for another look.
func (p *presence) run(ctx context.Context, consumer string, current *look) {
	for current != nil {
		began := time.Now()
		looking, cancel := context.WithTimeout(ctx, lookTimeout)
		current.since, current.err = p.find(looking, consumer)
		cancel()
		p.mu.Lock()
		p.remember(consumer, seen{since: current.since, at: began}, current.err)
		following := current.next
		if following == nil {
			delete(p.looks, consumer)
		} else {
			p.looks[consumer] = following
		}
		p.mu.Unlock()
		close(current.done)
		current = following
	}
}

// remember is called with the lock held.
func (p *presence) remember(consumer string, now seen, err error) {
	for name, last := range p.seen {
		if time.Since(last.at) > consumerSeenFor {
			delete(p.seen, name)
		}
	}
	if err != nil {
		delete(p.seen, consumer)
	} else {
		p.seen[consumer] = now
	}
}

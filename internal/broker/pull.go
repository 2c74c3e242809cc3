package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// How working on an inbox can end, besides well and besides the errors of this
// package.
var (
	errRepeat       = errors.New("the pull requests have to be sent again")
	errNoResponders = errors.New("no responders for pull requests")
)

// Status messages of the server about a pull request.
const (
	headerStatus      = "Status"
	headerDescription = "Description"

	statusHeartbeat    = "100"
	statusNoMessages   = "404"
	statusRequestEnded = "408"
	statusConflict     = "409"
	statusNoResponders = "503"

	textTooLarge         = "message size exceeds maxbytes"
	textUsedUp           = "batch completed" // and bytes are left
	textConsumerDeleted  = "consumer deleted"
	textLeadershipChange = "leadership change"
	textServerShutdown   = "server shutdown"
)

// pullSubscription keeps a pull request standing on an inbox. There is one at a time, so that it
// is known what may still come and how much memory that takes.
type pullSubscription struct {
	source     *Source
	inbox      *inbox
	each       func(*Message)
	ownership  *ownership // nil unless the consumer is ordered
	batchSizer batchSizer

	outstanding int   // messages of the request that have not come; 0 without one
	received    int   // messages that have
	reserved    int64 // memory that was acquired for those that have not
	since       time.Time
	large       bool // the next message may be as large as the server allows
	starved     bool // there was no memory for a request
	full        bool // the source held too much for one
	overdrawn   bool // the request exceeds the budget
}

// starvedDelay is the delay after which a starved source tries again to acquire memory that others may have released.
const starvedDelay = 20 * time.Millisecond

// quickly is the time within which a request has to be used up for the next one to be larger.
const quickly = time.Second

// run returns nil when it was stopped.
func (p *pullSubscription) run(ctx context.Context, stop, link <-chan struct{}) error {
	defer p.releaseReserved()
	timeout := p.source.stallTimeout
	stall := time.NewTimer(timeout)
	defer stall.Stop()
	retry := time.NewTimer(starvedDelay)
	defer retry.Stop()
	for !isOver(ctx, stop) { // what has arrived meanwhile is handed back
		if err := p.pull(); err != nil {
			return err
		}
		p.resetWhenStarved(retry, stall, timeout)
		select {
		case <-stall.C:
			return ErrStalled
		case <-link:
			return errRepeat
		case raw := <-p.inbox.arrived:
			if err := p.handle(raw); err != nil {
				return err
			}
			stall.Reset(timeout)
		case <-p.ownership.due():
			p.ownership.check(ctx, p.each)
			stall.Reset(timeout)
		case <-p.freed():
		case <-retry.C:
		case <-stop:
		case <-ctx.Done():
		}
	}
	return nil
}

// resetWhenStarved schedules the next try, while there could be no request: without a request no answer is due.
func (p *pullSubscription) resetWhenStarved(retry, stall *time.Timer, timeout time.Duration) {
	switch {
	case p.starved:
		retry.Reset(starvedDelay)
	case p.full:
		retry.Reset(holdDelay)
	default:
		return
	}
	stall.Reset(timeout)
}

// freed has a value when there may be memory again or less is held, while that kept the source from a request.
func (p *pullSubscription) freed() <-chan struct{} {
	switch {
	case p.full:
		return p.source.hold.freed
	case p.starved:
		return p.source.budget.Freed()
	default:
		return nil
	}
}

func isOver(ctx context.Context, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// pull sends a request when none is pending, memory is available, and the source holds few enough messages.
func (p *pullSubscription) pull() error {
	if p.outstanding > 0 {
		return nil
	}
	p.releaseReserved()
	most := p.source.hold.request(p.source.batch)
	if p.full = most == 0; p.full {
		p.starved = false
		return nil
	}
	messages, bytes := p.reserve()
	if p.starved = messages == 0; p.starved {
		return nil
	}
	messages = min(messages, most)
	err := p.inbox.request(p.source.subject, p.request(messages, bytes))
	if errors.Is(err, ErrNotConnected) {
		return errRepeat
	}
	p.outstanding, p.received, p.since = messages, 0, time.Now()
	return err
}

// reserve acquires memory, and returns what fits into it. No bytes are no limit.
func (p *pullSubscription) reserve() (messages, bytes int) {
	budget := p.source.budget
	least, most := p.batchSizer.bounds()
	if p.large {
		least = MessageMemory(int(p.source.conn.nc.MaxPayload()) + sizeSlack)
		most = least
	}
	p.reserved = budget.Acquire(least, most)
	p.overdrawn = p.reserved == 0 && p.ownership.mayOverdraw(time.Now()) && budget.Overdraw(least)
	if p.overdrawn {
		p.reserved, p.large = least, true
	}
	switch {
	case p.reserved == 0:
		return 0, 0
	case p.large:
		p.large = false
		return 1, 0
	default:
		return p.batchSizer.request(p.reserved)
	}
}

// releaseReserved releases what was reserved and not used.
func (p *pullSubscription) releaseReserved() {
	p.source.budget.Release(p.reserved)
	p.reserved = 0
}

func (p *pullSubscription) request(messages, bytes int) []byte {
	s := p.source
	body := make([]byte, 0, 192)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(messages), 10)
	if bytes > 0 {
		body = append(body, `,"max_bytes":`...)
		body = strconv.AppendInt(body, int64(bytes), 10)
	}
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, s.expires.Nanoseconds(), 10)
	body = append(body, `,"idle_heartbeat":`...)
	body = strconv.AppendInt(body, s.heartbeat.Nanoseconds(), 10)
	if p.ownership != nil {
		body = p.ownership.request(body)
	}
	return append(body, '}')
}

// handle hands a message over, or handles the server's status message about a request.
func (p *pullSubscription) handle(raw *nats.Msg) error {
	if raw.Reply != "" {
		return p.message(raw)
	}
	status, description := raw.Header.Get(headerStatus), strings.ToLower(raw.Header.Get(headerDescription))
	switch {
	case status == statusHeartbeat, status == statusConflict && strings.Contains(description, textUsedUp):
		return nil
	case status == statusRequestEnded, status == statusNoMessages:
		p.outstanding = 0
		if p.received == 0 {
			p.batchSizer.reset()
		}
		return nil
	case status == statusConflict && strings.Contains(description, textTooLarge):
		p.outstanding = 0
		p.large = p.received == 0
		return nil
	case status == statusWrongPin:
		p.source.pin = ""
		return errOwnershipLost
	default:
		return statusError(status, description)
	}
}

// message hands a message over, together with the memory that it takes.
func (p *pullSubscription) message(raw *nats.Msg) error {
	size := raw.Size()
	p.batchSizer.observe(size)
	p.received++
	if p.outstanding--; p.outstanding == 0 {
		p.batchSizer.completed(time.Since(p.since) < quickly)
	}
	p.outstanding = max(p.outstanding, 0)
	m := p.source.message(raw)
	switch {
	case m == nil:
		return nil
	case p.ownership != nil:
		m.memory = MessageMemory(size)
		p.reserved -= m.memory
		if p.overdrawn {
			p.ownership.overdrawn(m)
		}
		return p.ownership.handle(m, p.each)
	default:
		m.memory = MessageMemory(size)
		p.reserved -= m.memory
		p.source.hold.add(m)
		p.each(m)
		return nil
	}
}

// statusError is the error for an answer that ends all requests.
func statusError(status, description string) error {
	switch {
	case status == statusNoResponders:
		return errNoResponders
	case status != statusConflict:
	case strings.Contains(description, textConsumerDeleted):
		return ErrConsumerNotFound
	case strings.Contains(description, textLeadershipChange), strings.Contains(description, textServerShutdown):
		return errRepeat
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		return fmt.Errorf("unknown status %q for a pull request: %s", status, description)
	}
	return &APIError{Code: code, Description: description}
}

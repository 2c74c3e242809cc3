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
	errRepeat       = errors.New("the requests are to be made anew")
	errNoResponders = errors.New("nobody answers")
)

// What the server says about a pull request.
const (
	headerStatus      = "Status"
	headerDescription = "Description"
	headerUnused      = "Nats-Pending-Messages" // what a request that ended did not get

	statusHeartbeat    = "100"
	statusNoMessages   = "404"
	statusRequestEnded = "408"
	statusConflict     = "409"
	statusNoResponders = "503"

	textConsumerDeleted  = "consumer deleted"
	textLeadershipChange = "leadership change"
	textServerShutdown   = "server shutdown"
)

// pulling keeps one or two pull requests standing on an inbox. The second is made
// when half of the first is used, so that the server never waits for us.
type pulling struct {
	source      *Source
	inbox       *inbox
	each        func(*Message)
	outstanding int   // messages that were asked for and have not come
	turn        *turn // nil unless the consumer is ordered
}

// run returns nil when it was told to stop.
func (p *pulling) run(ctx context.Context, stop, link <-chan struct{}) error {
	// The server promised heartbeats; two missing ones are a stall.
	patience := 2*p.source.heartbeat + p.source.heartbeat/2
	stall := time.NewTimer(patience)
	defer stall.Stop()
	for {
		if err := p.ask(); err != nil {
			return err
		}
		select {
		case <-stop: // looked at first: what has arrived meanwhile is handed back
			return nil
		default:
		}
		select {
		case raw := <-p.inbox.arrived:
			if err := p.take(raw); err != nil {
				return err
			}
			stall.Reset(patience)
		case <-p.turn.due():
			p.turn.check(ctx, p.each)
			stall.Reset(patience)
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil
		case <-link:
			return errRepeat
		case <-stall.C:
			return ErrStalled
		}
	}
}

// ask makes a request when half of what was asked for has come.
func (p *pulling) ask() error {
	if 2*p.outstanding > p.source.batch {
		return nil
	}
	err := p.inbox.request(p.source.subject, p.request())
	if errors.Is(err, ErrNotConnected) {
		return errRepeat
	}
	p.outstanding += p.source.batch
	return err
}

func (p *pulling) request() []byte {
	s := p.source
	body := make([]byte, 0, 160)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(s.batch), 10)
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, s.expires.Nanoseconds(), 10)
	body = append(body, `,"idle_heartbeat":`...)
	body = strconv.AppendInt(body, s.heartbeat.Nanoseconds(), 10)
	if p.turn != nil {
		body = p.turn.request(body)
	}
	return append(body, '}')
}

// take hands a message over, or understands the server's word about a request.
func (p *pulling) take(raw *nats.Msg) error {
	if raw.Reply != "" {
		p.outstanding--
		m := p.source.message(raw)
		switch {
		case m == nil:
		case p.turn != nil:
			return p.turn.take(m, p.each)
		default:
			p.each(m)
		}
		return nil
	}
	switch raw.Header.Get(headerStatus) {
	case statusHeartbeat:
		return nil
	case statusRequestEnded, statusNoMessages:
		unused, err := strconv.Atoi(raw.Header.Get(headerUnused))
		if err != nil {
			unused = p.source.batch
		}
		p.outstanding = max(p.outstanding-unused, 0)
		return nil
	case statusWrongPin:
		p.source.pin = ""
		return errTurnOver
	default:
		return statusError(raw.Header.Get(headerStatus), strings.ToLower(raw.Header.Get(headerDescription)))
	}
}

// statusError says what an answer means that ends all requests.
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
		return fmt.Errorf("unknown answer %q to a pull request: %s", status, description)
	}
	return &APIError{Code: code, Description: description}
}

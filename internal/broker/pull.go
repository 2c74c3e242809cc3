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

// How waiting for a pull request's answer can end, besides well and besides the
// errors of this package.
var (
	errLinkChanged  = errors.New("the connection changed")
	errLingered     = errors.New("the batch is not complete")
	errOthersWait   = errors.New("other requests come first")
	errNoResponders = errors.New("nobody answers")
)

// What the server says about a pull request.
const (
	headerStatus      = "Status"
	headerDescription = "Description"

	statusHeartbeat    = "100"
	statusNoMessages   = "404"
	statusRequestEnded = "408"
	statusConflict     = "409"
	statusNoResponders = "503"

	textOthersWait       = "requests pending"
	textConsumerDeleted  = "consumer deleted"
	textLeadershipChange = "leadership change"
	textServerShutdown   = "server shutdown"
)

// pull is a request for messages.
type pull struct {
	batch     int
	expires   time.Duration
	heartbeat time.Duration
	// oneShot takes what is there, or else waits for the first message, and is
	// over then.
	oneShot bool
}

func (p pull) body() []byte {
	body := make([]byte, 0, 96)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(p.batch), 10)
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, p.expires.Nanoseconds(), 10)
	body = append(body, `,"idle_heartbeat":`...)
	body = strconv.AppendInt(body, p.heartbeat.Nanoseconds(), 10)
	if p.oneShot {
		body = append(body, `,"no_wait":true`...)
	}
	return append(body, '}')
}

// collector gathers the answer to one pull request.
type collector struct {
	source   *Source
	reply    string
	limit    int
	messages []*Message
}

func (c *collector) add(message *Message) { c.messages = append(c.messages, message) }

// collect returns nil when the server is done with the request, and otherwise
// why it did not wait any longer; then the request may still be open.
func (c *collector) collect(ctx context.Context, link <-chan struct{}) error {
	// The server promised a heartbeat; two missing ones are a stall.
	patience := 2*c.source.heartbeat + c.source.heartbeat/2
	stall := time.NewTimer(patience)
	defer stall.Stop()
	linger := time.NewTimer(c.source.expires)
	defer linger.Stop()
	linger.Stop()
	for len(c.messages) < c.limit {
		select {
		case raw := <-c.source.inbox.arrived:
			stall.Reset(patience)
			if done, err := c.take(raw); done {
				return err
			}
			if len(c.messages) > 0 {
				linger.Reset(c.source.linger)
			}
		case <-linger.C:
			return errLingered
		case <-stall.C:
			return ErrStalled
		case <-link:
			return errLinkChanged
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// take keeps a message, or tells whether the server's word ends the request.
func (c *collector) take(raw *nats.Msg) (done bool, err error) {
	if raw.Reply != "" {
		c.source.inbox.pass(raw, c.add)
		return false, nil
	}
	status := raw.Header.Get(headerStatus)
	if raw.Subject != c.reply || status == statusHeartbeat {
		return false, nil
	}
	return true, statusError(status, strings.ToLower(raw.Header.Get(headerDescription)))
}

func statusError(status, description string) error {
	switch {
	case status == statusNoMessages:
		return nil
	case status == statusRequestEnded && strings.Contains(description, textOthersWait):
		return errOthersWait
	case status == statusRequestEnded:
		return nil
	case status == statusNoResponders:
		return errNoResponders
	case status != statusConflict:
	case strings.Contains(description, textConsumerDeleted):
		return ErrConsumerNotFound
	case strings.Contains(description, textLeadershipChange):
		return nil
	case strings.Contains(description, textServerShutdown):
		return errLinkChanged
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		return fmt.Errorf("unknown answer %q to a pull request: %s", status, description)
	}
	return &APIError{Code: code, Description: description}
}

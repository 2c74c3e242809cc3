package broker

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// The prefixes of the subjects of beats, by which bridges show each other that they live, and of announcements that an event will be
// published soon.
const (
	beatPrefix  = "rouse.beat."
	aheadPrefix = "rouse.ahead."
)

// maxBeat bounds a beat.
const maxBeat = 64 << 10

// NewBeatID returns a name for this process among the senders of beats.
func NewBeatID() string { return rand.Text() }

// Beat sends a beat. Nobody needs to hear it.
func (c *Conn) Beat(id string, data []byte) error {
	if err := c.nc.Publish(beatPrefix+id, data); err != nil {
		return fmt.Errorf("send a beat: %w", mapError(err))
	}
	return nil
}

// WatchBeats calls apply with each beat of any process, this one included, one at a time, until ctx ends.
func (c *Conn) WatchBeats(ctx context.Context, apply func(id string, data []byte)) error {
	return c.watchSubject(ctx, beatPrefix+"*", func(m *nats.Msg) {
		if len(m.Data) <= maxBeat {
			apply(strings.TrimPrefix(m.Subject, beatPrefix), m.Data)
		}
	})
}

// AnnounceAhead announces that an event will be published soon. Like all announcements it may be lost, so that nothing may depend on it.
func (c *Conn) AnnounceAhead(source, eventType string) error {
	address, err := addressOf(source, eventType)
	if err != nil {
		return err
	}
	if err := c.nc.Publish(aheadPrefix+address.subject, nil); err != nil {
		return fmt.Errorf("announce an event ahead: %w", mapError(err))
	}
	return nil
}

// WatchAhead calls apply with the subject of each event that is announced ahead, one at a time, until ctx ends.
func (c *Conn) WatchAhead(ctx context.Context, apply func(subject string)) error {
	return c.watchSubject(ctx, aheadPrefix+">", func(m *nats.Msg) { apply(strings.TrimPrefix(m.Subject, aheadPrefix)) })
}

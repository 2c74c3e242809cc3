package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DoorStream holds which deliveries of Doors have become events, so that one that is repeated becomes none.
const DoorStream = "rouse-doors"

const (
	deliveryPrefix = "rouse.door.delivery."
	reportPrefix   = "rouse.door.report."

	// DeliveriesKept is how long a delivery is known.
	DeliveriesKept = 72 * time.Hour
	// MaxDeliveries bounds those of one page.
	MaxDeliveries = 256

	bytesOfDelivery = 24
	keyOfDelivery   = 16
	// maxPages bounds those of a namespace, of which the oldest go first, and maxDeliveryBytes the stream.
	maxPages         = 4096
	maxDeliveryBytes = 16 << 20
	// maxReport bounds a report of a bridge.
	maxReport = 64 << 10
	// pagesInterval is the time after which pages are looked for without a hint.
	pagesInterval = 2 * time.Second
)

// Delivery is one that has become an event.
type Delivery struct {
	// Key is the hash of what identifies it.
	Key [keyOfDelivery]byte
	// Body is the hash of its body.
	Body [bytesOfDelivery - keyOfDelivery]byte
}

// doorStream drops the oldest pages: a delivery that is repeated after that becomes an event again, which is better than none.
func doorStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              DoorStream,
		Description:       "deliveries of Doors that have become events",
		Subjects:          []string{deliveryPrefix + "*"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: maxPages,
		MaxMsgSize:        MaxDeliveries*bytesOfDelivery + maxCursor,
		MaxBytes:          maxDeliveryBytes,
		MaxAge:            DeliveriesKept,
		Duplicates:        scheduleWindow,
		Discard:           jetstream.DiscardOld,
		AllowDirect:       true,
	}
}

// StoreDeliveries stores a page of deliveries of a namespace.
func (c *Conn) StoreDeliveries(ctx context.Context, namespace string, page []Delivery) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	data := make([]byte, 0, len(page)*bytesOfDelivery)
	for i := range page {
		data = append(append(data, page[i].Key[:]...), page[i].Body[:]...)
	}
	if _, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: deliveryPrefix + namespace, Data: data}); err != nil {
		return fmt.Errorf("store deliveries of Doors: %w", mapError(err))
	}
	return nil
}

// FollowDeliveries calls apply with all pages that are stored, and with further ones as they are stored, one at a time, until ctx ends.
// It calls known whenever all that are stored have been applied.
func (c *Conn) FollowDeliveries(ctx context.Context, apply func(namespace string, stored time.Time, page []Delivery), known func()) error {
	hints := make(chan *nats.Msg, maxAnnouncements)
	subscription, err := c.nc.ChanSubscribe(deliveryPrefix+"*", hints)
	if err != nil {
		return fmt.Errorf("follow the deliveries of Doors: %w", mapError(err))
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only when the connection is gone
	ticker := time.NewTicker(pagesInterval)
	defer ticker.Stop()
	for next := uint64(1); ; {
		last, err := c.readDeliveries(ctx, next, apply)
		if err != nil && !errors.Is(err, ErrNoStream) {
			return fmt.Errorf("follow the deliveries of Doors: %w", err)
		}
		if next = max(next, last+1); err == nil {
			known()
		} else {
			next = 1 // another stream begins anew
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-hints:
		}
		for len(hints) > 0 {
			<-hints
		}
	}
}

func (c *Conn) readDeliveries(ctx context.Context, from uint64, apply func(namespace string, stored time.Time, page []Delivery)) (last uint64, err error) {
	if !c.Connected() {
		return 0, ErrNotConnected
	}
	err = c.readStored(ctx, DoorStream, deliveryPrefix+"*", from, func(m storedMessage) bool {
		last = m.sequence
		stored, err := time.Parse(time.RFC3339Nano, m.raw.Header.Get(jetstream.TimeStampHeaer))
		if err == nil && len(m.raw.Data)%bytesOfDelivery == 0 && len(m.raw.Data) <= MaxDeliveries*bytesOfDelivery {
			apply(strings.TrimPrefix(m.subject, deliveryPrefix), stored, decodeDeliveries(m.raw.Data))
		}
		return true
	})
	return last, err
}

func decodeDeliveries(data []byte) []Delivery {
	page := make([]Delivery, len(data)/bytesOfDelivery)
	for i := range page {
		record := data[i*bytesOfDelivery:]
		copy(page[i].Key[:], record)
		copy(page[i].Body[:], record[keyOfDelivery:bytesOfDelivery])
	}
	return page
}

// ReportDoors announces what has become of requests to Doors. Like all announcements it may be lost.
func (c *Conn) ReportDoors(id string, data []byte) error {
	if err := c.nc.Publish(reportPrefix+id, data); err != nil {
		return fmt.Errorf("report what became of requests to Doors: %w", mapError(err))
	}
	return nil
}

// WatchDoorReports calls apply with each report of any process, one at a time, until ctx ends.
func (c *Conn) WatchDoorReports(ctx context.Context, apply func(data []byte)) error {
	return c.watchSubject(ctx, reportPrefix+"*", func(m *nats.Msg) {
		if len(m.Data) <= maxReport {
			apply(m.Data)
		}
	})
}

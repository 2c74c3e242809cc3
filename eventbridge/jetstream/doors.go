package jetstream

import (
	"context"
	"time"

	"github.com/rouse-run/rouse/eventbridge/doors"
	"github.com/rouse-run/rouse/internal/broker"
)

// DoorStore keeps the deliveries of Doors. It implements doors.Store.
type DoorStore struct{ conn *broker.Conn }

// NewDoorStore returns a DoorStore. It creates no stream: the controller does.
func NewDoorStore(conn *broker.Conn) *DoorStore { return &DoorStore{conn} }

// StoreDeliveries implements doors.Store.
func (s *DoorStore) StoreDeliveries(ctx context.Context, namespace string, page []doors.Delivery) error {
	stored := make([]broker.Delivery, len(page))
	for i := range page {
		stored[i] = broker.Delivery(page[i])
	}
	return s.conn.StoreDeliveries(ctx, namespace, stored)
}

// FollowDeliveries implements doors.Store.
func (s *DoorStore) FollowDeliveries(
	ctx context.Context, apply func(namespace string, stored time.Time, page []doors.Delivery), known func(),
) error {
	return s.conn.FollowDeliveries(ctx, func(namespace string, stored time.Time, page []broker.Delivery) {
		all := make([]doors.Delivery, len(page))
		for i := range page {
			all[i] = doors.Delivery(page[i])
		}
		apply(namespace, stored, all)
	}, known)
}

// ReportDoors implements doors.Store.
func (s *DoorStore) ReportDoors(id string, data []byte) error { return s.conn.ReportDoors(id, data) }

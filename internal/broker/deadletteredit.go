package broker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// RedriveEdited redrives one dead letter with other data, which are JSON. All attributes stay as they are, so that the event is still the
// publisher's by its source, type and id. It guarantees what Redrive does, and fails with failure.ErrDataNotEditable.
func (c *Conn) RedriveEdited(
	ctx context.Context, stream string, s DeadLetterSelection, data []byte, onRedriven func(time.Time, types.NamespacedName, *cloudevent.Event),
) (Redriven, error) {
	return c.redrive(ctx, s, redrive{events: stream, onRedriven: onRedriven, edit: func(event *nats.Msg) error {
		return replaceData(event, data)
	}})
}

// change edits the events of a batch.
func (r *redrive) change(batch []redriving) error {
	if r.edit == nil {
		return nil
	}
	for _, deadLetter := range batch {
		if err := r.edit(deadLetter.event); err != nil {
			return err
		}
	}
	return nil
}

// replaceData replaces the data of a stored event.
func replaceData(event *nats.Msg, data []byte) error {
	stored, err := cloudevent.FromStructured(event.Data)
	if err != nil || !stored.CheckJSON() || !json.Valid(data) {
		return failure.ErrDataNotEditable
	}
	stored.Data, stored.Base64 = data, false
	event.Data = stored.AppendStructured(nil)
	return nil
}

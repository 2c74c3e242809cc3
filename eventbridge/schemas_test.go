package eventbridge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// picky allows only events with the id good.
type picky struct{}

func (picky) Texts() map[string][]byte { return nil }

func (picky) Check(ev *cloudevent.Event) error {
	if ev.ID == "good" {
		return nil
	}
	return &failure.InvalidEventError{Reason: "it does not fit"}
}

func TestAnEventThatDoesNotFitItsSchemaIsNotStored(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t, func(d *Deps, _ *Options) { d.Schemas = picky{} })
	status, _ := r.publish(t, "bad")
	require.Equal(t, 400, status)
	status, _ = r.publish(t, "good")
	require.Equal(t, 204, status)
	status, body := r.publishBatch(t, order("bad"), order("good"), order("worse"))
	require.NotEqual(t, 204, status)
	require.Contains(t, body, "it does not fit")
	w.backlogIs(t, 1, 0)
}

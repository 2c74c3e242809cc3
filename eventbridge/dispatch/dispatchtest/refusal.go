package dispatchtest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
)

// refuseDeadLetters has messages refuse to store their dead letters, so many times in all.
func (b *bench) refuseDeadLetters(times int32) {
	left := &atomic.Int32{}
	left.Store(times)
	b.source = func(s dispatch.Source) dispatch.Source {
		return sourceFunc(func(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
			return s.Receive(ctx, stop, func(msg dispatch.Message) { each(&refusing{Message: msg, left: left}) })
		})
	}
}

// refusing is a message whose dead letter cannot be stored while refusals are left.
type refusing struct {
	dispatch.Message

	left *atomic.Int32
}

// StoreDeadLetter implements dispatch.Message.
func (r *refusing) StoreDeadLetter(ctx context.Context, deadLetter dispatch.DeadLetter) error {
	if r.left.Add(-1) >= 0 {
		return errors.New("no space left")
	}
	return r.Message.StoreDeadLetter(ctx, deadLetter)
}

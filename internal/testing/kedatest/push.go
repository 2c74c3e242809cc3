package kedatest

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rouse-run/rouse/internal/kedarules"
)

func streamBackoff() kedarules.Backoff {
	return kedarules.Backoff{First: kedarules.FirstStreamBackoff, Last: kedarules.LastStreamBackoff}
}

// pushLoop holds the push stream open.
func (o *ScaledObject) pushLoop(ctx context.Context) {
	backoff := streamBackoff()
	for {
		err := o.push(ctx)
		wait := backoff.Next(errors.Is(err, io.EOF))
		if ctx.Err() != nil {
			return
		}
		o.note(func() { o.backoffs = append(o.backoffs, wait) })
		if !o.sleep(ctx, wait) {
			return
		}
	}
}

// push reads one stream until it ends.
func (o *ScaledObject) push(ctx context.Context) error {
	stream, err := o.client.StreamIsActive(ctx, o.ref)
	if err != nil {
		return err
	}
	o.note(func() { o.streams++ })
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if response.GetResult() {
			o.activate(ctx)
		}
	}
}

func (o *ScaledObject) activate(ctx context.Context) {
	o.mu.Lock()
	known := len(o.metricNames) > 0
	o.mu.Unlock()
	if known {
		select {
		case o.scaling <- struct{}{}:
			o.requestScale(true, nil, Push)
			<-o.scaling
		case <-ctx.Done():
			return
		}
	}
	o.note(func() {
		o.pushed++
		if !known {
			o.dropped++
		}
	})
}

// specLoop holds the spec stream open. Unlike the push stream it also starts
// over with a short wait when it got anything.
func (o *ScaledObject) specLoop(ctx context.Context) {
	backoff := streamBackoff()
	for {
		received, err := o.watchSpecs(ctx)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		if !o.sleep(ctx, backoff.Next(received || errors.Is(err, io.EOF))) {
			return
		}
	}
}

func (o *ScaledObject) watchSpecs(ctx context.Context) (received bool, err error) {
	stream, err := o.client.StreamMetricSpec(ctx, o.ref)
	if err != nil {
		return false, err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		o.note(func() { o.specs = response.GetMetricSpecs() })
	}
}

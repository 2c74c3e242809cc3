package kedatest

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pushLoop holds the push stream open.
func (o *ScaledObject) pushLoop(ctx context.Context) {
	backoff := firstBackoff
	for {
		if err := o.push(ctx); errors.Is(err, io.EOF) {
			backoff = firstBackoff
		}
		wait := backoff
		backoff = min(backoff*2, lastBackoff)
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
	for backoff := firstBackoff; ; backoff = min(backoff*2, lastBackoff) {
		received, err := o.watchSpecs(ctx)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		if received || errors.Is(err, io.EOF) {
			backoff = firstBackoff
		}
		if !o.sleep(ctx, backoff) {
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

package scaler

import (
	"context"
	"sync"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
)

// StreamIsActive sends true when the Function turns active and, at the pacer's
// pace, while it is. It never sends false, which KEDA ignores.
func (s *service) StreamIsActive(ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	asked, err := s.parse(ref)
	if err != nil {
		return err
	}
	open := s.open(asked, "StreamIsActive")
	defer open.close()
	open.function.pushOpened()
	defer open.function.pushClosed()
	pace := pacer{options: s.options.Push}
	for {
		now := time.Now()
		seen, changed := open.function.view()
		due, pause := pace.next(now, seen)
		if due {
			if err := stream.Send(&pb.IsActiveResponse{Result: true}); err != nil {
				return err
			}
			pace.sent(now, seen)
			open.function.activationSent(seen)
			continue
		}
		if goOn, err := open.wait(stream.Context(), changed, pause); !goOn {
			return err
		}
	}
}

// StreamMetricSpec sends the targets at once and whenever one changes.
func (s *service) StreamMetricSpec(ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.GetMetricSpecResponse]) error {
	asked, err := s.parse(ref)
	if err != nil {
		return err
	}
	open := s.open(asked, "StreamMetricSpec")
	defer open.close()
	open.function.await(stream.Context())
	sent := 0.0
	for {
		threshold, changed := open.function.lagThreshold()
		if asked.lagThreshold > 0 {
			threshold = asked.lagThreshold
		}
		if threshold != sent {
			if err := stream.Send(metricSpecs(threshold, asked.httpConcurrency)); err != nil {
				return err
			}
			sent = threshold
			continue
		}
		if goOn, err := open.wait(stream.Context(), changed, 0); !goOn {
			return err
		}
	}
}

// openStream is one stream that KEDA holds. It lives for a while only: a stream
// that ends with nil makes KEDA forget the delay that earlier failures built up.
type openStream struct {
	service  *service
	function *function
	call     string
	end      *time.Timer
}

func (s *service) open(asked request, call string) *openStream {
	s.streams.add(1)
	s.metrics.streams.WithLabelValues(call).Inc()
	f := s.tracker.function(asked.target)
	f.hold()
	return &openStream{
		service:  s,
		function: f,
		call:     call,
		end:      time.NewTimer(wait.Jitter(s.options.Push.Lifetime, 1)),
	}
}

func (o *openStream) close() {
	o.end.Stop()
	o.function.release()
	o.service.metrics.streams.WithLabelValues(o.call).Dec()
	o.service.streams.add(-1)
}

// wait returns true when something changed or the pause, if any, is over, and
// false with the stream's result when it must end.
func (o *openStream) wait(ctx context.Context, changed <-chan struct{}, pause time.Duration) (bool, error) {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-changed:
		return true, nil
	case <-over:
		return true, nil
	case <-o.end.C:
		return false, nil
	case <-o.service.stopping:
		return false, nil
	case <-ctx.Done():
		return false, status.FromContextError(ctx.Err()).Err()
	}
}

// streamCount counts open streams. Its zero value is ready to use.
type streamCount struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed when the last one ends; nil while no caller waits
}

func (c *streamCount) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open += n; c.open == 0 && c.none != nil {
		close(c.none)
		c.none = nil
	}
}

// wait returns true once no stream is open, and false when that takes too long.
func (c *streamCount) wait(timeout time.Duration) bool {
	c.mu.Lock()
	if c.open == 0 {
		c.mu.Unlock()
		return true
	}
	none := make(chan struct{})
	c.none = none
	c.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-none:
		return true
	case <-timer.C:
		return false
	}
}

// hold keeps the function from being forgotten while a stream is open.
func (f *function) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams++
}

func (f *function) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
	f.askedAt = time.Now()
}

// pushOpened records that KEDA can be pushed to.
func (f *function) pushOpened() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pushes == 0 && !f.noPushSince.IsZero() {
		f.metrics.streamGap.Observe(time.Since(f.noPushSince).Seconds())
	}
	f.pushes++
}

func (f *function) pushClosed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pushes--; f.pushes == 0 {
		f.noPushSince = time.Now()
	}
}

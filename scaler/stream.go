package scaler

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rouse-run/rouse/internal/routing"
)

// StreamIsActive sends true when the Function turns active and, at the pacer's
// pace, while it is. It never sends false, which KEDA ignores.
func (s *service) StreamIsActive(ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	_, f, err := s.find(ref)
	if err != nil {
		return err
	}
	open := s.open(f, "StreamIsActive")
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
	asked, f, err := s.find(ref)
	if err != nil {
		return err
	}
	open := s.open(f, "StreamMetricSpec")
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

func (s *service) open(f *function, call string) *openStream {
	s.streams.add(1)
	s.metrics.streams.WithLabelValues(call).Inc()
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

// listener waits for the first publish on a Function's subjects.
type listener struct {
	subjects []string
	at       time.Time
	stop     func()
}

// listen places a listener on the subjects of the routes. It reports whether
// one is in place.
func (f *function) listen(routes []routing.Route) bool {
	subjects := subjectsOf(routes)
	if len(subjects) == 0 {
		return false
	}
	placed := &listener{subjects: subjects, at: time.Now()}
	// Set before the call, as the first message may come before it returns.
	f.mu.Lock()
	f.listener = placed
	f.mu.Unlock()
	stop, err := f.aheads.OnPublish(subjects, func() { f.published(placed) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.log.V(1).Info("cannot listen for publishes", "reason", err.Error())
		if f.listener == placed {
			f.listener = nil
		}
		return false
	}
	placed.stop = stop
	return true
}

// listening reports whether a listener is in place for the present subjects,
// and takes one for other subjects away.
func (f *function) listening() bool {
	f.mu.Lock()
	present := f.listener
	fits := present != nil && slices.Equal(present.subjects, subjectsOf(f.counted))
	f.mu.Unlock()
	if present != nil && !fits {
		f.stopListening()
	}
	return fits
}

func (f *function) stopListening() {
	f.mu.Lock()
	present := f.listener
	f.listener = nil
	f.mu.Unlock()
	if present != nil && present.stop != nil {
		present.stop()
	}
}

// published records a message. It runs on the broker's goroutine, so
// that nothing the loop may be waiting for delays the wake.
func (f *function) published(fired *listener) {
	f.mu.Lock()
	if f.listener != fired {
		f.mu.Unlock()
		return
	}
	f.listener = nil
	// One that was placed before a Subscription was paused or removed may have
	// fired for an event of that one. The next reading finds what it may be.
	current := slices.Equal(fired.subjects, subjectsOf(f.counted))
	if current && f.activity.published(time.Now()) {
		f.turned()
		f.answered()
	}
	f.mu.Unlock()
	f.nudge()
}

func subjectsOf(routes []routing.Route) []string {
	var subjects []string
	for _, route := range routes {
		subjects = append(subjects, route.Subjects...)
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

// view is the state of a Function as a stream sees it at one moment.
type view struct {
	active   bool // known to have a backlog above the threshold, or calls
	ready    bool // has a ready endpoint
	restless time.Time
	edge     edge
}

// pacer decides when true is sent on one stream. KEDA acts on true only, does
// not retry an activation that failed, and pays a status patch for each. So true
// goes out at once when the Function turns active or loses its endpoint, is
// repeated at pauses that double until it has an endpoint, and then keeps the
// cooldown from running. At a fixed pause, a burst of Functions that take long
// to start would fill KEDA's queue with what it has done.
type pacer struct {
	options PushOptions
	last    time.Time // when true was last sent; zero before the first
	edge    uint64    // the edge that was last sent
	owed    bool      // an edge was held back because a heartbeat was due later
}

// next reports whether true is due now, and if not, how long until it may be. A
// wait of 0 means not before something changes.
func (p *pacer) next(now time.Time, v view) (due bool, wait time.Duration) {
	if !v.active && (!p.owed || !v.ready) {
		p.owed = false
		return false, 0
	}
	if p.last.IsZero() || (!v.ready && v.restless.After(p.last)) {
		return true, 0
	}
	if v.edge.number != p.edge {
		p.owed = true
	}
	period := min(max(p.options.Repeat, p.last.Sub(v.restless)), p.options.Heartbeat)
	if v.ready || now.Sub(v.restless) >= p.options.RepeatFor {
		period = p.options.Heartbeat
	}
	if wait = p.last.Add(period).Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}

// sent records that true was sent.
func (p *pacer) sent(now time.Time, v view) {
	p.last, p.edge, p.owed = now, v.edge.number, false
}

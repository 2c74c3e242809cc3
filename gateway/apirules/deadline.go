package apirules

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
)

// deadline ends the context of a request when its time is over. It stands still while the caller's body is awaited.
type deadline struct {
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer
	began   time.Time     // when it began to run last
	left    time.Duration // at that time
	running bool
	ended   bool // it does not run again
}

func startDeadline(ctx context.Context, timeout time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &deadline{
		cancel: cancel, began: time.Now(), left: timeout, running: true,
		timer: time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) }),
	}
}

// pause stops the clock. A time that is over stays over.
func (d *deadline) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running && d.timer.Stop() {
		d.left -= time.Since(d.began)
	}
	d.running = false
}

func (d *deadline) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.began, d.running = time.Now(), true
		d.timer.Reset(d.left)
	}
}

// remaining is the time that is left.
func (d *deadline) remaining() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running {
		return d.left
	}
	return d.left - time.Since(d.began)
}

// unlimited lets a request take as long as it likes.
func (d *deadline) unlimited() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	d.running, d.ended = false, true
}

// stop releases what belongs to the context, at the end of the request.
func (d *deadline) stop() {
	d.unlimited()
	d.cancel(context.Canceled)
}

// body is that of a request. While it is awaited, the time of the request stands still.
type body struct {
	*forward.Body
	left    *deadline
	trailer http.Header // of the request: the server fills it after the body
	to      *rule
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.left.pause()
	defer b.left.resume()
	n, err := b.Body.Read(p)
	if err != nil {
		removeJudged(b.trailer, b.to)
	}
	return n, err
}

package scaler

import (
	"slices"
	"time"

	"github.com/rouse-run/rouse/internal/routing"
)

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
	stop, err := f.deps.Listener.OnPublish(subjects, func() { f.published(placed) })
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

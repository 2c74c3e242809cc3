package clusterhome

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

const (
	// lookAgain is the interval at which bridges are looked for, and mostBridges how many are followed.
	lookAgain   = 5 * time.Second
	mostBridges = 64
)

// Run copies the journals of all bridges until ctx ends, so that bridges have one follower however many pages are open.
func (p *Process) Run(ctx context.Context) error {
	f := &followers{process: p, busy: map[string]bool{}, last: map[string]time.Time{}}
	defer f.running.Wait()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for ctx.Err() == nil {
		admins, err := p.bridges(ctx)
		if err == nil {
			f.followAll(ctx, admins[:min(len(admins), mostBridges)])
		} else if ctx.Err() == nil {
			p.deps.Log.V(1).Info("there are no bridges to follow", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// followers follow the journals of bridges.
type followers struct {
	process *Process
	running sync.WaitGroup
	begun   bool

	mu   sync.Mutex
	busy map[string]bool
	last map[string]time.Time // of the last record by the URL of the bridge
}

// followAll follows the bridges that are not followed yet. What the first ones have stored is merged by time before.
func (f *followers) followAll(ctx context.Context, admins []target.Admin) {
	if !f.begun {
		f.merge(ctx, admins)
		f.begun = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	there := map[string]bool{}
	for _, admin := range admins {
		there[admin.URL] = true
		if f.busy[admin.URL] {
			continue
		}
		f.busy[admin.URL] = true
		f.running.Go(func() { f.follow(ctx, admin) })
	}
	maps.DeleteFunc(f.last, func(url string, _ time.Time) bool { return !there[url] && !f.busy[url] })
}

// merge copies what the bridges have stored until now.
func (f *followers) merge(ctx context.Context, admins []target.Admin) {
	began := time.Now()
	stored, err := target.Recent(ctx, admins, target.Wanted{Since: -1})
	if err != nil {
		return // each follower begins with all of its bridge
	}
	for i := range stored {
		if stored[i].Time.Before(began) {
			f.process.records.Add(stored[i])
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, admin := range admins {
		f.last[admin.URL] = began
	}
}

// follow copies the journal of a bridge until it is lost. The next follower of the bridge goes on where this one has ended.
func (f *followers) follow(ctx context.Context, admin target.Admin) {
	f.mu.Lock()
	last := f.last[admin.URL]
	f.mu.Unlock()
	wanted := target.Wanted{Since: -1, Follow: true}
	if !last.IsZero() {
		wanted.Since = max(0, time.Since(last))
	}
	err := target.New(admin).Events(ctx, wanted, func(r journal.Record) {
		if r.Kind != journal.Skipped && !r.Time.After(last) {
			return // it was copied before
		}
		if r.Time.After(last) {
			last = r.Time
		}
		f.process.records.Add(r)
	})
	if err != nil && ctx.Err() == nil {
		f.process.deps.Log.Info("lost the journal of a bridge", "bridge", admin.URL, "reason", err.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, admin.URL)
	f.last[admin.URL] = last
}

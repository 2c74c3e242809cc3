package runner

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/runtimes/languages"
)

const (
	// checkInterval is the pause between health checks of a replica.
	checkInterval = time.Second
	// healthPath is answered by the server itself, on the event loop that handlers share.
	healthPath = "/healthz"
	// afterwards is how long a delivery has to run into its own timeout first.
	afterwards = time.Second
)

// watch ends a replica that gives no answer for longer than a call may take, where a handler that loops holds up all others,
// and the server's own clock too. Other servers watch their workers themselves, and a debugger may stop whatever it likes.
func (f *Functions) watch(u *unit, r *replica) {
	known, err := languages.Of(r.fn.Spec.Runtime)
	if err != nil || !known.Local.Watched || r.launch.DebugAddress != "" {
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		select {
		case <-r.process.Done():
			return
		case <-time.After(checkInterval):
			if !f.awaitAnswer(client, u, r) {
				return
			}
		}
	}
}

// awaitAnswer asks once, however long the answer takes. It is false when there is nothing left to watch.
func (f *Functions) awaitAnswer(client *http.Client, u *unit, r *replica) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answered := make(chan struct{})
	f.running.Go(func() {
		defer close(answered)
		ask(ctx, client, "http://"+r.process.Address()+healthPath)
	})
	defer func() { <-answered }()
	defer cancel()
	limit := r.fn.Silence() + afterwards
	notice, end := time.NewTimer(f.options.SilentAfter), time.NewTimer(limit)
	defer notice.Stop()
	defer end.Stop()
	for noticed := false; ; {
		select {
		case <-answered:
			if noticed {
				f.update(func() { f.clearSilent(u, r) })
			}
			return true
		case <-r.process.Done():
			return false
		case <-notice.C:
			noticed = true
			f.update(func() { f.markSilent(u, r, f.options.SilentAfter, limit) })
		case <-end.C:
			f.update(func() { f.killSilent(u, r, limit) })
			return false
		}
	}
}

// ask returns when there is an answer, whatever it is, or no connection.
func ask(ctx context.Context, client *http.Client, url string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return
	}
	if answer, err := client.Do(request); err == nil {
		_ = answer.Body.Close() // that it came is all
	}
}

// markSilent reports that a replica is silent.
func (f *Functions) markSilent(u *unit, r *replica, since, limit time.Duration) {
	if r.stage != ready {
		return
	}
	r.silent = fmt.Sprintf("%s: %s does not answer since %s: handler %s seems to loop; it is ended and replaced after %s",
		u.position(), r.name, since, u.name.Name, limit)
	f.logLine(u, r.name, process.Rouse, r.silent)
}

// clearSilent reports that it was only slow.
func (f *Functions) clearSilent(u *unit, r *replica) {
	if r.silent == "" {
		return
	}
	r.silent = ""
	f.logLine(u, r.name, process.Rouse, "answers again")
}

// killSilent kills a replica that is silent for too long. One that has to end has its own bound.
func (f *Functions) killSilent(u *unit, r *replica, limit time.Duration) {
	if r.stage != ready {
		return
	}
	r.silent = ""
	r.ended = fmt.Sprintf("%s: handler %s did not answer within %s and was ended: it seems to loop", u.position(), u.name.Name, limit)
	f.running.Go(func() { r.process.Stop(0) })
}

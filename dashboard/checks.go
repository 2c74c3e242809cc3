package dashboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/rouse-run/rouse/dashboard/alerts"
)

// Doctor examines what the home shows, as rouse doctor does.
type Doctor interface {
	// Examine returns findings, the worst anywhere.
	Examine(ctx context.Context, user User) ([]Finding, error)
}

// Watcher watches the alerts of the installation.
type Watcher interface {
	// Alerts returns the alerts that fire and that the user may see, nil where it is not known what fires.
	Alerts(ctx context.Context, user User) *alerts.State
}

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	// Level is LevelGood, LevelWarning or LevelBad.
	Level   string `json:"level"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// examined are the findings of one time.
type examined struct {
	At       time.Time `json:"at"`
	Findings []Finding `json:"findings"`
}

// condition is what the page of health shows.
type condition struct {
	examined
	Alerts *alerts.State `json:"alerts,omitempty"`
}

const (
	// examinedFor is how long a user is shown the same findings, examineTimeout bounds an examination.
	examinedFor    = time.Minute
	examineTimeout = 30 * time.Second
	// maxExaminations bounds the users whose findings are kept, maxFindings those of one.
	maxExaminations = 64
	maxFindings     = 200
)

// examinations keeps what each user was shown, because users have different rights. It is safe for concurrent use.
type examinations struct {
	mu   sync.Mutex
	kept map[string]*examination
}

// examination is that of one user. One request examines, others wait for it.
type examination struct {
	once      chan struct{} // has a token while nobody examines
	namespace string        // that was examined
	result    examined
}

// of returns that of a user.
func (e *examinations) of(user string) *examination {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept == nil {
		e.kept = map[string]*examination{}
	}
	if found := e.kept[user]; found != nil {
		return found
	}
	if len(e.kept) >= maxExaminations {
		clear(e.kept) // they examine again
	}
	found := &examination{once: make(chan struct{}, 1)}
	found.once <- struct{}{}
	e.kept[user] = found
	return found
}

// health answers with the findings of the user, which are a minute old at most, and the alerts that fire.
func (h *Handler) health(w http.ResponseWriter, r *http.Request, user User) error {
	kept := h.examined.of(user.Name)
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-kept.once:
	}
	defer func() { kept.once <- struct{}{} }()
	if kept.namespace != user.Namespace || time.Since(kept.result.At) >= examinedFor {
		ctx, cancel := context.WithTimeout(r.Context(), examineTimeout)
		defer cancel()
		found, err := h.deps.Doctor.Examine(ctx, user)
		switch {
		case r.Context().Err() != nil:
			return r.Context().Err()
		case ctx.Err() != nil:
			return Error{http.StatusServiceUnavailable, "the examination took longer than 30 s: try again, or run rouse doctor"}
		case err != nil:
			return refusal(err)
		}
		kept.namespace, kept.result = user.Namespace, examined{At: time.Now(), Findings: append([]Finding{}, found[:min(len(found), maxFindings)]...)}
		for i := range kept.result.Findings {
			kept.result.Findings[i].Message = bounded(kept.result.Findings[i].Message)
		}
	}
	shown := condition{examined: kept.result}
	if h.deps.Watcher != nil {
		shown.Alerts = h.deps.Watcher.Alerts(r.Context(), user)
	}
	answer(w, http.StatusOK, shown)
	return nil
}

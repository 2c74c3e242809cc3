package clusterhome

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Provide sets what the process provides: to each user what the user's own home has.
func (p *Process) Provide(deps *dashboard.Deps) {
	deps.State, deps.Events, deps.Publisher, deps.Caller = everyone{}, everyone{}, everyone{}, everyone{}
	deps.Lines, deps.DeadLetters = everyonesLines{}, everyonesDeadLetters{}
}

// homeOf returns the home of a user who has logged in.
func homeOf(user dashboard.User) (*Home, error) {
	if found, is := user.Held.(*member); is {
		return found.home, nil
	}
	return nil, dashboard.ErrUnauthenticated
}

// everyone passes each request on to the home of its user.
type everyone struct{}

// Snapshot implements dashboard.State.
func (everyone) Snapshot(ctx context.Context, user dashboard.User) (dashboard.Snapshot, error) {
	home, err := homeOf(user)
	if err != nil {
		return dashboard.Snapshot{}, err
	}
	return home.Snapshot(ctx, user)
}

// Function implements dashboard.State.
func (everyone) Function(ctx context.Context, user dashboard.User, name types.NamespacedName) (dashboard.FunctionDetail, error) {
	home, err := homeOf(user)
	if err != nil {
		return dashboard.FunctionDetail{}, err
	}
	return home.Function(ctx, user, name)
}

// Each implements dashboard.Events.
func (everyone) Each(ctx context.Context, user dashboard.User, query journal.Query, yield func(journal.Record) bool) {
	if home, err := homeOf(user); err == nil {
		home.Each(ctx, user, query, yield)
	}
}

// Follow implements dashboard.Events.
func (everyone) Follow(ctx context.Context, user dashboard.User, query journal.Query, yield func(journal.Record)) {
	if home, err := homeOf(user); err == nil {
		home.Follow(ctx, user, query, yield)
	}
}

// Event implements dashboard.Events.
func (everyone) Event(ctx context.Context, user dashboard.User, source, id string) (json.RawMessage, error) {
	home, err := homeOf(user)
	if err != nil {
		return nil, err
	}
	return home.Event(ctx, user, source, id)
}

// Publish implements dashboard.Publisher.
func (everyone) Publish(ctx context.Context, user dashboard.User, event []byte) error {
	home, err := homeOf(user)
	if err != nil {
		return err
	}
	return home.Publish(ctx, user, event)
}

// Call implements dashboard.Caller.
func (everyone) Call(ctx context.Context, user dashboard.User, name types.NamespacedName, call dashboard.Call) (dashboard.CallAnswer, error) {
	home, err := homeOf(user)
	if err != nil {
		return dashboard.CallAnswer{}, err
	}
	return home.Call(ctx, user, name, call)
}

// everyonesLines passes each request on to the home of its user.
type everyonesLines struct{}

// Follow implements dashboard.Lines.
func (everyonesLines) Follow(ctx context.Context, user dashboard.User, name types.NamespacedName, tail int, handle func(dashboard.Line)) {
	if home, err := homeOf(user); err == nil {
		lines{home}.Follow(ctx, user, name, tail, handle)
	}
}

// everyonesDeadLetters passes each request on to the home of its user.
type everyonesDeadLetters struct{}

// List implements dashboard.DeadLetters.
func (everyonesDeadLetters) List(ctx context.Context, user dashboard.User, query admin.Query) (admin.Page, error) {
	home, err := homeOf(user)
	if err != nil {
		return admin.Page{}, err
	}
	return deadLetters{home}.List(ctx, user, query)
}

// Get implements dashboard.DeadLetters.
func (everyonesDeadLetters) Get(ctx context.Context, user dashboard.User, sequence uint64) (admin.DeadLetterDetail, error) {
	home, err := homeOf(user)
	if err != nil {
		return admin.DeadLetterDetail{}, err
	}
	return deadLetters{home}.Get(ctx, user, sequence)
}

// Redrive implements dashboard.DeadLetters.
func (everyonesDeadLetters) Redrive(ctx context.Context, user dashboard.User, selection admin.Selection) (admin.Redriven, error) {
	home, err := homeOf(user)
	if err != nil {
		return admin.Redriven{}, err
	}
	return deadLetters{home}.Redrive(ctx, user, selection)
}

// Purge implements dashboard.DeadLetters.
func (everyonesDeadLetters) Purge(ctx context.Context, user dashboard.User, selection admin.Selection) (uint64, error) {
	home, err := homeOf(user)
	if err != nil {
		return 0, err
	}
	return deadLetters{home}.Purge(ctx, user, selection)
}

package clusterhome

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Provide sets what the process provides: to each user what the user's own home has.
func (p *Process) Provide(deps *dashboard.Deps) {
	deps.State, deps.Events, deps.Publisher, deps.Caller = everyone{}, everyone{}, everyone{}, everyone{}
	deps.Lines, deps.DeadLetters = everyonesLines{}, everyonesDeadLetters{}
	deps.Manager, deps.Author, deps.Doctor, deps.Watcher = everyone{}, everyone{}, everyone{}, everyone{}
}

// homeOf returns the home of a user who has logged in.
func homeOf(user dashboard.User) (*Home, error) {
	if found, is := user.Held.(*member); is {
		return found.home, nil
	}
	return nil, dashboard.ErrUnauthenticated
}

// from returns what the home of a user answers.
func from[T any](user dashboard.User, ask func(*Home) (T, error)) (answer T, err error) {
	home, err := homeOf(user)
	if err != nil {
		return answer, err
	}
	return ask(home)
}

// everyone passes each request on to the home of its user.
type everyone struct{}

// Snapshot implements dashboard.State.
func (everyone) Snapshot(ctx context.Context, user dashboard.User) (dashboard.Snapshot, error) {
	return from(user, func(h *Home) (dashboard.Snapshot, error) { return h.Snapshot(ctx, user) })
}

// Function implements dashboard.State.
func (everyone) Function(ctx context.Context, user dashboard.User, name types.NamespacedName) (dashboard.FunctionDetail, error) {
	return from(user, func(h *Home) (dashboard.FunctionDetail, error) { return h.Function(ctx, user, name) })
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
	return from(user, func(h *Home) (json.RawMessage, error) { return h.Event(ctx, user, source, id) })
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
	return from(user, func(h *Home) (dashboard.CallAnswer, error) { return h.Call(ctx, user, name, call) })
}

// RollBack implements dashboard.Manager.
func (everyone) RollBack(ctx context.Context, user dashboard.User, function types.NamespacedName, version string) (string, error) {
	return from(user, func(h *Home) (string, error) { return h.RollBack(ctx, user, function, version) })
}

// Pause implements dashboard.Manager.
func (everyone) Pause(ctx context.Context, user dashboard.User, subscription types.NamespacedName, pause bool) (bool, error) {
	return from(user, func(h *Home) (bool, error) { return h.Pause(ctx, user, subscription, pause) })
}

// Written implements dashboard.Author.
func (everyone) Written(ctx context.Context, user dashboard.User, ref dashboard.Ref) (*unstructured.Unstructured, error) {
	return from(user, func(h *Home) (*unstructured.Unstructured, error) { return h.Written(ctx, user, ref) })
}

// Write implements dashboard.Author.
func (everyone) Write(
	ctx context.Context, user dashboard.User, edits []dashboard.Edit, options dashboard.WriteOptions,
) (dashboard.Written, error) {
	return from(user, func(h *Home) (dashboard.Written, error) { return h.Write(ctx, user, edits, options) })
}

// Examine implements dashboard.Doctor.
func (everyone) Examine(ctx context.Context, user dashboard.User) ([]dashboard.Finding, error) {
	return from(user, func(h *Home) ([]dashboard.Finding, error) { return h.Examine(ctx, user) })
}

// everyonesLines passes each request on to the home of its user.
type everyonesLines struct{}

// Follow implements dashboard.Lines.
func (everyonesLines) Follow(ctx context.Context, user dashboard.User, name types.NamespacedName, tail int, handle func(dashboard.Line)) {
	if home, err := homeOf(user); err == nil {
		lines{home}.Follow(ctx, user, name, tail, handle)
	}
}

// FollowBuild implements dashboard.Lines.
func (everyonesLines) FollowBuild(ctx context.Context, user dashboard.User, name types.NamespacedName, tail int, handle func(dashboard.Line)) {
	if home, err := homeOf(user); err == nil {
		lines{home}.FollowBuild(ctx, user, name, tail, handle)
	}
}

// everyonesDeadLetters passes each request on to the home of its user.
type everyonesDeadLetters struct{}

// List implements dashboard.DeadLetters.
func (everyonesDeadLetters) List(ctx context.Context, user dashboard.User, query admin.Query) (admin.Page, error) {
	return from(user, func(h *Home) (admin.Page, error) { return deadLetters{h}.List(ctx, user, query) })
}

// Get implements dashboard.DeadLetters.
func (everyonesDeadLetters) Get(ctx context.Context, user dashboard.User, sequence uint64) (admin.DeadLetterDetail, error) {
	return from(user, func(h *Home) (admin.DeadLetterDetail, error) { return deadLetters{h}.Get(ctx, user, sequence) })
}

// Redrive implements dashboard.DeadLetters.
func (everyonesDeadLetters) Redrive(ctx context.Context, user dashboard.User, selection admin.Selection) (admin.Redriven, error) {
	return from(user, func(h *Home) (admin.Redriven, error) { return deadLetters{h}.Redrive(ctx, user, selection) })
}

// Purge implements dashboard.DeadLetters.
func (everyonesDeadLetters) Purge(ctx context.Context, user dashboard.User, selection admin.Selection) (uint64, error) {
	return from(user, func(h *Home) (uint64, error) { return deadLetters{h}.Purge(ctx, user, selection) })
}

package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/failure"
)

const (
	ownersToken  = "the-owners-token"
	readersToken = "the-readers-token"
)

// fakeHome is a home with one Function and what a test gives it.
type fakeHome struct {
	journal *journal.Journal

	mu        sync.Mutex
	snapshot  Snapshot
	letters   map[uint64]admin.DeadLetterDetail
	redriven  []uint64
	published []string
	called    []string
	lines     []Line
	done      []string // rollbacks, pauses and writes
	written   map[string]*unstructured.Unstructured
	outcome   Written
	findings  []Finding
	examined  int
	asked     int // how often a home was asked for anything
}

func newHome() *fakeHome {
	return &fakeHome{
		journal: journal.New(1000), letters: map[uint64]admin.DeadLetterDetail{}, written: map[string]*unstructured.Unstructured{},
		snapshot: Snapshot{
			Functions: []Function{{Namespace: "shop", Name: "pricing", Phase: "asleep", Max: 3}},
			Subscriptions: []Subscription{
				{Namespace: "shop", Name: "first", Source: "store", Types: []string{"order.received"}, Sink: "shop/pricing", Function: true},
				{Namespace: "shop", Name: "second", Sink: "shop/pricing", Function: true},
				{Namespace: "shop", Name: "other", Sink: "shop/else", Function: true},
			},
		},
	}
}

// handler returns a handler for the home.
func (f *fakeHome) handler(t *testing.T) *Handler {
	t.Helper()
	h, err := New(Deps{
		About:  About{Home: "local", Name: "/shop", Version: "devel", LogIn: "open the address that rouse dev has printed"},
		Access: f, State: f, Events: f, Lines: fakeLines{f}, DeadLetters: fakeLetters{f}, Publisher: f, Caller: f, Manager: f, Author: f, Doctor: f,
		Log: logr.Discard(),
	})
	require.NoError(t, err)
	return h
}

func (f *fakeHome) Authenticate(r *http.Request) (User, error) {
	switch {
	case daemon.HasBearer(r, ownersToken):
		return User{Name: "owner", Changes: true}, nil
	case daemon.HasBearer(r, readersToken):
		return User{Name: "reader"}, nil
	}
	return User{}, ErrUnauthenticated
}

func (f *fakeHome) Snapshot(context.Context, User) (Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.snapshot, nil
}

// change changes the state.
func (f *fakeHome) change(change func(*Snapshot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.snapshot
	next.Functions = append([]Function(nil), next.Functions...)
	change(&next)
	f.snapshot = next
}

func (f *fakeHome) Function(_ context.Context, _ User, name types.NamespacedName) (FunctionDetail, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if name.String() != "shop/pricing" {
		return FunctionDetail{}, ErrNotFound
	}
	return FunctionDetail{Function: f.snapshot.Functions[0], Environment: []string{"API_KEY"}}, nil
}

func (f *fakeHome) Each(_ context.Context, _ User, query journal.Query, yield func(journal.Record) bool) {
	f.journal.Each(query, yield)
}

func (f *fakeHome) Follow(ctx context.Context, _ User, query journal.Query, yield func(journal.Record)) {
	f.journal.Follow(ctx, query, yield)
}

func (f *fakeHome) Event(_ context.Context, _ User, _, id string) (json.RawMessage, error) {
	if id != "kept" {
		return nil, ErrNotFound
	}
	return json.RawMessage(`{"id":"kept","data":{"net":900}}`), nil
}

func (f *fakeHome) Publish(_ context.Context, _ User, event []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published = append(f.published, string(event))
	return nil
}

func (f *fakeHome) Call(_ context.Context, _ User, _ types.NamespacedName, call Call) (CallAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.called = append(f.called, call.Method+" "+call.Path)
	return CallAnswer{Status: http.StatusTeapot, Body: call.Body}, nil
}

func (f *fakeHome) RollBack(_ context.Context, user User, function types.NamespacedName, version string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if version == "absent" {
		return "", errors.New("there is no version absent; there are b, a, the newest first")
	}
	f.done = append(f.done, user.Name+" rolls "+function.String()+" back to "+version)
	return cmp.Or(version, "newest"), nil
}

func (f *fakeHome) Pause(_ context.Context, _ User, subscription types.NamespacedName, pause bool) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, fmt.Sprintf("%s paused %v", subscription, pause))
	return subscription.Name != "second", nil
}

func (f *fakeHome) Written(_ context.Context, _ User, ref Ref) (*unstructured.Unstructured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.written[ref.Kind+" "+ref.String()], nil
}

func (f *fakeHome) Write(_ context.Context, _ User, edits []Edit, options WriteOptions) (Written, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !options.Dry {
		f.done = append(f.done, "wrote "+strings.Join(names(edits), " and "))
	}
	return f.outcome, nil
}

func (f *fakeHome) Examine(context.Context, User) ([]Finding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	f.examined++
	return f.findings, nil
}

type fakeLines struct{ *fakeHome }

func (f fakeLines) Follow(ctx context.Context, _ User, _ types.NamespacedName, _ int, handle func(Line)) {
	for _, line := range f.lines {
		handle(line)
	}
	<-ctx.Done()
}

func (f fakeLines) FollowBuild(ctx context.Context, user User, function types.NamespacedName, tail int, handle func(Line)) {
	handle(Line{Stream: "build", Text: "a line of the build"})
	f.Follow(ctx, user, function, tail, func(Line) {})
}

type fakeLetters struct{ *fakeHome }

func (f fakeLetters) List(context.Context, User, admin.Query) (admin.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page admin.Page
	for _, letter := range f.letters {
		page.DeadLetters = append(page.DeadLetters, letter.DeadLetter)
	}
	return page, nil
}

func (f fakeLetters) Get(_ context.Context, _ User, sequence uint64) (admin.DeadLetterDetail, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	letter, there := f.letters[sequence]
	if !there {
		return letter, failure.ErrDeadLetterNotFound
	}
	return letter, nil
}

func (f fakeLetters) Redrive(_ context.Context, _ User, selection admin.Selection) (admin.Redriven, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := f.letters[selection.Sequence]; !there {
		return admin.Redriven{}, failure.ErrDeadLetterNotFound
	}
	delete(f.letters, selection.Sequence)
	f.redriven = append(f.redriven, selection.Sequence)
	return admin.Redriven{Redriven: 1}, nil
}

func (f fakeLetters) Purge(_ context.Context, _ User, selection admin.Selection) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := f.letters[selection.Sequence]; !there {
		return 0, nil
	}
	delete(f.letters, selection.Sequence)
	return 1, nil
}

// ask sends a request of the owner, with changes.
func ask(t *testing.T, h http.Handler, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8060"+path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8060"+path, http.NoBody)
	}
	r.Header.Set("Authorization", "Bearer "+ownersToken)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

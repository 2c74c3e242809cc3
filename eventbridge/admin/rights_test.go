package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/failure"
)

// fakeAccess has one user, and records the requested rights.
type fakeAccess struct {
	unknown error // for any other user
	denied  error

	mu    sync.Mutex
	asked []identity.Right
}

func (a *fakeAccess) Authenticate(*http.Request) (identity.User, error) {
	return identity.User{Name: "alice"}, a.unknown
}

func (a *fakeAccess) Authorize(_ context.Context, user identity.User, right identity.Right) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, right)
	if user.Name != "alice" {
		return errors.New("another user")
	}
	return a.denied
}

func (a *fakeAccess) deny(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied = err
}

func TestEachRequestNeedsItsRightInTheNamespaceThatItNames(t *testing.T) {
	t.Parallel()
	const redrive, purge = "/v1/deadletters/redrive", "/v1/deadletters/purge"
	for _, tc := range []struct {
		method, path, body string
		want               identity.Right
	}{
		{"GET", "/v1/subscriptions", "", identity.ListSubscriptions("")},
		{"GET", "/v1/subscriptions?namespace=shop", "", identity.ListSubscriptions("shop")},
		{"GET", "/v1/kyma", "", identity.ListSubscriptions("")},
		{"GET", "/v1/wakes?namespace=shop", "", identity.ListSubscriptions("shop")},
		{"GET", "/v1/deadletters", "", identity.ListDeadLetters("")},
		{"GET", "/v1/deadletters?reason=Unknown", "", identity.ListDeadLetters("")},
		{"GET", "/v1/deadletters?namespace=shop&subscription=orders", "", identity.ListDeadLetters("shop")},
		{"GET", "/v1/deadletters/5", "", identity.GetDeadLetter("")},
		{"GET", "/v1/deadletters/5?namespace=shop", "", identity.GetDeadLetter("shop")},
		{"POST", redrive, `{"all":true}`, identity.Redrive("")},
		{"POST", redrive, `{"sequence":5}`, identity.Redrive("")},
		{"POST", redrive, `{"sequence":5,"namespace":"shop"}`, identity.Redrive("shop")},
		{"POST", redrive, `{"namespace":"shop","all":true}`, identity.Redrive("shop")},
		{"POST", purge, `{"all":true}`, identity.Purge("")},
		{"POST", purge, `{"reason":"Unknown","all":true}`, identity.Purge("")},
		{"POST", purge, `{"namespace":"shop","subscription":"orders"}`, identity.Purge("shop")},
		{"POST", "/v1/subscriptions/retry", `{"namespace":"shop","subscription":"orders"}`, identity.Redrive("shop")},
		{"GET", "/v1/events", "", identity.ListEvents("")},
		{"GET", "/v1/events?namespace=shop", "", identity.ListEvents("shop")},
		{"GET", "/v1/events?follow=true", "", identity.WatchEvents("")},
		{"GET", "/v1/events?follow=true&namespace=shop", "", identity.WatchEvents("shop")},
	} {
		name := tc.method + " " + tc.path + " " + tc.body
		store := &fakeStore{deadLetter: storedDeadLetter()}
		access := &fakeAccess{denied: identity.ForbiddenError{User: "alice", Right: tc.want}}
		answered := ask(New(Deps{Store: store, Journal: journal.New(1), Wakes: journal.NewWakes(), Access: access, Log: logr.Discard()}), tc.method, tc.path, tc.body)
		require.Equal(t, []identity.Right{tc.want}, access.asked, name)
		require.Equal(t, http.StatusForbidden, answered.Code, name)
		var got errorBody
		require.NoError(t, json.Unmarshal(answered.Body.Bytes(), &got), name)
		require.Contains(t, got.Error, "alice may not "+tc.want.String()+": ", name)
		require.Nil(t, store.selection, name)
		require.Zero(t, store.query, name)
	}
}

func TestNothingIsAskedBeforeTheUserIsKnown(t *testing.T) {
	t.Parallel()
	for unknown, want := range map[error]int{
		identity.ErrUnauthenticated: http.StatusUnauthorized,
		identity.ErrBusy:            http.StatusServiceUnavailable,
		identity.ErrRightUndecided:  http.StatusServiceUnavailable,
	} {
		access, store := &fakeAccess{unknown: unknown}, &fakeStore{}
		h := New(Deps{Store: store, Journal: journal.New(1), Wakes: journal.NewWakes(), Access: access, Log: logr.Discard()})
		for _, path := range []string{"/v1/deadletters", "/v1/events", "/nowhere"} {
			answered := ask(h, "GET", path, "")
			require.Equal(t, want, answered.Code)
			require.Contains(t, answered.Body.String(), unknown.Error())
		}
		require.Empty(t, access.asked)
	}
	store := &fakeStore{}
	answered := ask(New(Deps{Store: store, Wakes: journal.NewWakes(), Access: &fakeAccess{denied: identity.ErrRightUndecided}, Log: logr.Discard()}), "POST", "/v1/deadletters/purge", `{"all":true}`)
	require.Equal(t, http.StatusServiceUnavailable, answered.Code)
	require.Nil(t, store.selection, "who may do that is not known")
}

// A sequence must not reveal whose dead letter it is.
func TestADeadLetterOfAnotherNamespaceIsNotFound(t *testing.T) {
	t.Parallel()
	h := New(Deps{Store: &fakeStore{deadLetter: storedDeadLetter()}, Wakes: journal.NewWakes(), Access: &fakeAccess{}, Log: logr.Discard()})
	require.Equal(t, http.StatusOK, ask(h, "GET", "/v1/deadletters/5?namespace=shop", "").Code)
	other := ask(h, "GET", "/v1/deadletters/5?namespace=mine", "")
	missing := ask(New(Deps{Store: &fakeStore{err: failure.ErrDeadLetterNotFound}, Wakes: journal.NewWakes(), Access: &fakeAccess{}, Log: logr.Discard()}), "GET", "/v1/deadletters/6?namespace=mine", "")
	require.Equal(t, http.StatusNotFound, other.Code)
	require.Equal(t, missing.Body.String(), other.Body.String())
}

func TestSubscriptionsAreThoseOfTheNamespace(t *testing.T) {
	t.Parallel()
	h := New(Deps{Store: &fakeStore{}, Wakes: journal.NewWakes(), Access: &fakeAccess{}, Log: logr.Discard()})
	require.Contains(t, ask(h, "GET", "/v1/subscriptions?namespace=shop", "").Body.String(), `"name":"orders"`)
	require.JSONEq(t, `{"subscriptions":[]}`, ask(h, "GET", "/v1/subscriptions?namespace=mine", "").Body.String())
	for path, want := range map[string]string{
		"/v1/subscriptions?namespce=shop": `there is no parameter \"namespce\": use namespace`,
		"/v1/subscriptions?namespace=*":   "namespace: not a valid name of a namespace",
		"/v1/deadletters/5?limit=1":       `there is no parameter \"limit\": use namespace`,
	} {
		answered := ask(h, "GET", path, "")
		require.Equal(t, http.StatusBadRequest, answered.Code, path)
		require.Contains(t, answered.Body.String(), want, path)
	}
}

func TestUnauthorizedRequestsTakeNoAdminSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &busyStore{end: make(chan struct{})}
		access := &fakeAccess{}
		h := New(Deps{Store: store, Wakes: journal.NewWakes(), Access: access, Log: logr.Discard()})
		var all sync.WaitGroup
		for range readersAtATime {
			all.Go(func() { ask(h, "GET", "/v1/deadletters", "") })
		}
		synctest.Wait()
		access.deny(identity.ForbiddenError{User: "alice", Right: identity.ListDeadLetters("")})
		began := time.Now()
		require.Equal(t, http.StatusForbidden, ask(h, "GET", "/v1/deadletters", "").Code)
		require.Zero(t, time.Since(began), "it has waited for a slot")
		close(store.end)
		all.Wait()
	})
}

func TestRedriveAndPurgeAreLoggedWithTheirUser(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v1/deadletters/redrive": `"msg"="dead letters redriven" "user"="alice" "namespace"="shop" "subscription"="orders" "reason"="Unknown" "sequence"=5 "redriven"=3`,
		"/v1/deadletters/purge":   `"msg"="dead letters purged" "user"="alice" "namespace"="shop" "subscription"="orders" "reason"="Unknown" "sequence"=5 "purged"=4`,
	} {
		for _, failed := range []error{nil, failure.ErrNotConnected} {
			var logged strings.Builder
			log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
			ask(New(Deps{Store: &fakeStore{err: failed}, Wakes: journal.NewWakes(), Access: &fakeAccess{}, Log: log}), "POST", path,
				`{"namespace":"shop","subscription":"orders","reason":"Unknown","sequence":5}`)
			require.Contains(t, logged.String(), want)
		}
	}
}

func TestAFollowerLosesWhatItFollowsWithItsRight(t *testing.T) {
	t.Parallel()
	forbidden := identity.ForbiddenError{User: "alice", Right: identity.WatchEvents("shop")}
	for name, tc := range map[string]struct {
		denied error
		after  time.Duration
		lasts  time.Duration
	}{
		"a right that is taken away":      {forbidden, 3 * followAgain / 2, 2 * followAgain},
		"an API server that is away":      {identity.ErrRightUndecided, 3 * followAgain / 2, 3 * followAgain},
		"a token that may be over by now": {nil, 0, followFor},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				access := &fakeAccess{}
				h := New(Deps{Store: &fakeStore{}, Journal: journal.New(10), Wakes: journal.NewWakes(), Access: access, Log: logr.Discard()})
				began := time.Now()
				ended := make(chan *httptest.ResponseRecorder)
				go func() { ended <- ask(h, "GET", "/v1/events?follow=true&namespace=shop", "") }()
				time.Sleep(tc.after)
				access.deny(tc.denied)
				require.Equal(t, http.StatusOK, (<-ended).Code)
				require.Equal(t, tc.lasts, time.Since(began))
			})
		})
	}
}

func TestOneFailedCheckEndsNoFollower(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		access := &fakeAccess{}
		h := New(Deps{Store: &fakeStore{}, Wakes: journal.NewWakes(), Access: access, Log: logr.Discard()})
		ctx, end := h.whileAllowed(t.Context(), identity.User{Name: "alice"}, identity.WatchEvents("shop"))
		defer end()
		for range 3 {
			access.deny(identity.ErrRightUndecided)
			time.Sleep(followAgain)
			synctest.Wait()
			access.deny(nil)
			time.Sleep(followAgain)
			synctest.Wait()
			require.NoError(t, ctx.Err())
		}
	})
}

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/skew"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "correct-horse"

// fakeStore notes what it is asked for and answers with err.
type fakeStore struct {
	query      Query
	selection  *Selection
	data       string
	deadLetter DeadLetterDetail
	err        error
	wait       bool // until the context ends
}

func (s *fakeStore) List(_ context.Context, query Query) (Page, error) {
	s.query = query
	return Page{DeadLetters: []DeadLetter{s.deadLetter.DeadLetter}, Next: 7}, s.err
}

func (s *fakeStore) Kyma(context.Context) (Kyma, error) {
	return Kyma{Stream: KymaStream{Name: "sap"}, Consumers: []KymaConsumer{{Name: "c", Description: "shop/orders/kyma.a.b", Pending: 5}}}, s.err
}

func (s *fakeStore) Get(context.Context, uint64) (DeadLetterDetail, error) {
	return s.deadLetter, s.err
}

func (s *fakeStore) Redrive(ctx context.Context, selection Selection) (Redriven, error) {
	s.selection = &selection
	if s.wait {
		<-ctx.Done()
		return Redriven{Redriven: 1}, ctx.Err()
	}
	return Redriven{Redriven: 3, Failed: 1, Remaining: 2, Problems: []string{"p"}}, s.err
}

func (s *fakeStore) RedriveEdited(_ context.Context, selection Selection, data []byte) (Redriven, error) {
	s.selection, s.data = &selection, string(data)
	return Redriven{Redriven: 1}, s.err
}

func (s *fakeStore) Purge(_ context.Context, selection Selection) (uint64, error) {
	s.selection = &selection
	return 4, s.err
}

func (s *fakeStore) RetryNow(_ context.Context, subscription types.NamespacedName) (Retried, error) {
	s.selection = &Selection{Namespace: subscription.Namespace, Subscription: subscription.Name}
	return Retried{Retried: 2, Remaining: 1}, s.err
}

func (s *fakeStore) Subscriptions(context.Context) ([]Subscription, error) {
	if s.err != nil {
		return nil, s.err
	}
	return []Subscription{{Namespace: "shop", Name: "orders", Consumer: true, Backlog: 5, DeadLetters: 1}}, nil
}

func storedDeadLetter() DeadLetterDetail {
	published := time.Unix(1, 0).UTC()
	return DeadLetterDetail{
		DeadLetter: DeadLetter{
			Sequence: 5, Namespace: "shop", Subscription: "orders", Reason: "SinkRejected", Message: "sink refused the event", Attempts: 2,
			Status: 400, Excerpt: "<no>", Time: time.Unix(2, 0).UTC(), Published: &published, Subject: "kyma.shop.order.v1",
			ID: "1", Source: "shop", Type: "order.v1",
		},
		Event: []byte(`{"id": "1", "data": 1.50}`),
	}
}

func newHandler(t *testing.T, store Store, log logr.Logger) *Handler {
	t.Helper()
	return New(Deps{Store: store, Wakes: journal.NewWakes(), Access: identity.Token(token), Log: log})
}

func ask(h http.Handler, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "http://admin"+path, strings.NewReader(body))
	request.RemoteAddr = "127.0.0.1:1234"
	request.Header.Set("Authorization", "Bearer "+token)
	for _, c := range change {
		c(request)
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	return recorder
}

func TestEachRouteAnswers(t *testing.T) {
	t.Parallel()
	const summary = `"sequence":5,"namespace":"shop","subscription":"orders","reason":"SinkRejected","message":"sink refused the event","attempts":2,"status":400,` +
		`"excerpt":"<no>","time":"1970-01-01T00:00:02Z","published":"1970-01-01T00:00:01Z","subject":"kyma.shop.order.v1",` +
		`"id":"1","source":"shop","type":"order.v1"`
	for name, tc := range map[string]struct{ method, path, body, want string }{
		"a list": {"GET", "/v1/deadletters", "", `{"deadletters":[{` + summary + `}],"next":7}`},
		"one":    {"GET", "/v1/deadletters/5", "", `{` + summary + `,"event":{"id":"1","data":1.50}}`},
		"a redrive": {
			"POST", "/v1/deadletters/redrive", `{"all":true}`, `{"redriven":3,"failed":1,"remaining":2,"problems":["p"]}`,
		},
		"a purge": {"POST", "/v1/deadletters/purge", `{"sequence":5}`, `{"purged":4}`},
		"a retry": {
			"POST", "/v1/subscriptions/retry", `{"namespace":"shop","subscription":"orders"}`, `{"retried":2,"failed":0,"remaining":1}`,
		},
		"the Subscriptions": {
			"GET", "/v1/subscriptions", "",
			`{"subscriptions":[{"namespace":"shop","name":"orders","consumer":true,"backlog":5,"ackPending":0,"waitingRetries":0,"deadLetters":1}]}`,
		},
		"what Kyma has left": {
			"GET", "/v1/kyma", "",
			`{"stream":{"name":"sap","replicas":0,"storage":"","maxBytes":0,"maxMsgsPerSubject":0,"duplicateWindow":"","retention":"","discard":"",` +
				`"dropsOldest":false,"messages":0,"bytes":0},` +
				`"consumers":[{"name":"c","description":"shop/orders/kyma.a.b","bound":false,"pending":5,"ackPending":0,"settled":0}]}`,
		},
	} {
		answered := ask(newHandler(t, &fakeStore{deadLetter: storedDeadLetter()}, logr.Discard()), tc.method, tc.path, tc.body)
		require.Equal(t, http.StatusOK, answered.Code, name)
		require.Equal(t, tc.want+"\n", answered.Body.String(), name)
		require.Equal(t, "application/json", answered.Header().Get("Content-Type"), name)
	}
}

func TestADeadLetterThatIsNoEventIsShownAsBytes(t *testing.T) {
	t.Parallel()
	answered := ask(newHandler(t, &fakeStore{deadLetter: DeadLetterDetail{Body: []byte{0xff, 0}}}, logr.Discard()), "GET", "/v1/deadletters/5", "")
	var got map[string]any
	require.NoError(t, json.Unmarshal(answered.Body.Bytes(), &got))
	require.Equal(t, "/wA=", got["body"])
	require.NotContains(t, got, "event")
}

func TestListingDeadLettersUsesItsParameters(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	h := newHandler(t, store, logr.Discard())
	require.Equal(t, 200, ask(h, "GET", "/v1/deadletters?namespace=shop&subscription=orders&reason=AttemptsExhausted&after=6&limit=20", "").Code)
	require.Equal(t, Query{
		Selection: Selection{Namespace: "shop", Subscription: "orders", Reason: failure.AttemptsExhausted}, After: 6, Limit: 20,
	}, store.query)
	require.Equal(t, 200, ask(h, "GET", "/v1/deadletters?limit=99999", "").Code)
	require.Equal(t, maxLimit, store.query.Limit)
	require.Equal(t, 200, ask(h, "GET", "/v1/deadletters", "").Code)
	require.Equal(t, defaultLimit, store.query.Limit)
}

func TestSelectionFollowsTheRequestBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Selection{
		`{"all":true}`:         {},
		`{"namespace":"shop"}`: {Namespace: "shop"},
		`{"namespace":"shop","subscription":"orders","all":true}`:             {Namespace: "shop", Subscription: "orders"},
		`{"namespace":"shop","subscription":"orders","reason":"NotSendable"}`: {Namespace: "shop", Subscription: "orders", Reason: failure.NotSendable},
		`{"reason":"Unknown","all":true}`:                                     {Reason: failure.Unknown},
		`{"sequence":18446744073709551615}`:                                   {Sequence: 1<<64 - 1},
	} {
		for _, path := range []string{"/v1/deadletters/redrive", "/v1/deadletters/purge"} {
			store := &fakeStore{}
			require.Equal(t, 200, ask(newHandler(t, store, logr.Discard()), "POST", path, body).Code, body)
			require.Equal(t, &want, store.selection, body)
		}
	}
}

func TestADeadLetterIsRedrivenWithOtherData(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	answered := ask(newHandler(t, store, logr.Discard()), "POST", "/v1/deadletters/17/redrive", `{"namespace":"shop","data":{"total": 1.50}}`)
	require.Equal(t, 200, answered.Code, answered.Body)
	require.JSONEq(t, `{"redriven":1,"failed":0,"remaining":0}`, answered.Body.String())
	require.Equal(t, &Selection{Namespace: "shop", Sequence: 17}, store.selection)
	require.Equal(t, `{"total": 1.50}`, store.data, "to the byte")
}

func TestBadRequestsAreRefusedAndDoNothing(t *testing.T) {
	t.Parallel()
	const redrive = "/v1/deadletters/redrive"
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"no selection":                   {"POST", redrive, `{}`, 400, `nothing is selected: add`},
		"a reason alone":                 {"POST", redrive, `{"reason":"r"}`, 400, `nothing is selected: add`},
		"all that is not":                {"POST", "/v1/deadletters/purge", `{"all":false}`, 400, `nothing is selected: add`},
		"one and all":                    {"POST", redrive, `{"all":true,"sequence":1}`, 400, "contradict"},
		"a Subscription of no namespace": {"POST", redrive, `{"all":true,"subscription":"a"}`, 400, "its namespace is missing"},
		"a reason that there is not":     {"POST", redrive, `{"all":true,"reason":"sink refused the event"}`, 400, "use one of SinkRejected, "},
		"such a reason in a list":        {"GET", "/v1/deadletters?reason=x", "", 400, "reason: "},
		"a wildcard":                     {"POST", redrive, `{"namespace":"*"}`, 400, "namespace:"},
		"no body":                        {"POST", redrive, ``, 400, "must be a JSON object"},
		"no object":                      {"POST", redrive, `[]`, 400, "must be a JSON object"},
		"an invalid number":              {"POST", redrive, `{"sequence":-1}`, 400, "must be a JSON object"},
		"a misspelt name":                {"POST", redrive, `{"namespce":"shop"}`, 400, "namespce"},
		"two objects":                    {"POST", redrive, `{"all":true}{}`, 400, "more than one object"},
		"a body that is too large":       {"POST", redrive, `{"reason":"` + strings.Repeat("x", maxBody) + `"}`, 413, "must not be larger"},
		"a retry of no Subscription":     {"POST", "/v1/subscriptions/retry", `{"namespace":"shop"}`, 400, "subscription: it is missing"},
		"a retry of no namespace":        {"POST", "/v1/subscriptions/retry", `{"subscription":"orders"}`, 400, "its namespace is missing"},
		"a retry of a wildcard":          {"POST", "/v1/subscriptions/retry", `{"namespace":"shop","subscription":">"}`, 400, "subscription:"},
		"no other data":                  {"POST", "/v1/deadletters/17/redrive", `{"namespace":"shop"}`, 400, "data: it is missing"},
		"other data of none":             {"POST", "/v1/deadletters/0/redrive", `{"data":1}`, 400, "sequence:"},
		"other data of no number":        {"POST", "/v1/deadletters/x/redrive", `{"data":1}`, 400, "sequence:"},
		"other data of a wildcard":       {"POST", "/v1/deadletters/1/redrive", `{"namespace":">","data":1}`, 400, "namespace:"},
		"other data that are too large":  {"POST", "/v1/deadletters/1/redrive", `{"data":"` + strings.Repeat("x", maxEdited) + `"}`, 413, "must not be larger"},
		"a limit of nothing":             {"GET", "/v1/deadletters?limit=0", "", 400, "limit:"},
		"a limit that is no number":      {"GET", "/v1/deadletters?limit=x", "", 400, "limit:"},
		"a position that is no number":   {"GET", "/v1/deadletters?after=-1", "", 400, "after:"},
		"a misspelt parameter":           {"GET", "/v1/deadletters?reasn=x", "", 400, "reasn"},
		"a wildcard in a list":           {"GET", "/v1/deadletters?namespace=%3E", "", 400, "namespace:"},
		"a sequence that is no number":   {"GET", "/v1/deadletters/first", "", 400, "sequence:"},
		"another method":                 {"GET", redrive, "", 405, "use POST"},
		"another method for a list":      {"DELETE", "/v1/deadletters", "", 405, "use GET"},
		"another path":                   {"GET", "/v1/letters", "", 404, "no such path"},
	} {
		store := &fakeStore{}
		answered := ask(newHandler(t, store, logr.Discard()), tc.method, tc.path, tc.body)
		require.Equal(t, tc.status, answered.Code, name)
		var got errorBody
		require.NoError(t, json.Unmarshal(answered.Body.Bytes(), &got), name)
		require.Contains(t, got.Error, tc.want, name)
		require.Nil(t, store.selection, name)
	}
}

func TestStoreErrorsMapToHTTPStatuses(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
	for err, want := range map[error]int{
		failure.ErrDeadLetterNotFound: 404,
		failure.ErrDataNotEditable:    409,
		failure.ErrConsumerNotFound:   409,
		failure.ErrNotConnected:       503,
		failure.ErrNoStream:           503,
		failure.ErrTimeout:            503,
		failure.ErrBusy:               503,
		failure.ErrStorageFull:        503,
		context.Canceled:              503,
		errors.New("secret detail"):   500,
	} {
		h := newHandler(t, &fakeStore{err: fmt.Errorf("redrive: %w", err)}, log)
		for path, body := range map[string]string{
			"/v1/deadletters": "", "/v1/deadletters/1": "", "/v1/subscriptions": "",
			"/v1/deadletters/redrive": `{"all":true}`, "/v1/deadletters/purge": `{"all":true}`,
		} {
			method := http.MethodGet
			if body != "" {
				method = http.MethodPost
			}
			answered := ask(h, method, path, body)
			require.Equal(t, want, answered.Code, "%s: %v", path, err)
			var got map[string]any
			require.NoError(t, json.Unmarshal(answered.Body.Bytes(), &got))
			require.NotEmpty(t, got["error"])
			require.NotContains(t, got["error"], "secret detail")
			if strings.HasSuffix(path, "redrive") {
				require.EqualValues(t, 3, got["redriven"], "the answer lacks what was done")
			}
			if strings.HasSuffix(path, "purge") {
				require.EqualValues(t, 4, got["purged"], "the answer lacks what was done")
			}
		}
	}
	require.Contains(t, logged.String(), "secret detail")
}

func TestAdminAPINeedsTheBearerToken(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{Verbosity: 10})
	for name, tc := range map[string]struct {
		header string
		status int
	}{
		"no header":           {"", 401},
		"another token":       {"Bearer wrong", 401},
		"a prefix of it":      {"Bearer " + token[:5], 401},
		"more than it":        {"Bearer " + token + "x", 401},
		"an empty token":      {"Bearer ", 401},
		"another scheme":      {"Basic " + token, 401},
		"the token alone":     {token, 401},
		"the token":           {"Bearer " + token, 200},
		"a scheme in capital": {"BEARER " + token, 200},
	} {
		store := &fakeStore{}
		h := newHandler(t, store, log)
		for _, path := range []string{"/v1/deadletters/redrive", "/nowhere"} {
			answered := ask(h, "POST", path, `{"all":true}`, func(r *http.Request) { r.Header.Set("Authorization", tc.header) })
			if tc.status == 200 && path == "/nowhere" {
				require.Equal(t, 404, answered.Code, name)
				continue
			}
			require.Equal(t, tc.status, answered.Code, name)
			require.Equal(t, tc.status == 401, answered.Header().Get("WWW-Authenticate") != "", name)
			require.NotContains(t, answered.Body.String(), token)
		}
		require.Equal(t, tc.status == 200, store.selection != nil, name)
	}
	require.NotContains(t, logged.String(), token)
}

func TestARedriveEndsWithItsProcessAndReportsItsProgress(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	h := daemon.CancelHandler(ctx, newHandler(t, &fakeStore{wait: true}, logr.Discard()))
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- ask(h, "POST", "/v1/deadletters/redrive", `{"all":true}`) }()
	stop()
	got := <-answered
	require.Equal(t, 503, got.Code)
	require.Contains(t, got.Body.String(), `"redriven":1`)
}

// Each may hold as much as a batch of the largest dead letters.
func TestAdminRequestsWaitForAFreeSlot(t *testing.T) {
	t.Parallel()
	for path, tc := range map[string]struct {
		method  string
		atATime int
	}{
		"/v1/deadletters/redrive": {http.MethodPost, changersAtATime},
		"/v1/deadletters/purge":   {http.MethodPost, changersAtATime},
		"/v1/deadletters":         {http.MethodGet, readersAtATime},
		"/v1/deadletters/7":       {http.MethodGet, readersAtATime},
		"/v1/subscriptions":       {http.MethodGet, readersAtATime},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &busyStore{end: make(chan struct{})}
				handler := newHandler(t, store, logr.Discard())
				var all sync.WaitGroup
				var refused atomic.Int32
				for i := range 3 * tc.atATime {
					all.Go(func() {
						if askAbout(handler, tc.method, path, "ns-"+strconv.Itoa(i)).Code == http.StatusServiceUnavailable {
							refused.Add(1)
						}
					})
				}
				synctest.Wait()
				require.EqualValues(t, tc.atATime, store.busy.Load())
				time.Sleep(slotWait)
				synctest.Wait()
				require.EqualValues(t, 2*tc.atATime, refused.Load())
				close(store.end)
				all.Wait()
				require.NotEqual(t, http.StatusServiceUnavailable, askAbout(handler, tc.method, path, "shop").Code, "the slots are free again")
			})
		})
	}
}

func TestAdminSlotsAreSharedByNamespace(t *testing.T) {
	t.Parallel()
	for path, method := range map[string]string{
		"/v1/deadletters/redrive": http.MethodPost, "/v1/deadletters": http.MethodGet, "/v1/subscriptions": http.MethodGet,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &busyStore{end: make(chan struct{})}
				handler := newHandler(t, store, logr.Discard())
				var hostile, quiet sync.WaitGroup
				for range 20 {
					hostile.Go(func() { askAbout(handler, method, path, "red") })
				}
				synctest.Wait()
				before := store.busy.Load()
				var code atomic.Int32
				quiet.Go(func() { code.Store(int32(askAbout(handler, method, path, "shop").Code)) })
				synctest.Wait()
				require.Equal(t, before+1, store.busy.Load(), "the quiet namespace does not wait")
				close(store.end)
				quiet.Wait()
				hostile.Wait()
				require.NotEqualValues(t, http.StatusServiceUnavailable, code.Load())
			})
		})
	}
}

func TestALongRedriveEndsItsTurnWhenAnotherNamespaceWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		handler := newHandler(t, store, logr.Discard())
		const redrive = "/v1/deadletters/redrive"
		hostile := make(chan *httptest.ResponseRecorder, 2)
		for _, namespace := range []string{"red", "blue"} {
			go func() { hostile <- askAbout(handler, http.MethodPost, redrive, namespace) }()
		}
		time.Sleep(10 * slotTurn)
		require.Empty(t, hostile, "no other namespace waits")
		go func() { hostile <- askAbout(handler, http.MethodPost, redrive, "shop") }()
		time.Sleep(slotTurn)
		synctest.Wait()
		require.NotEmpty(t, hostile)
		stopped := <-hostile
		require.Equal(t, http.StatusServiceUnavailable, stopped.Code)
		require.Contains(t, stopped.Body.String(), `"redriven":1`)
		require.Contains(t, stopped.Body.String(), "requests for other namespaces wait, so this one was stopped after 5s: ask again for the rest")
		time.Sleep(runTimeout + slotTurn)
	})
}

func TestFollowersLeaveConnectionsToOtherNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		following := &endlessJournal{}
		handler := New(Deps{Store: &fakeStore{}, Journal: following, Wakes: journal.NewWakes(), Access: identity.Token(token), Log: logr.Discard()})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		follow := func(namespace string) {
			all.Go(func() {
				ask(handler, http.MethodGet, "/v1/events?follow=true&namespace="+namespace, "", func(r *http.Request) { *r = *r.WithContext(ctx) })
			})
			synctest.Wait()
		}
		for range followersAtATime {
			follow("red")
		}
		require.EqualValues(t, followersAtATime/2, following.readers.Load())
		follow("shop")
		require.EqualValues(t, followersAtATime/2+1, following.readers.Load(), "another namespace does not wait")
		stop()
		all.Wait()
	})
}

// askAbout requests the dead letters of a namespace.
func askAbout(h http.Handler, method, path, namespace string) *httptest.ResponseRecorder {
	if method == http.MethodPost {
		return ask(h, method, path, `{"namespace":"`+namespace+`","subscription":"orders"}`)
	}
	return ask(h, method, path+"?namespace="+namespace, "")
}

// endlessJournal has no records.
type endlessJournal struct{ readers atomic.Int32 }

func (*endlessJournal) Each(journal.Query, func(journal.Record) bool) {}

func (j *endlessJournal) Follow(ctx context.Context, _ journal.Query, _ func(journal.Record)) {
	j.readers.Add(1)
	<-ctx.Done()
}

// slowStore redrives until it is stopped.
type slowStore struct{ busyStore }

func (*slowStore) Redrive(ctx context.Context, _ Selection) (Redriven, error) {
	<-ctx.Done()
	return Redriven{Redriven: 1}, ctx.Err()
}

// busyStore answers nothing before the end.
type busyStore struct {
	busy atomic.Int32
	end  chan struct{}
}

func (s *busyStore) work() {
	s.busy.Add(1)
	<-s.end
}

func (s *busyStore) List(context.Context, Query) (Page, error) {
	s.work()
	return Page{}, nil
}

func (s *busyStore) Get(context.Context, uint64) (DeadLetterDetail, error) {
	s.work()
	return DeadLetterDetail{}, nil
}

func (s *busyStore) Redrive(context.Context, Selection) (Redriven, error) {
	s.work()
	return Redriven{}, nil
}

func (s *busyStore) RedriveEdited(context.Context, Selection, []byte) (Redriven, error) {
	s.work()
	return Redriven{}, nil
}

func (s *busyStore) Purge(context.Context, Selection) (uint64, error) {
	s.work()
	return 0, nil
}

func (s *busyStore) Kyma(context.Context) (Kyma, error) {
	s.work()
	return Kyma{}, nil
}

func (s *busyStore) RetryNow(context.Context, types.NamespacedName) (Retried, error) {
	s.work()
	return Retried{}, nil
}

func (s *busyStore) Subscriptions(context.Context) ([]Subscription, error) {
	s.work()
	return nil, nil
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"none":               {nil, ""},
		"a port":             {[]string{"--admin-address=:9091"}, ""},
		"an address of none": {[]string{"--admin-address=9091"}, "--admin-address"},
	} {
		options := DefaultOptions()
		fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
		flags.Bind(fs, &options)
		require.NoError(t, fs.Parse(tc.args))
		if err := flags.Validate(&options); tc.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tc.want, name)
		}
	}
}

func FuzzAnyRequestHasAJSONAnswer(f *testing.F) {
	f.Add("POST", "/v1/deadletters/redrive", "", []byte(`{"all":true}`))
	f.Add("POST", "/v1/deadletters/purge", "", []byte(`{"namespace":"a","sequence":1e3}`))
	f.Add("GET", "/v1/deadletters", "limit=1&after=2&namespace=a", []byte(nil))
	f.Add("GET", "/v1/deadletters/18446744073709551616", "", []byte(nil))
	f.Add("GET", "/v1/../v1//deadletters", "%zz", []byte("{"))
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://admin/", strings.NewReader(string(body)))
		if err != nil {
			t.Skip()
		}
		request.URL.Path, request.URL.RawQuery = "/"+strings.TrimPrefix(path, "/"), query
		request.RemoteAddr = "127.0.0.1:1234"
		request.Header.Set("Authorization", "Bearer "+token)
		store := &fakeStore{deadLetter: storedDeadLetter()}
		recorder := httptest.NewRecorder()
		New(Deps{Store: store, Wakes: journal.NewWakes(), Access: identity.Token(token), Log: logr.Discard()}).ServeHTTP(recorder, request)
		if recorder.Code == http.StatusMovedPermanently || recorder.Code == http.StatusTemporaryRedirect {
			return // to a path without dots
		}
		require.True(t, json.Valid(recorder.Body.Bytes()), "%d %q", recorder.Code, recorder.Body)
		if store.selection != nil {
			require.NoError(t, store.selection.Validate())
		}
	})
}

func TestClientsThatAreNotServedAnyMoreAreToldWhichVersionIsNeeded(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeStore{}, logr.Discard())
	h.side = skew.Side{Level: 4, Oldest: 3, Version: "v0.4.0"}
	from := func(level string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(skew.Header, "level="+level+"; oldest=1; version=v0.2.0") }
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"an older one that is served":     {from("3"), http.StatusOK},
		"a later one":                     {from("5"), http.StatusOK},
		"one that is too old":             {from("2"), http.StatusBadRequest},
		"one without the header, as curl": {func(*http.Request) {}, http.StatusOK},
		"one with an invalid header":      {func(r *http.Request) { r.Header.Set(skew.Header, "x") }, http.StatusOK},
	} {
		answered := ask(h, http.MethodGet, "/v1/subscriptions", "", tc.change)
		require.Equal(t, tc.want, answered.Code, name)
		require.Equal(t, h.side.String(), answered.Header().Get(skew.Header), name)
		if tc.want != http.StatusOK {
			require.Contains(t, answered.Body.String(), "use rouse v0.4.0", name)
		}
	}
}

func TestStrangersDoNotLearnTheVersion(t *testing.T) {
	t.Parallel()
	answered := ask(newHandler(t, &fakeStore{}, logr.Discard()), http.MethodGet, "/v1/subscriptions", "",
		func(r *http.Request) { r.Header.Del("Authorization") })
	require.Equal(t, http.StatusUnauthorized, answered.Code)
	require.Empty(t, answered.Header().Get(skew.Header))
}

func TestDeadLetterSelectionRefusesInvalidNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selection Selection
		want      string
	}{
		"a wildcard for a namespace":     {Selection{Namespace: "*"}, "namespace:"},
		"a dot in a namespace":           {Selection{Namespace: "a.b"}, "namespace:"},
		"a wildcard for a Subscription":  {Selection{Namespace: "a", Subscription: ">"}, "subscription:"},
		"an empty token":                 {Selection{Namespace: "a", Subscription: "b..c"}, "subscription:"},
		"a Subscription of no namespace": {Selection{Subscription: "b"}, "its namespace is missing"},
		"a name with dots":               {Selection{Namespace: "a", Subscription: "b.c"}, ""},
		"nothing":                        {Selection{}, ""},
	} {
		err := tc.selection.Validate()
		if tc.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tc.want, name)
		}
	}
}

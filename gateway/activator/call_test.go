package activator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/activation"
)

// outside has the server answer callers from outside the cluster, whose contexts change first.
func (f *fixture) outside(call Call, change ...func(context.Context) context.Context) {
	f.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range change {
			r = r.WithContext(c(r.Context()))
		}
		f.all.Serve(w, r, price, call)
	})
}

func TestACallFromOutsideLearnsNothingThatPodsTellTheCluster(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.outside(Call{})
	health := f.do(f.request(http.MethodGet, "/healthz", ""))
	require.Equal(t, http.StatusOK, health.StatusCode)
	require.Equal(t, "OK", health.text)
	require.NotContains(t, health.Header, activation.HeaderFunction)
	for _, path := range []string{"/metrics", activation.LoadPath, "/.well-known%2Frouse/load"} {
		answer := f.do(f.request(http.MethodGet, path, ""))
		require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
		require.Empty(t, answer.text)
	}
	require.Equal(t, http.StatusNotFound, f.do(f.request(http.MethodPost, activation.LoadPath, "x")).StatusCode)
	f.awaitLoad(0, 0)
	require.Empty(t, f.all.functions, "nothing was woken")

	f.set(f.pod(true, hello))
	require.Equal(t, "hello", f.do(f.request(http.MethodPost, "/metrics", "x")).text, "which a handler may have")
}

func TestACallMayKeepItsConnectionWhileAPodIsReady(t *testing.T) {
	t.Parallel()
	for _, stay := range []bool{true, false} {
		f := start(t)
		f.set(f.pod(true, hello))
		f.outside(Call{Stay: stay})
		require.Equal(t, !stay, f.do(f.request(http.MethodGet, "/", "")).Close)
	}
}

func TestACallWaitsAsLongAsItSays(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Wait = time.Hour })
	f.outside(Call{Wait: 20 * time.Millisecond})
	answer := f.do(f.request(http.MethodGet, "/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, activation.RefusedTimeout, answer.Header.Get(activation.HeaderRefused))
}

func TestACallToAFunctionThatCannotStartIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, c *Condition) { c.Broken = "HandlerFailed" })
	f.outside(Call{Wait: time.Hour})
	require.Equal(t, "Function shop/price does not run: HandlerFailed\n", f.do(f.request(http.MethodGet, "/", "")).text)
}

func TestACallWithoutTimeLeftIsRefusedWhileItWaitsAndNotAnsweredLater(t *testing.T) {
	t.Parallel()
	f := start(t)
	ended, end := context.WithCancelCause(t.Context())
	f.outside(Call{Wait: time.Hour}, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		context.AfterFunc(ended, func() { cancel(context.Cause(ended)) })
		return ctx
	})
	waiting := f.goDo(f.request(http.MethodGet, "/", ""))
	f.awaitLoad(1, 0)
	end(context.DeadlineExceeded)
	refused := <-waiting
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.Equal(t, activation.RefusedTimeout, refused.Header.Get(activation.HeaderRefused))

	entered, over := make(chan struct{}), make(chan struct{})
	f.set(f.pod(true, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	r, cancel := context.WithCancelCause(t.Context())
	recorder := httptest.NewRecorder()
	go func() {
		defer close(over)
		f.all.Serve(recorder, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(r), price, Call{})
	}()
	<-entered
	cancel(context.DeadlineExceeded)
	<-over
	require.Empty(t, recorder.Body.String())
	require.False(t, recorder.Flushed)
	f.awaitLoad(0, 0)
}

func TestTheWaitOfTheGatewayMayChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, _ *Condition) { o.Wait = time.Hour })
	f.outside(Call{})
	f.all.SetWait(20 * time.Millisecond)
	answer := f.do(f.request(http.MethodGet, "/", ""))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, activation.RefusedTimeout, answer.Header.Get(activation.HeaderRefused))
}

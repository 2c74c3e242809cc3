package apirules

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// within is an open rule with little time.
func within(timeout time.Duration, to apirule.Backend, path string) apirule.Rule {
	rule := open(to, path, "GET", "POST")
	rule.Timeout = timeout
	return rule
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestAnAnswerThatHasNotBegunInTimeIs504(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, within(20*time.Millisecond, f.service.address, "/service"), within(20*time.Millisecond, f.function.address, "/function"))
	f.service.answers(hangs)
	f.function.answers(hangs)
	for _, path := range []string{"/service", "/function"} {
		got := f.get(path)
		require.Equal(t, http.StatusGatewayTimeout, got.StatusCode, path)
		require.Equal(t, "upstream request timeout", got.text, path)
	}
}

func TestAnAnswerThatIsLongerThanItsTimeIsCut(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, within(time.Second, f.service.address, "/*"))
	f.service.answers(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL, nil)
	require.NoError(t, err)
	r.Host = shopHost
	response, err := f.server.Client().Transport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the caller sees that it is not whole")
	require.Equal(t, "data: one\n\n", string(text))
}

func TestAFunctionHasTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	waits := make(chan time.Duration, 1)
	f := start(t, func(d *Deps, _ *Options) {
		d.Activate = func(w http.ResponseWriter, _ *http.Request, _ types.NamespacedName, wait time.Duration) {
			waits <- wait
			w.Header().Set("Rouse-Refused", "timeout")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	f.serve(shopHost, within(time.Hour, f.function.address, "/*"))
	got := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Equal(t, "timeout", got.Header.Get("Rouse-Refused"), "what an activator says passes")
	require.LessOrEqual(t, <-waits, time.Hour)
}

func TestTheTimeOfAnUploadDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, left := startDeadline(t.Context(), time.Minute)
		defer left.stop()
		reader, writer := io.Pipe()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", reader)
		upload := &body{forward.NewBody(r, httptest.NewRecorder(), 0), left, nil, nil}
		go func() {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(writer, "order")
			time.Sleep(time.Hour)
			_ = writer.Close()
		}()
		time.Sleep(20 * time.Second) // a pod is waited for
		text, err := io.ReadAll(upload)
		require.NoError(t, err)
		require.Equal(t, "order", string(text))
		require.Equal(t, 40*time.Second, left.remaining())
		time.Sleep(39 * time.Second)
		synctest.Wait()
		require.NoError(t, ctx.Err())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.True(t, ranOut(ctx))
	})
}

func TestATimeThatIsOverStaysOver(t *testing.T) {
	t.Parallel()
	ctx, left := startDeadline(t.Context(), 20*time.Millisecond)
	defer left.stop()
	left.pause()
	require.Positive(t, left.remaining())
	left.resume()
	<-ctx.Done()
	require.True(t, ranOut(ctx))
	left.pause()
	left.resume() // is over for good
	require.True(t, ranOut(ctx))

	ctx, left = startDeadline(t.Context(), time.Hour)
	left.unlimited()
	left.resume()
	require.NoError(t, ctx.Err())
	left.stop()
	require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	require.False(t, ranOut(ctx))
}

func TestACallerWhoStopsSendingHisBodyIsCutOff(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.BodyTimeout = 20 * time.Millisecond })
	f.serve(shopHost, within(time.Hour, f.service.address, "/*"))
	ended := make(chan error, 1)
	f.service.answers(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	conn := f.dial()
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.example.com\r\nContent-Length: 10\r\n\r\norder")
	require.NoError(t, err)
	require.Error(t, <-ended, "the backend sees that the body is not whole")
}

func (f *fixture) dial() net.Conn {
	f.t.Helper()
	conn, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", f.server.Listener.Addr().String())
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAnUpgradedConnectionHasNoLimit(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, within(time.Second, f.service.address, "/*"))
	f.service.answers(echo)
	f.requireEchoAfter(1500 * time.Millisecond)
}

func TestAnUpgradeHasToBeAllowedLikeEveryRequest(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	f.serve(shopHost, withTokens(f.service.address, "/*", i.jwt()))
	got := f.raw("GET / HTTP/1.1\r\nHost: shop.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.Equal(t, http.StatusForbidden, got.StatusCode)
	require.Zero(t, f.service.requests())
}

func TestAServiceThatRefusesConnectionsIsUnavailable(t *testing.T) {
	t.Parallel()
	f := start(t)
	refusing := f.service.address
	refusing.Port = int32(loopback.Reserve(t))
	f.serve(shopHost, open(refusing, "/*", "GET"))
	got := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.NotContains(t, got.text, "127.0.0.1")
}

func TestAServiceAtAnAddressOfThisMachineIsNotDialled(t *testing.T) {
	t.Parallel()
	f := start(t, func(d *Deps, _ *Options) { d.Guard.AllowLoopback = false })
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	require.Equal(t, http.StatusServiceUnavailable, f.get("/").StatusCode)
	require.Zero(t, f.service.requests())
}

func TestARequestIsRepeatedOnlyWhenNoConnectionCouldBeMade(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET", "POST"))
	f.service.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	got := f.get("/")
	require.Equal(t, http.StatusBadGateway, got.StatusCode)
	require.Equal(t, 1, f.service.requests())

	var dials int
	failing := roundTripper(func(r *http.Request) (*http.Response, error) {
		if dials++; dials < dialAttempts {
			return nil, &net.OpError{Op: "dial", Err: io.EOF}
		}
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{"X-Body": {string(text)}}}, nil
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://192.0.2.1/", strings.NewReader("whole"))
	require.NoError(t, err)
	answer, err := (&dialing{transport: failing, head: new(httplimit.HeadAccount)}).RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "whole", answer.Header.Get("X-Body"))
	require.Equal(t, dialAttempts, dials)

	dials = -100
	_, err = (&dialing{transport: failing, head: new(httplimit.HeadAccount)}).RoundTrip(r) //nolint:bodyclose // there is none
	require.Error(t, err)
	require.Equal(t, dialAttempts-100, dials)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

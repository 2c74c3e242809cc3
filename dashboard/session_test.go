package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

// directory knows each token as the user of its name, of the share before a slash.
type directory struct {
	mu       sync.Mutex
	revoked  map[string]bool
	away     bool
	reviewed int
	closed   int
	renewed  []string
}

func (d *directory) LogIn(_ context.Context, c Credentials) (Member, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.revoked[c.Token] || c.Token == "guess" {
		return nil, ErrUnauthenticated
	}
	return &person{d, c.Token, c.Namespace}, nil
}

type person struct {
	d               *directory
	name, namespace string
}

func (p *person) User() User {
	share, _, _ := strings.Cut(p.name, "/")
	return User{Name: p.name, Share: share, Namespace: p.namespace, Session: true, Changes: true}
}

func (p *person) Review(context.Context) error {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.reviewed++
	switch {
	case p.d.revoked[p.name]:
		return ErrUnauthenticated
	case p.d.away:
		return errors.New("no answer")
	}
	return nil
}

func (p *person) Renew(_ context.Context, token string) error {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if name, _, _ := strings.Cut(token, "#"); name != p.name {
		return ErrUnauthenticated
	}
	p.d.renewed = append(p.d.renewed, token)
	return nil
}

func (p *person) In(_ context.Context, namespace string) (Member, error) {
	return &person{p.d, p.name, namespace}, nil
}

func (p *person) Close() {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.closed++
}

// sessionsOf are sessions of a handler with a home.
func sessionsOf(t *testing.T, d *directory, o SessionOptions) (*Handler, *Sessions) {
	t.Helper()
	home := newHome()
	s := NewSessions(d, o, logr.Discard())
	h, err := New(Deps{
		Sessions: s, State: home, Events: home, Lines: fakeLines{home}, DeadLetters: fakeLetters{home}, Publisher: home, Caller: home, Log: logr.Discard(),
	})
	require.NoError(t, err)
	return h, s
}

// send sends a request with the cookie of a session.
func send(ctx context.Context, h http.Handler, method, path, body, cookie string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "https://dashboard"+path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequestWithContext(ctx, method, "https://dashboard"+path, http.NoBody)
	}
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "192.0.2.1:1234"
	if i := strings.Index(cookie, "@"); i >= 0 {
		cookie, r.RemoteAddr = cookie[:i], cookie[i+1:]+":1234"
	}
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: cookie})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// enter logs in and returns the cookie.
func enter(t *testing.T, h http.Handler, name string) string {
	t.Helper()
	w := send(t.Context(), h, http.MethodPost, "/api/v1/login", `{"token":"`+name+`"}`, "@"+netip.AddrFrom4([4]byte{10, 0, 0, byte(time.Now().UnixNano())}).String())
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Result().Cookies()[0].Value
}

func status(t *testing.T, h http.Handler, cookie string) (int, string) {
	t.Helper()
	w := send(t.Context(), h, http.MethodGet, "/api/v1/snapshot", "", cookie)
	return w.Code, w.Body.String()
}

func TestASessionEndsWhenItIsIdleOrOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, s := sessionsOf(t, &directory{}, DefaultSessionOptions())
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = s.Run(ctx) }()
		defer synctest.Wait()
		defer cancel()
		cookie := enter(t, h, "alice")
		time.Sleep(59 * time.Minute)
		code, _ := status(t, h, cookie)
		require.Equal(t, http.StatusOK, code)
		time.Sleep(61 * time.Minute)
		code, text := status(t, h, cookie)
		require.Equal(t, http.StatusUnauthorized, code)
		require.Contains(t, text, "not used for a while")

		cookie = enter(t, h, "alice")
		for range 12 {
			time.Sleep(59 * time.Minute)
			code, _ = status(t, h, cookie)
			require.Equal(t, http.StatusOK, code)
		}
		time.Sleep(13 * time.Minute)
		code, text = status(t, h, cookie)
		require.Equal(t, http.StatusUnauthorized, code)
		require.Contains(t, text, "its longest time")
		require.Zero(t, s.Count())
	})
}

func TestAStreamEndsWithinAMinuteOfItsTokenAndWhenThatIsUnknownForLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(d *directory)
		within time.Duration
		says   string
	}{
		"revoked": {func(d *directory) { d.revoked = map[string]bool{"alice": true} }, time.Minute, "not valid any more"},
		"unknown": {func(d *directory) { d.away = true }, 3 * time.Minute, "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &directory{}
				h, s := sessionsOf(t, d, DefaultSessionOptions())
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = s.Run(ctx) }()
				defer synctest.Wait()
				defer cancel()
				cookie := enter(t, h, "alice")
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					send(ctx, h, http.MethodGet, "/api/v1/live", "", cookie)
				}()
				time.Sleep(30 * time.Minute)
				select {
				case <-ended:
					require.Fail(t, "the stream has ended")
				default:
				}
				d.mu.Lock()
				c.end(d)
				d.mu.Unlock()
				began := time.Now()
				<-ended
				require.LessOrEqual(t, time.Since(began), c.within)
				code, text := status(t, h, cookie)
				require.Equal(t, http.StatusUnauthorized, code)
				require.Contains(t, text, c.says)
			})
		})
	}
}

func TestAUserHasAShareOfTheSessionsAndReplacesOwnOnes(t *testing.T) {
	t.Parallel()
	o := DefaultSessionOptions()
	o.Total, o.PerUser = 8, 2
	d := &directory{}
	h, s := sessionsOf(t, d, o)
	first := enter(t, h, "alice")
	enter(t, h, "alice")
	enter(t, h, "alice")
	require.Equal(t, 2, s.Count())
	_, text := status(t, h, first)
	require.Contains(t, text, "more of them than one user may have")
	require.Equal(t, 1, d.closed)
	refused := 0
	for i := range 20 { // a tenant with any number of accounts
		w := send(t.Context(), h, http.MethodPost, "/api/v1/login", `{"token":"tenant/`+strconv.Itoa(i)+`"}`, "@10.1.0."+strconv.Itoa(i))
		if w.Code == http.StatusServiceUnavailable {
			refused++
		}
	}
	require.GreaterOrEqual(t, refused, 16)
	enter(t, h, "bob")
}

func TestAnotherNamespaceEndsTheStreamsOfTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := sessionsOf(t, &directory{}, DefaultSessionOptions())
		cookie := enter(t, h, "alice")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			send(ctx, h, http.MethodGet, "/api/v1/live", "", cookie)
		}()
		synctest.Wait()
		w := send(ctx, h, http.MethodPost, "/api/v1/namespace", `{"namespace":"b"}`, cookie)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		<-ended
		w = send(ctx, h, http.MethodGet, "/api/v1/about", "", cookie)
		require.Contains(t, w.Body.String(), `"namespace":"b"`)
	})
}

func TestALoginWithinASessionBeginsAnother(t *testing.T) {
	t.Parallel()
	h, s := sessionsOf(t, &directory{}, DefaultSessionOptions())
	before := enter(t, h, "alice")
	w := send(t.Context(), h, http.MethodPost, "/api/v1/login", `{"token":"bob"}`, before)
	require.Equal(t, http.StatusOK, w.Code)
	after := w.Result().Cookies()[0].Value
	require.NotEqual(t, before, after, "a session that somebody has planted is not used")
	code, _ := status(t, h, before)
	require.Equal(t, http.StatusUnauthorized, code)
	require.Equal(t, 1, s.Count())
	code, _ = status(t, h, strings.Repeat("A", len(after)))
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestTheClientOfAProxyIsTheLastOneThatTheProxyNames(t *testing.T) {
	t.Parallel()
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct{ remote, forwarded, want string }{
		"no proxy":                {"192.0.2.1:5", "198.51.100.1", "192.0.2.1"},
		"a proxy":                 {"10.0.0.1:5", "198.51.100.1", "198.51.100.1"},
		"a proxy behind another":  {"10.0.0.1:5", "198.51.100.1, 10.0.0.2", "198.51.100.1"},
		"a client that makes one": {"10.0.0.1:5", "203.0.113.9, 198.51.100.1", "198.51.100.1"},
		"nonsense":                {"10.0.0.1:5", "unknown", "10.0.0.1"},
		"nothing":                 {"10.0.0.1:5", "", "10.0.0.1"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = c.remote
		r.Header.Set("X-Forwarded-For", c.forwarded)
		require.Equal(t, c.want, proxies.ClientOf(r), name)
	}
}

func TestAddressesOfOneNetworkShareTheirAttempts(t *testing.T) {
	t.Parallel()
	require.Equal(t, networkOf("2001:db8::1"), networkOf("2001:db8::ffff:1"))
	require.NotEqual(t, networkOf("2001:db8::1"), networkOf("2001:db8:0:1::1"))
	require.Equal(t, networkOf("::ffff:192.0.2.1"), networkOf("192.0.2.1"))
	require.NotEqual(t, networkOf("192.0.2.1"), networkOf("192.0.2.2"))
}

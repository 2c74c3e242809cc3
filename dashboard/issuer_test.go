package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// issuing gives tokens of alice, which last for an hour.
type issuing struct {
	mu      sync.Mutex
	renewed int
	spent   map[string]bool // refresh tokens
	err     error           // of renewals
	user    string          // of renewals
	secrets Secrets         // of the last login
}

func newIssuing() *issuing { return &issuing{spent: map[string]bool{}, user: "alice"} }

func (i *issuing) Name() string   { return "Example" }
func (i *issuing) Home() string   { return "https://dashboard" }
func (i *issuing) LogOut() string { return "https://issuer/logout" }

func (i *issuing) LogIn(_ context.Context, s Secrets) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.secrets = s
	return "https://issuer/?state=" + s.State, nil
}

func (i *issuing) Redeem(_ context.Context, answer url.Values, s Secrets) (Grant, error) {
	if answer.Get("code") != s.Nonce {
		return Grant{}, Error{http.StatusBadGateway, "the code is of another login"}
	}
	return Grant{Token: "alice", Subject: "alice", Refresh: "0", RenewAt: time.Now().Add(45 * time.Minute)}, nil
}

func (i *issuing) Renew(_ context.Context, g Grant) (Grant, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		return g, i.err
	}
	if i.spent[g.Refresh] {
		return g, ErrNotRenewed
	}
	i.spent[g.Refresh] = true
	i.renewed++
	next := strconv.Itoa(i.renewed)
	return Grant{Token: i.user + "#" + next, Subject: "alice", Refresh: next, RenewAt: time.Now().Add(45 * time.Minute)}, nil
}

func (i *issuing) renewals() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.renewed
}

// atIssuer are sessions of a handler whose users log in at an issuer.
func atIssuer(t *testing.T, d *directory, at *issuing) (*Handler, *Sessions) {
	t.Helper()
	o := DefaultSessionOptions()
	o.Issuer = at
	return sessionsOf(t, d, o)
}

// navigate goes to a path with cookies.
func navigate(t *testing.T, h http.Handler, path string, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://dashboard"+path, http.NoBody)
	for _, each := range cookies {
		r.AddCookie(each)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// begun begins a login, and returns its cookie and the path to which the issuer sends the user back.
func begun(t *testing.T, h http.Handler, at *issuing, session string) (*http.Cookie, string) {
	t.Helper()
	w := send(t.Context(), h, http.MethodPost, "/api/v1/login/issuer", `{"path":"/events"}`, session)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	at.mu.Lock()
	defer at.mu.Unlock()
	return w.Result().Cookies()[0], CallbackPath + "?state=" + at.secrets.State + "&code=" + at.secrets.Nonce
}

// entered logs alice in at the issuer, and returns the session's cookie.
func entered(t *testing.T, h http.Handler, at *issuing, before string) string {
	t.Helper()
	cookie, back := begun(t, h, at, before)
	response := navigate(t, h, back, cookie) //nolint:bodyclose // it is in memory
	require.Equal(t, "/events", response.Header.Get("Location"))
	for _, each := range response.Cookies() {
		if each.Name == cookieName {
			require.Equal(t, http.SameSiteStrictMode, each.SameSite)
			return each.Value
		}
	}
	require.Fail(t, "there is no session")
	return ""
}

// told returns what the login page says to a browser.
func told(t *testing.T, h http.Handler, cookies ...*http.Cookie) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://dashboard/api/v1/about", http.NoBody)
	for _, each := range cookies {
		r.AddCookie(each)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}

func TestALoginAtTheIssuerMayTakeTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newIssuing()
		h, s := atIssuer(t, &directory{}, at)
		cookie, back := begun(t, h, at, "")
		time.Sleep(10*time.Minute + time.Second)
		require.Equal(t, "/", navigate(t, h, back, cookie).Header.Get("Location")) //nolint:bodyclose // it is in memory
		require.Contains(t, told(t, h, cookie), "took more than ten minutes")
		require.Zero(t, s.Count())
	})
}

func TestLoginsThatHaveBegunAreBoundedAndAnAddressLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPendings()
		begin := func(owner, before string) (string, error) { return p.add(&pending{owner: owner}, before) }
		taken := 0
		for range 2 * maxPending {
			if _, err := begin("attacker", ""); err == nil {
				taken++
			}
		}
		require.Equal(t, maxPending/2, taken)
		last, err := begin("user", "")
		require.NoError(t, err)
		for range maxPending { // a browser has one
			last, err = begin("user", last)
			require.NoError(t, err)
		}
		require.Len(t, p.all, taken+1)
		time.Sleep(pendingFor)
		_, err = begin("attacker", "")
		require.NoError(t, err)
		require.Len(t, p.all, 1)
	})
}

func TestATokenIsRenewedOnceHoweverManyRequestsNeedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at, d := newIssuing(), &directory{}
		h, _ := atIssuer(t, d, at)
		cookie := entered(t, h, at, "")
		time.Sleep(44 * time.Minute)
		code, _ := status(t, h, cookie)
		require.Equal(t, http.StatusOK, code)
		require.Zero(t, at.renewals())
		time.Sleep(2 * time.Minute)
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() { send(t.Context(), h, http.MethodGet, "/api/v1/about", "", cookie) })
		}
		asking.Wait()
		require.Equal(t, 1, at.renewals())
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Equal(t, []string{"alice#1"}, d.renewed)
	})
}

func TestASessionWhoseTokenIsRenewedEndsAfterItsLongestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newIssuing()
		h, s := atIssuer(t, &directory{}, at)
		cookie := entered(t, h, at, "")
		for range 24 {
			time.Sleep(29 * time.Minute)
			code, _ := status(t, h, cookie)
			require.Equal(t, http.StatusOK, code)
		}
		require.Greater(t, at.renewals(), 10)
		time.Sleep(25 * time.Minute)
		_, text := status(t, h, cookie)
		require.Contains(t, text, "its longest time")
		require.Zero(t, s.Count())
	})
}

func TestATokenThatIsNotRenewedLastsUntilItEnds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(at *issuing){
		"the issuer refuses":          func(at *issuing) { at.err = ErrNotRenewed },
		"the issuer is away":          func(at *issuing) { at.err = errors.New("no answer") },
		"the token is of another one": func(at *issuing) { at.user = "mallory" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at, d := newIssuing(), &directory{}
				h, _ := atIssuer(t, d, at)
				cookie := entered(t, h, at, "")
				change(at)
				time.Sleep(50 * time.Minute)
				code, _ := status(t, h, cookie)
				require.Equal(t, http.StatusOK, code)
				d.mu.Lock()
				require.Empty(t, d.renewed)
				d.revoked = map[string]bool{"alice": true}
				d.mu.Unlock()
				time.Sleep(time.Minute)
				code, text := status(t, h, cookie)
				require.Equal(t, http.StatusUnauthorized, code)
				require.Contains(t, text, "your token is not valid any more")
			})
		})
	}
}

func TestAnIssuerThatWasAwayRenewsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := newIssuing()
		h, _ := atIssuer(t, &directory{}, at)
		cookie := entered(t, h, at, "")
		at.err = errors.New("no answer")
		time.Sleep(46 * time.Minute)
		status(t, h, cookie)
		require.Zero(t, at.renewals())
		at.err = nil
		time.Sleep(time.Minute)
		status(t, h, cookie)
		require.Equal(t, 1, at.renewals())
	})
}

func TestALoginAtTheIssuerEndsTheSessionBeforeOfItsBrowser(t *testing.T) {
	t.Parallel()
	at := newIssuing()
	h, s := atIssuer(t, &directory{}, at)
	before := enter(t, h, "bob")
	after := entered(t, h, at, before)
	require.NotEqual(t, before, after)
	require.Equal(t, 1, s.Count(), "its cookie does not come with the answer of the issuer, which is another site")
	code, _ := status(t, h, before)
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestLogOutLeadsToTheIssuerWhoHasLoggedInThere(t *testing.T) {
	t.Parallel()
	at := newIssuing()
	h, _ := atIssuer(t, &directory{}, at)
	for cookie, leads := range map[string]bool{entered(t, h, at, ""): true, enter(t, h, "bob"): false} {
		w := send(t.Context(), h, http.MethodPost, "/api/v1/logout", "{}", cookie)
		require.Equal(t, leads, strings.Contains(w.Body.String(), "https://issuer/logout"), w.Body)
	}
}

func TestAFailedLoginIsToldToItsBrowserAloneUntilItLogsIn(t *testing.T) {
	t.Parallel()
	at := newIssuing()
	h, _ := atIssuer(t, &directory{}, at)
	cookie, back := begun(t, h, at, "")
	navigate(t, h, back+"x", cookie) //nolint:bodyclose // it is in memory
	require.Contains(t, told(t, h, cookie), "the code is of another login")
	require.Contains(t, told(t, h), "log in first")
	session := &http.Cookie{Name: cookieName, Value: enter(t, h, "alice")}
	require.Contains(t, told(t, h, cookie, session), `"name":"alice"`)
}

func TestAHomeWithoutAnIssuerHasNoneOfItsPaths(t *testing.T) {
	t.Parallel()
	h, _ := sessionsOf(t, &directory{}, DefaultSessionOptions())
	w := send(t.Context(), h, http.MethodPost, "/api/v1/login/issuer", `{"path":"/"}`, "")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.NotContains(t, told(t, h), "issuer")
}

func TestOnlyAPageOfThisOriginIsShownAfterALogin(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/": "/", "/functions/a/b?x=1&y=%2F": "/functions/a/b?x=1&y=%2F", "/events?type=order.*": "/events?type=order.*", "/a%20b": "/a%20b", "/event?id=a#b": "/event?id=a",
		"": "", "//evil.example.com": "", `/\evil.example.com`: "", "https://evil.example.com": "", "javascript:alert(1)": "", "evil": "",
		"/%5Cevil.example.com": "", "/%2Fevil.example.com": "", "/a\r\nLocation: x": "", "/%0d%0aa": "", "https:/evil": "", "///evil": "", "/login/callback": "",
		"/login/../login/callback?code=a": "",
	} {
		require.Equal(t, want, returnPath(path), path)
	}
}

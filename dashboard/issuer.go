package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Issuer is where users log in for a token of Kubernetes, by OpenID Connect. Its errors are for the user.
type Issuer interface {
	// Name is its name on the login page.
	Name() string
	// Home is the origin of these pages, to which it sends users back.
	Home() string
	// LogIn returns the address at which a user logs in.
	LogIn(ctx context.Context, s Secrets) (string, error)
	// Redeem returns what an answer of the issuer is good for.
	Redeem(ctx context.Context, answer url.Values, s Secrets) (Grant, error)
	// Renew returns a grant with a new token of the same user. It fails with ErrNotRenewed.
	Renew(ctx context.Context, g Grant) (Grant, error)
	// LogOut returns the address at which a user logs out of the issuer; empty when there is none.
	LogOut() string
}

// ErrNotRenewed means that the issuer gives no further token for a grant.
var ErrNotRenewed = errors.New("the issuer does not renew the login")

// Secrets bind the answer of an issuer to one login of one browser.
type Secrets struct{ State, Nonce, Verifier string }

// Grant has the tokens that an issuer has issued for a login.
type Grant struct {
	// Token is a token of Kubernetes, and Subject the user whom it is for.
	Token, Subject string
	// Refresh is the refresh token; empty when the login is not renewed.
	Refresh string
	// RenewAt is the time from which the token is to be renewed.
	RenewAt time.Time
}

// CallbackPath is the path to which issuers send users back.
const CallbackPath = "/login/callback"

const (
	loginCookie = "__Host-rouse-login"
	// maxReturnPath bounds the path that is shown after a login.
	maxReturnPath = 1 << 10
	issuerTimeout = 10 * time.Second
	// unknownLogin is the value of the cookie after an answer to no login.
	unknownLogin = "unknown"
)

const (
	whyForgotten = "your login at the issuer took more than ten minutes, or has begun in another browser: log in again"
	whyOtherTab  = "the issuer has answered to another login than the last one of this browser: log in again, in one tab"
)

// loggedOut returns the answer to somebody who has to log in.
func (s *Sessions) loggedOut(why string) loggedOut {
	out := loggedOut{Error: why, Login: "token"}
	if s.options.Issuer != nil {
		out.Issuer = s.options.Issuer.Name()
	}
	return out
}

// beginAtIssuer begins a login at the issuer. It is asked for by a page of this origin, whose cookie the answer of the issuer needs.
func (s *Sessions) beginAtIssuer(w http.ResponseWriter, r *http.Request) error {
	var wanted struct {
		Namespace string `json:"namespace"`
		Path      string `json:"path"`
	}
	if err := decode(w, r, &wanted, maxLogin); err != nil {
		return err
	}
	if err := checkNamespace(wanted.Namespace); err != nil {
		return err
	}
	if wanted.Path = returnPath(wanted.Path); wanted.Path == "" {
		return Error{http.StatusBadRequest, "path: name a page of this dashboard, as /functions"}
	}
	home := s.options.Issuer.Home()
	if origin := r.Header.Get("Origin"); origin != "" && origin != home {
		return Error{http.StatusConflict, "the issuer sends you back to " + home + ": open the dashboard there"}
	}
	address := s.options.Proxies.ClientOf(r)
	if !s.attempts.allow(address) {
		s.logins.refused.Inc()
		return errTooManyAttempts
	}
	one := &pending{
		secrets:   Secrets{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text()}, // 52 of RFC 7636's characters
		namespace: wanted.Namespace, path: wanted.Path, address: address, owner: networkOf(address),
	}
	ctx, cancel := context.WithTimeout(r.Context(), issuerTimeout)
	defer cancel()
	to, err := s.options.Issuer.LogIn(ctx, one.secrets)
	if err != nil {
		return err
	}
	if before, err := s.find(r); err == nil {
		one.before = before
	}
	id, err := s.pending.add(one, cookieOf(r, loginCookie))
	if err != nil {
		return err
	}
	http.SetCookie(w, pendingCookie(id, int(pendingFor/time.Second)))
	answer(w, http.StatusOK, struct {
		Location string `json:"location"`
	}{to})
	return nil
}

// pendingCookie returns the cookie of a login. It is Lax, because the page of the issuer leads back here.
func pendingCookie(id string, age int) *http.Cookie {
	return &http.Cookie{
		Name: loginCookie, Value: id, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

func cookieOf(r *http.Request, name string) string {
	found, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return found.Value
}

// returnPath returns the path and parameters of a page, as browsers cannot read them in another way; empty when they are none.
func returnPath(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || len(text) > maxReturnPath || parsed.Scheme+parsed.Host+parsed.Opaque != "" || parsed.User != nil {
		return ""
	}
	ambiguous := func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }
	if !strings.HasPrefix(parsed.Path, "/") || strings.HasPrefix(parsed.Path, "//") || strings.ContainsFunc(parsed.Path+text, ambiguous) ||
		strings.HasPrefix(parsed.Path, "/login/") {
		return ""
	}
	return (&url.URL{Path: parsed.Path, RawQuery: parsed.RawQuery}).String()
}

// comeBack takes the answer of the issuer, and leads to a page, which shows why there is no session if there is none.
func (s *Sessions) comeBack(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	id := cookieOf(r, loginCookie)
	found, path := s.pending.take(id, r.URL.Query().Get("state"))
	switch {
	case found != nil:
		if err := s.complete(w, r, found); err != nil {
			s.logins.refused.Inc()
			s.pending.fail(id, textOf(err))
		}
	case id == "" && cookieOf(r, cookieName) == "":
		http.SetCookie(w, pendingCookie(unknownLogin, int(pendingFor/time.Second)))
	}
	header.Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// complete begins a session for who has logged in at the issuer.
func (s *Sessions) complete(w http.ResponseWriter, r *http.Request, login *pending) error {
	ctx, cancel := context.WithTimeout(r.Context(), issuerTimeout)
	defer cancel()
	grant, err := s.options.Issuer.Redeem(ctx, r.URL.Query(), login.secrets)
	if err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	member, err := s.directory.LogIn(ctx, Credentials{Token: grant.Token, Namespace: login.namespace, Address: login.address})
	if errors.Is(err, ErrUnauthenticated) {
		s.log.Info("the API server does not take a token of the issuer: see docs/dashboard.md", "address", login.address)
		return Error{http.StatusUnauthorized, "you have logged in at " + s.options.Issuer.Name() + ", but the API server does not take its token: " +
			"it has to trust this issuer and its client ID, and their clocks have to agree; ask the operator of the cluster"}
	}
	if err != nil {
		return err
	}
	id, err := s.add(member, grant)
	if err != nil {
		member.Close()
		return err
	}
	s.mu.Lock()
	if login.before != nil {
		s.drop(login.before, whyLoggedOut)
	}
	s.mu.Unlock()
	s.pending.forget(cookieOf(r, loginCookie))
	s.logins.accepted.Inc()
	user := member.User()
	s.log.Info("logged in at the issuer", "user", user.Name, "address", login.address, "namespace", user.Namespace)
	http.SetCookie(w, sessionCookie(id, 0))
	http.SetCookie(w, pendingCookie("", -1))
	return nil
}

// textOf returns what the user is told about an error.
func textOf(err error) string {
	if known, is := errors.AsType[Error](err); is {
		return known.Text
	}
	return "the login has failed: try again, and ask the operator of the dashboard if it fails again"
}

// renew renews the token of a session whose grant is due. What cannot be renewed lasts as long as its token.
func (s *Sessions) renew(ctx context.Context, one *session) {
	if s.options.Issuer == nil {
		return
	}
	one.renewing.Lock() // an issuer may take a refresh token that comes twice for a stolen one
	defer one.renewing.Unlock()
	s.mu.Lock()
	grant, member := one.grant, one.member
	s.mu.Unlock()
	if grant.Refresh == "" || time.Now().Before(grant.RenewAt) || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout) // the issuer has replaced the refresh token, whoever still asks
	defer cancel()
	next, err := s.options.Issuer.Renew(ctx, grant)
	if err == nil {
		grant.Refresh = next.Refresh
		err = member.Renew(ctx, next.Token)
	}
	switch {
	case err == nil:
		grant = next
	case errors.Is(err, ErrNotRenewed), errors.Is(err, ErrUnauthenticated):
		s.log.Info("the token of a session is not renewed", "user", member.User().Name, "reason", err.Error())
		grant.Refresh = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.grant = grant
}

package dashboard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
)

// cookieName is that of the session's cookie. Browsers take one of this prefix from its own host alone, over TLS or on their machine, and
// send it to no other host.
const cookieName = "__Host-rouse-session"

// maxLogin bounds the body of a login. A token has up to 8 KiB.
const maxLogin = 16 << 10

var errTooManyAttempts = Error{http.StatusTooManyRequests, "there were too many attempts to log in from your address: wait a minute"}

// mount adds the routes of users who log in.
func (s *Sessions) mount(h *Handler) {
	h.api.HandleFunc("POST /api/v1/login", h.open(s.logIn))
	h.api.HandleFunc("POST /api/v1/logout", h.open(s.logOut))
	h.api.HandleFunc("POST /api/v1/namespace", h.open(s.choose))
	if s.options.Issuer != nil {
		h.api.HandleFunc("POST /api/v1/login/issuer", h.open(s.beginAtIssuer))
		h.api.HandleFunc("GET "+CallbackPath, s.comeBack)
	}
}

// open serves a request of anybody, from pages of this origin.
func (h *Handler) open(do func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		var err error
		switch {
		case foreign(r):
			err = Error{http.StatusForbidden, otherOrigin}
		case r.Header.Get("Content-Type") != contentType:
			err = Error{http.StatusUnsupportedMediaType, sendJSON}
		default:
			err = do(w, r)
		}
		if err != nil {
			h.explain(w, r, err)
		}
	}
}

// logIn begins a session for the user of a token.
func (s *Sessions) logIn(w http.ResponseWriter, r *http.Request) error {
	credentials := Credentials{}
	if err := decode(w, r, &credentials, maxLogin); err != nil {
		return err
	}
	if credentials.Token = strings.TrimSpace(credentials.Token); credentials.Token == "" {
		return Error{http.StatusBadRequest, "token: paste a token of Kubernetes"}
	}
	if err := checkNamespace(credentials.Namespace); err != nil {
		return err
	}
	credentials.Address = s.options.Proxies.ClientOf(r)
	if !s.attempts.allow(credentials.Address) {
		s.logins.refused.Inc()
		return errTooManyAttempts
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	member, err := s.directory.LogIn(ctx, credentials)
	if err != nil {
		s.logins.refused.Inc()
	}
	if errors.Is(err, ErrUnauthenticated) {
		s.log.Info("login refused", "address", credentials.Address)
		return Error{http.StatusUnauthorized, "this token is not valid in the cluster, or has expired: make one with kubectl create token"}
	}
	if err != nil {
		return err
	}
	id, err := s.add(member, Grant{})
	if err != nil {
		member.Close()
		return err
	}
	s.logOutQuietly(r)
	if begun := cookieOf(r, loginCookie); begun != "" { // at the issuer, whose answer is of no interest any more
		s.pending.forget(begun)
		http.SetCookie(w, pendingCookie("", -1))
	}
	s.logins.accepted.Inc()
	s.log.Info("logged in", "user", member.User().Name, "address", credentials.Address, "namespace", member.User().Namespace)
	http.SetCookie(w, sessionCookie(id, 0))
	answer(w, http.StatusOK, member.User())
	return nil
}

// sessionCookie returns a session's cookie. It ends with the browser, if not before, and at once for a negative age.
func sessionCookie(id string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: id, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// logOut ends the session of a request. Who has logged in at the issuer is told where to log out there.
func (s *Sessions) logOut(w http.ResponseWriter, r *http.Request) error {
	var next struct {
		Location string `json:"location,omitempty"`
	}
	if s.logOutQuietly(r) && s.options.Issuer != nil {
		next.Location = s.options.Issuer.LogOut()
	}
	http.SetCookie(w, sessionCookie("", -1))
	answer(w, http.StatusOK, next)
	return nil
}

// logOutQuietly ends the session of a request, and reports whether it began at the issuer.
func (s *Sessions) logOutQuietly(r *http.Request) (atIssuer bool) {
	one, err := s.find(r)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(one, whyLoggedOut)
	return one.grant.Token != ""
}

// choose shows another namespace in the session of a request. Streams of the one before end.
func (s *Sessions) choose(w http.ResponseWriter, r *http.Request) error {
	var wanted struct {
		Namespace string `json:"namespace"`
	}
	_, ctx, end, err := s.begin(r)
	if err != nil {
		return err
	}
	defer end()
	if err := decode(w, r, &wanted, maxLogin); err != nil {
		return err
	}
	if err := checkNamespace(wanted.Namespace); err != nil {
		return err
	}
	one, err := s.find(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := one.member
	s.mu.Unlock()
	next, err := before.In(ctx, wanted.Namespace)
	if err != nil {
		return err
	}
	if err := s.replace(one, before, next); err != nil {
		next.Close()
		return err
	}
	answer(w, http.StatusOK, next.User())
	return nil
}

// replace shows another member in a session, unless it has changed meanwhile.
func (s *Sessions) replace(one *session, before, next Member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[one.key] != one || one.member != before {
		return Error{http.StatusConflict, "your session has changed meanwhile: load the page again"}
	}
	one.end()
	before.Close()
	one.member = next
	one.live, one.end = context.WithCancel(context.Background())
	return nil
}

func checkNamespace(name string) error {
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return Error{http.StatusBadRequest, "namespace: no namespace can have this name"}
	}
	return nil
}

// attempts limits logins by address. A further address forgets the one that was used least lately.
type attempts struct {
	mu    sync.Mutex
	known *cache.LRUExpireCache
}

const (
	// attemptsAtOnce and attemptEvery bound the logins of an address, successful ones included.
	attemptsAtOnce = 20
	attemptEvery   = 6 * time.Second
	knownAddresses = 4096
	addressesFor   = 10 * time.Minute
)

func newAttempts() *attempts { return &attempts{known: cache.NewLRUExpireCache(knownAddresses)} }

// allow reports whether an address may try to log in.
func (a *attempts) allow(address string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := networkOf(address)
	found, _ := a.known.Get(key)
	limiter, known := found.(*rate.Limiter)
	if !known {
		limiter = rate.NewLimiter(rate.Every(attemptEvery), attemptsAtOnce)
	}
	a.known.Add(key, limiter, addressesFor)
	return limiter.Allow()
}

// networkOf returns what one client may have all of: an address of IPv4, and the first half of one of IPv6.
func networkOf(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	const half = 64
	if parsed = parsed.Unmap(); parsed.Is6() {
		network, _ := parsed.WithZone("").Prefix(half) // it is valid
		return network.String()
	}
	return parsed.String()
}

// Proxies are the networks of proxies that name their clients.
type Proxies []netip.Prefix

// ClientOf returns the address of the client of a request: of a proxy the last one of X-Forwarded-For that is no proxy.
func (p Proxies) ClientOf(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.has(address); i-- {
		next := strings.TrimSpace(hops[i])
		if _, err := netip.ParseAddr(next); err != nil {
			break
		}
		address = next
	}
	return address
}

func (p Proxies) has(address string) bool {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	for _, network := range p {
		if network.Contains(parsed.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

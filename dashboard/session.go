package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/rouse-run/rouse/internal/fair"
)

// Credentials are what a user logs in with.
type Credentials struct {
	Token string `json:"token"`
	// Namespace is the one that the user wants to see; empty for all, or for the user's own.
	Namespace string `json:"namespace"`
	// Address is the one that the request came from.
	Address string `json:"-"`
}

// Directory knows users by their tokens. Its errors are for the user; ErrUnauthenticated means that a token is not valid.
type Directory interface {
	LogIn(ctx context.Context, c Credentials) (Member, error)
}

// Member is a user who has logged in.
type Member interface {
	User() User
	// Review fails with ErrUnauthenticated when the user's token is not valid any more. Another error means that this is unknown.
	Review(ctx context.Context) error
	// Renew has everything read with another token of the same user. It fails with ErrUnauthenticated for one of another user.
	Renew(ctx context.Context, token string) error
	// In returns the user in another namespace.
	In(ctx context.Context, namespace string) (Member, error)
	// Close releases what is held for the user.
	Close()
}

// SessionOptions bound sessions.
type SessionOptions struct {
	Total, PerUser int           // sessions at a time
	Idle, Lifetime time.Duration // without a request, and at all
	// Review is the interval at which a token is reviewed, and Unknown how long a session lasts while that fails.
	Review, Unknown time.Duration
	// Proxies report whether an address is that of a proxy, which names its client.
	Proxies Proxies
	// Issuer is where users log in besides; nil: nowhere.
	Issuer Issuer
}

// DefaultSessionOptions returns the options for a cluster.
func DefaultSessionOptions() SessionOptions {
	return SessionOptions{
		Total: 512, PerUser: 8, Idle: time.Hour, Lifetime: 12 * time.Hour, Review: 20 * time.Second, Unknown: 2 * time.Minute,
	}
}

// Sessions are the users who have logged in. They are an Access by a cookie. They are safe for concurrent use.
type Sessions struct {
	options   SessionOptions
	directory Directory
	log       logr.Logger
	logins    logins
	attempts  *attempts
	pending   *pendings
	places    *fair.Pool
	ended     *cache.LRUExpireCache // why sessions ended, by key

	mu  sync.Mutex
	all map[sessionKey]*session
}

// sessionKey is the hash of a session's id, so that ids are compared in no order that could be measured.
type sessionKey = [sha256.Size]byte

// session is a user who has logged in. Its fields are protected by the lock of its Sessions.
type session struct {
	key     sessionKey
	owner   string
	member  Member
	began   time.Time
	used    time.Time
	checked time.Time // when the token was last known to be valid
	open    int       // requests in progress
	grant   Grant     // of a login at the issuer
	// live ends with the session, or when its user goes to another namespace.
	live context.Context //nolint:containedctx // it bounds the requests of the session
	end  context.CancelFunc

	renewing sync.Mutex // is held while the token is renewed
}

const (
	// rememberedEnds bounds the ended sessions whose reasons are known, and rememberedFor for how long.
	rememberedEnds = 1024
	rememberedFor  = time.Hour
	// sweepInterval is the interval at which sessions are looked through, and reviewAtATime how many tokens are reviewed at a time.
	sweepInterval  = 5 * time.Second
	reviewAtATime  = 4
	reviewTimeout  = 10 * time.Second
	whyTokenEnded  = "your session has ended, because your token is not valid any more: log in with a new one"
	whyIdle        = "your session has ended, because it was not used for a while: log in again"
	whyOld         = "your session has ended after its longest time: log in again"
	whyUnknown     = "your session has ended, because the API server does not say whether your token is valid: log in again"
	whyReplaced    = "your session has ended, because you have begun more of them than one user may have: log in again"
	whyLoggedOut   = "you have logged out"
	whyNotLoggedIn = "log in first"
)

// NewSessions returns Sessions, which Run keeps.
func NewSessions(directory Directory, options SessionOptions, log logr.Logger) *Sessions {
	return &Sessions{
		options: options, directory: directory, log: log, logins: newLogins(), attempts: newAttempts(),
		pending: newPendings(), all: map[sessionKey]*session{},
		places: fair.NewPool(fair.Limits{Total: int64(options.Total)}), ended: cache.NewLRUExpireCache(rememberedEnds),
	}
}

// Run ends sessions whose time is over, until ctx ends, and then all of them.
func (s *Sessions) Run(ctx context.Context) error {
	ticker := time.NewTicker(min(sweepInterval, s.options.Review))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			s.sweep(func(*session) string { return whyNotLoggedIn })
			return nil
		case now := <-ticker.C:
			s.sweep(func(one *session) string { return s.over(one, now) })
			s.reviewDue(ctx, now)
		}
	}
}

// over returns why a session is over, empty if it is not. The caller holds the lock.
func (s *Sessions) over(one *session, now time.Time) string {
	switch {
	case now.Sub(one.began) >= s.options.Lifetime:
		return whyOld
	case one.open == 0 && now.Sub(one.used) >= s.options.Idle:
		return whyIdle
	case one.open > 0 && now.Sub(one.checked) >= s.options.Unknown:
		return whyUnknown
	}
	return ""
}

// sweep ends the sessions for which there is a reason.
func (s *Sessions) sweep(why func(*session) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if reason := why(one); reason != "" {
			s.drop(one, reason)
		}
	}
}

// reviewDue reviews the tokens of sessions with open requests, such as streams. Others are reviewed at their next request.
func (s *Sessions) reviewDue(ctx context.Context, now time.Time) {
	s.mu.Lock()
	var due []*session
	for _, one := range s.all {
		if one.open > 0 && now.Sub(one.checked) >= s.options.Review {
			due = append(due, one)
		}
	}
	s.mu.Unlock()
	slots := make(chan struct{}, reviewAtATime)
	var reviews sync.WaitGroup
	for _, one := range due {
		slots <- struct{}{}
		reviews.Go(func() {
			_ = s.review(ctx, one) // what is unknown stays so until it is over
			<-slots
		})
	}
	reviews.Wait()
}

// review ends a session whose token is not valid any more.
func (s *Sessions) review(ctx context.Context, one *session) error {
	s.renew(ctx, one)
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	s.mu.Lock()
	member := one.member
	s.mu.Unlock()
	err := member.Review(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		one.checked = time.Now()
	case errors.Is(err, ErrUnauthenticated):
		s.drop(one, whyTokenEnded)
		return Error{http.StatusUnauthorized, whyTokenEnded}
	}
	return err
}

// add begins a session. One of the user's is ended when there are as many as one user may have.
func (s *Sessions) add(member Member, grant Grant) (id string, err error) {
	id = rand.Text()
	now, user := time.Now(), member.User()
	one := &session{key: sha256.Sum256([]byte(id)), owner: user.share(), member: member, began: now, used: now, checked: now, grant: grant}
	one.live, one.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *session
	own := 0
	for _, other := range s.all {
		if other.member.User().Name != user.Name {
			continue
		}
		if own++; oldest == nil || other.used.Before(oldest.used) {
			oldest = other
		}
	}
	if own >= s.options.PerUser {
		s.drop(oldest, whyReplaced)
	}
	if !s.places.TryAcquire(one.owner, 1) {
		one.end()
		return "", Error{http.StatusServiceUnavailable, "there are too many sessions: log out elsewhere, or try again later"}
	}
	s.all[one.key] = one
	return id, nil
}

// drop ends a session. The caller holds the lock.
func (s *Sessions) drop(one *session, why string) {
	if s.all[one.key] != one {
		return
	}
	delete(s.all, one.key)
	s.places.Release(one.owner, 1)
	s.ended.Add(one.key, why, rememberedFor)
	one.end()
	one.member.Close()
	s.log.Info("session ended", "user", one.member.User().Name, "reason", why)
}

// find returns the session of a request, or an error that says why there is none.
func (s *Sessions) find(r *http.Request) (*session, error) {
	key := sha256.Sum256([]byte(cookieOf(r, cookieName)))
	s.mu.Lock()
	defer s.mu.Unlock()
	one, found := s.all[key]
	if !found {
		ended, _ := s.ended.Get(key)
		text, _ := ended.(string)
		return nil, Error{http.StatusUnauthorized, cmp.Or(s.pending.why(cookieOf(r, loginCookie)), text, whyNotLoggedIn)}
	}
	if why := s.over(one, time.Now()); why == whyOld || why == whyIdle {
		s.drop(one, why)
		return nil, Error{http.StatusUnauthorized, why}
	}
	return one, nil
}

// Count returns the number of sessions.
func (s *Sessions) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// begin returns the user of a request, and a context that ends with the session. The caller calls end.
func (s *Sessions) begin(r *http.Request) (user User, ctx context.Context, end func(), err error) {
	one, err := s.find(r)
	if err != nil {
		return User{}, nil, nil, err
	}
	s.mu.Lock()
	due := time.Since(one.checked) >= s.options.Review
	s.mu.Unlock()
	if due {
		if err := s.review(r.Context(), one); err != nil {
			return User{}, nil, nil, undecided(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.open++
	one.used = time.Now()
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(one.live, cancel)
	return one.member.User(), ctx, func() {
		stop()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		one.open--
		one.used = time.Now()
	}, nil
}

// undecided returns an error for the user whose token could not be reviewed.
func undecided(err error) error {
	if _, known := errors.AsType[Error](err); known {
		return err
	}
	return Error{http.StatusServiceUnavailable, "the API server does not say whether your token is valid: try again"}
}

package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// maxPending bounds the logins at the issuer that have begun, and pendingFor how long each may take.
	maxPending = 1024
	pendingFor = 10 * time.Minute
)

// pending is a login at the issuer that has begun.
type pending struct {
	secrets                  Secrets
	namespace, path, address string
	owner                    string
	before                   *session // of the same browser
	ends                     time.Time
	taken                    bool   // the answer of the issuer has come
	why                      string // the login page says this
}

// pendings are the logins at the issuer, by the hash of the cookie of their browser. They are safe for concurrent use.
type pendings struct {
	places *fair.Pool

	mu  sync.Mutex
	all map[sessionKey]*pending
}

func newPendings() *pendings {
	return &pendings{places: fair.NewPool(fair.Limits{Total: maxPending}), all: map[sessionKey]*pending{}}
}

// add adds a login in place of the one before of the same browser, and returns the value of its cookie.
func (p *pendings) add(one *pending, before string) (id string, err error) {
	id = rand.Text()
	one.ends = time.Now().Add(pendingFor)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(sha256.Sum256([]byte(before)))
	for key, other := range p.all {
		if !time.Now().Before(other.ends) {
			p.remove(key)
		}
	}
	if !p.places.TryAcquire(one.owner, 1) {
		return "", Error{http.StatusTooManyRequests, "too many logins from your address have begun and not ended: wait for ten minutes"}
	}
	p.all[sha256.Sum256([]byte(id))] = one
	return id, nil
}

// remove removes a login, if it is there. The caller holds the lock.
func (p *pendings) remove(key sessionKey) {
	if one := p.all[key]; one != nil {
		delete(p.all, key)
		p.places.Release(one.owner, 1)
	}
}

// find returns the login of a cookie, or nil. The caller holds the lock.
func (p *pendings) find(id string) *pending {
	one := p.all[sha256.Sum256([]byte(id))]
	if one == nil || !time.Now().Before(one.ends) {
		return nil
	}
	return one
}

// take returns the login of a cookie and a state, once, and the path that is shown next. An answer to another login ends none.
func (p *pendings) take(id, state string) (one *pending, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.find(id)
	switch {
	case found == nil:
		return nil, "/"
	case found.taken:
		return nil, found.path
	case subtle.ConstantTimeCompare([]byte(state), []byte(found.secrets.State)) == 0:
		found.why = whyOtherTab
		return nil, found.path
	}
	found.taken, found.why = true, ""
	return found, found.path
}

// fail has the login page say why a login has failed.
func (p *pendings) fail(id, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.find(id); one != nil {
		one.why = why
	}
}

// forget removes a login.
func (p *pendings) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(sha256.Sum256([]byte(id)))
}

// why returns why the login of a cookie has led to no session; empty when nothing is known.
func (p *pendings) why(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch one := p.find(id); {
	case one != nil:
		return one.why
	case id != "":
		return whyForgotten
	}
	return ""
}

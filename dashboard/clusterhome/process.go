package clusterhome

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dashboard/alerts"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Access says who users are and what they may do.
type Access interface {
	Authenticate(r *http.Request) (identity.User, error)
	Authorize(ctx context.Context, user identity.User, right identity.Right) error
}

// ProcessDeps are the dependencies of a Process.
type ProcessDeps struct {
	// Own is the connection of the process, by which it finds the parts of Rouse.
	Own *target.Connection
	// Access authenticates users, and judges their rights to what bridges have.
	Access Access
	// BridgeToken returns the process's token for the admin API.
	BridgeToken func() (string, error)
	// Note records an Event on an object; nil: none are recorded.
	Note func(object *unstructured.Unstructured, reason, note string)
	// Changes lets users change what they may.
	Changes bool
	Records int // of the journal
	Alerts  alerts.Limits
	Log     logr.Logger
}

// Process is the home of a dashboard in the cluster, which has several users. It implements dashboard.Directory.
type Process struct {
	deps    ProcessDeps
	records *journal.Journal
	watch   *alerts.Watch

	mu    sync.Mutex
	found time.Time
	urls  []string
}

// NewProcess returns a Process, which Run and Watch keep up to date.
func NewProcess(deps ProcessDeps) *Process {
	return &Process{deps: deps, records: journal.New(deps.Records), watch: alerts.NewWatch(deps.Alerts)}
}

// bridgesAge is how long the addresses of bridges are used again.
const bridgesAge = 5 * time.Second

// bridges returns the admin APIs of all bridges.
func (p *Process) bridges(ctx context.Context) ([]target.Admin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.found) >= bridgesAge {
		urls, err := p.deps.Own.BridgeURLs(ctx)
		if err != nil {
			return nil, err
		}
		p.urls, p.found = urls, time.Now()
	}
	token, err := p.deps.BridgeToken()
	if err != nil {
		return nil, err
	}
	admins := make([]target.Admin, len(p.urls))
	for i, url := range p.urls {
		admins[i] = target.Admin{URL: url, Token: token}
	}
	return admins, nil
}

// LogIn implements dashboard.Directory.
func (p *Process) LogIn(ctx context.Context, c dashboard.Credentials) (dashboard.Member, error) {
	who, err := p.identify(ctx, c.Token, c.Address)
	if err != nil {
		return nil, err
	}
	known := &login{token: c.Token, who: who, address: c.Address}
	return p.open(ctx, known, c.Namespace, true)
}

// identify returns whose a token is.
func (p *Process) identify(ctx context.Context, token, address string) (identity.User, error) {
	request := &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}, RemoteAddr: net.JoinHostPort(address, "0")}
	who, err := p.deps.Access.Authenticate(request.WithContext(ctx))
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return who, dashboard.ErrUnauthenticated
	case errors.Is(err, identity.ErrBusy):
		return who, dashboard.Error{Status: http.StatusTooManyRequests, Text: "too many users log in at the moment: try again in a few seconds"}
	case err != nil:
		return who, dashboard.Error{Status: http.StatusServiceUnavailable, Text: "the API server does not say whether the token is valid: try again"}
	}
	return who, nil
}

// open returns a user in a namespace, or in all if the user may see all. A ServiceAccount has its own namespace else.
func (p *Process) open(ctx context.Context, of *login, namespace string, guess bool) (*member, error) {
	conn, err := p.deps.Own.As(of.tokenNow, namespace)
	if err != nil {
		return nil, err
	}
	who := of.user().Name
	shown, err := mayShow(ctx, conn, namespace)
	own := ownNamespace(who)
	if err == nil && !shown && namespace == "" && guess && own != "" {
		namespace, conn.Namespace = own, own
		shown, err = mayShow(ctx, conn, own)
	}
	if err == nil && !shown {
		err = dashboard.Error{Status: http.StatusForbidden, Text: refusal(who, namespace)}
	}
	if err != nil {
		_ = conn.Close() // nothing was asked that could fail now
		return nil, refused(err)
	}
	objects, err := conn.Objects()
	if err != nil {
		return nil, err
	}
	home := New(conn, objects, namespace)
	home.served = &served{process: p, login: of}
	return &member{process: p, login: of, namespace: namespace, home: home}, nil
}

// mayShow reports whether the user of a connection may list Functions.
func mayShow(ctx context.Context, conn *target.Connection, namespace string) (bool, error) {
	of, _ := conn.Kubernetes()
	functions := resourceOf(dashboard.KindFunction)
	return of.May(ctx, authorizationv1.ResourceAttributes{Verb: "list", Group: functions.Group, Resource: functions.Resource, Namespace: namespace})
}

func refusal(user, namespace string) string {
	if namespace == "" {
		return user + " may not list Functions in all namespaces: name a namespace of yours"
	}
	return user + " may not list Functions in namespace " + namespace + ": name another one, or ask for a RoleBinding there to the ClusterRole view"
}

// ownNamespace returns the namespace of a ServiceAccount, empty for other users.
func ownNamespace(user string) string {
	account, is := strings.CutPrefix(user, "system:serviceaccount:")
	if !is {
		return ""
	}
	namespace, _, _ := strings.Cut(account, ":")
	return namespace
}

// login is the token of a user, and whose it is. Namespaces of one session share it.
type login struct {
	address string

	mu    sync.Mutex
	token string
	who   identity.User
}

func (l *login) tokenNow() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

func (l *login) user() identity.User {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.who
}

// member is a user who has logged in. It implements dashboard.Member.
type member struct {
	process   *Process
	login     *login
	namespace string
	home      *Home
}

// User implements dashboard.Member.
func (m *member) User() dashboard.User {
	who := m.login.user()
	return dashboard.User{
		Name: who.Name, Changes: m.process.deps.Changes, Namespace: m.namespace, Session: true, Share: who.Owner(), Held: m,
	}
}

// Review implements dashboard.Member.
func (m *member) Review(ctx context.Context) error {
	_, err := m.process.identify(ctx, m.login.tokenNow(), m.login.address)
	return err
}

// Renew implements dashboard.Member.
func (m *member) Renew(ctx context.Context, token string) error {
	who, err := m.process.identify(ctx, token, m.login.address)
	if err != nil {
		return err
	}
	m.login.mu.Lock()
	defer m.login.mu.Unlock()
	if who.Name != m.login.who.Name {
		return dashboard.ErrUnauthenticated
	}
	m.login.token, m.login.who = token, who
	return nil
}

// In implements dashboard.Member.
func (m *member) In(ctx context.Context, namespace string) (dashboard.Member, error) {
	return m.process.open(ctx, m.login, namespace, false)
}

// Close implements dashboard.Member.
func (m *member) Close() { _ = m.home.conn.Close() } // nothing is written that could be lost

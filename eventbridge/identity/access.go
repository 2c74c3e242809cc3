package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/rouse-run/rouse/internal/daemon"
)

// Access decides about requests.
type Access interface {
	// Authenticate says who asks. Its errors are, or wrap, those of this package.
	Authenticate(r *http.Request) (User, error)
	// Authorize is nil when the user has the right, and ForbiddenError when not.
	Authorize(ctx context.Context, user User, right Right) error
}

// User is who asks.
type User struct {
	Name string

	info  authenticationv1.UserInfo
	token hash
}

// What a request is refused for.
var (
	ErrUnauthenticated = errors.New("the token of the header Authorization: Bearer is missing, has expired, or is none of this cluster: log in again, " +
		"or make one with kubectl create token")
	// ErrBusy means that the source or the user has caused too many reviews.
	ErrBusy = errors.New("too many logins and rights are being checked, try again in a few seconds")
	// ErrRightUndecided means that the API server gave no answer.
	ErrRightUndecided = errors.New("the API server does not say who may do that, so nobody may: try again; if that lasts, the log of the eventbridge " +
		"has the reason, and kubectl get clusterrolebindings whether the eventbridge may create tokenreviews and subjectaccessreviews")
)

// ForbiddenError means that a user lacks a right.
type ForbiddenError struct {
	User  string
	Right Right
}

// Error says what to do.
func (f ForbiddenError) Error() string {
	return fmt.Sprintf("%s may not %s: %s", f.User, f.Right, f.Right.remedy())
}

// Token allows everything to who has it, on this machine alone: for local mode, which has no Kubernetes.
type Token string

// errNoToken is for people who find the token in the state folder of their local mode.
var errNoToken = fmt.Errorf("%w; a local mode takes its own token, from this machine", ErrUnauthenticated)

// Authenticate implements Access.
func (t Token) Authenticate(r *http.Request) (User, error) {
	address, err := netip.ParseAddr(sourceOf(r))
	if err != nil || !address.Unmap().IsLoopback() || !daemon.HasBearer(r, string(t)) {
		return User{}, errNoToken
	}
	return User{Name: "local"}, nil
}

// Authorize implements Access.
func (Token) Authorize(context.Context, User, Right) error { return nil }

// sourceOf is the address that a request comes from: with a port-forward or an Ingress that of another machine than the user's.
func sourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// The groups of resources that rights are on.
const (
	group         = "rouse.run" // virtual: no API server serves it
	groupEventing = "eventing.kyma-project.io"
)

// Right is what a request needs: a verb on a resource, in one namespace or, where that is empty, in all.
type Right struct {
	Verb, Group, Resource, Subresource string
	Namespace                          string
}

// ListSubscriptions shows what waits for Subscriptions. Their status says about as much, so that it is the right to list them.
func ListSubscriptions(namespace string) Right {
	return Right{Verb: "list", Group: groupEventing, Resource: "subscriptions", Namespace: namespace}
}

// ListDeadLetters shows them without their events.
func ListDeadLetters(namespace string) Right { return deadLetters("list", "", namespace) }

// GetDeadLetter shows one with its event.
func GetDeadLetter(namespace string) Right { return deadLetters("get", "", namespace) }

// Redrive delivers dead letters again.
func Redrive(namespace string) Right { return deadLetters("create", "redrive", namespace) }

// Purge deletes dead letters.
func Purge(namespace string) Right { return deadLetters("delete", "", namespace) }

// ListEvents shows what happened to events.
func ListEvents(namespace string) Right { return events("list", namespace) }

// WatchEvents follows it.
func WatchEvents(namespace string) Right { return events("watch", namespace) }

func deadLetters(verb, subresource, namespace string) Right {
	return Right{Verb: verb, Group: group, Resource: "deadletters", Subresource: subresource, Namespace: namespace}
}

func events(verb, namespace string) Right {
	return Right{Verb: verb, Group: group, Resource: "events", Namespace: namespace}
}

// String is for people: list deadletters.rouse.run in namespace orders.
func (r Right) String() string {
	resource := r.Resource + "." + r.Group
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace == "" {
		return r.Verb + " " + resource + " in all namespaces"
	}
	return r.Verb + " " + resource + " in namespace " + r.Namespace
}

// role is the one of Kubernetes that has the right, by the chart's roles that are aggregated into it.
func (r Right) role() string {
	if r.Verb == "list" || r.Verb == "watch" {
		return "view"
	}
	return "edit"
}

// remedy says what a user without the right can do. kubectl auth can-i knows virtual resources by --list alone.
func (r Right) remedy() string {
	if r.Namespace == "" {
		return "name a namespace that is yours, or ask for a ClusterRoleBinding to the ClusterRole " + r.role()
	}
	return "ask for a RoleBinding there to the ClusterRole " + r.role() +
		"; kubectl auth can-i --list -n " + r.Namespace + " shows what you may do"
}

// review asks whether a user has the right.
func (r Right) review(user authenticationv1.UserInfo) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		},
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
	}
}

// ownerOf is whose share of reviews a user takes: a tenant makes ServiceAccounts as many as it likes in its namespace.
func ownerOf(user string) string {
	const accounts = "system:serviceaccount:"
	if account, ok := strings.CutPrefix(user, accounts); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return accounts + namespace
	}
	return user
}

const (
	rightFreshFor = 30 * time.Second // how long an answer allows
	// knownFor is how long a user counts as known, whose token is reviewed before those that were never good.
	knownFor        = 10 * time.Minute
	deniedFor       = 5 * time.Second
	rightRefusedFor = 10 * time.Second
	limitersFor     = time.Minute

	maxUsers     = 1024
	maxRefused   = 1024
	maxDecisions = 4096
	maxLimiters  = 1024
)

// hash stands for a token.
type hash = [sha256.Size]byte

// reviewed is a user, and when that was the answer.
type reviewed struct {
	user User
	at   time.Time
}

func (r reviewed) isFresh() bool { return time.Since(r.at) < rightFreshFor }

// question is whether the user of a token has a right.
type question struct {
	token hash
	right Right
}

// memory is a bounded cache whose oldest entries make room.
type memory[K comparable, V any] struct{ entries *cache.LRUExpireCache }

func remember[K comparable, V any](size int) memory[K, V] {
	return memory[K, V]{cache.NewLRUExpireCache(size)}
}

func (m memory[K, V]) get(key K) (value V, found bool) {
	entry, found := m.entries.Get(key)
	value, _ = entry.(V)
	return value, found
}

func (m memory[K, V]) add(key K, value V, lasts time.Duration) { m.entries.Add(key, value, lasts) }

func (m memory[K, V]) remove(key K) { m.entries.Remove(key) }

// limits bound how many reviews each source of new tokens, and each user, may cause.
type limits struct {
	mu    sync.Mutex
	known memory[string, *rate.Limiter]
	each  rate.Limit
	burst int
}

func newLimits(perSecond rate.Limit, burst int) *limits {
	return &limits{known: remember[string, *rate.Limiter](maxLimiters), each: perSecond, burst: burst}
}

func (l *limits) allow(whose string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, found := l.known.get(whose)
	if !found {
		limiter = rate.NewLimiter(l.each, l.burst)
	}
	l.known.add(whose, limiter, limitersFor) // it lasts while it is used
	return limiter.Allow()
}

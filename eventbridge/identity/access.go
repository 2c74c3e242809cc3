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

// Access authenticates and authorizes requests of the admin API.
type Access interface {
	// Authenticate returns the user of a request. Its errors are or wrap those of this package.
	Authenticate(r *http.Request) (User, error)
	// Authorize returns nil when the user has the right, and a ForbiddenError when not.
	Authorize(ctx context.Context, user User, right Right) error
}

// User is an authenticated user.
type User struct {
	Name string

	info  authenticationv1.UserInfo
	token hash
}

// Owner returns the name under which the user is limited. ServiceAccounts are limited by namespace, because a tenant can create any number
// of them.
func (u User) Owner() string { return ownerOf(u.Name) }

// Errors of an Access.
var (
	ErrUnauthenticated = errors.New("the token of the header Authorization: Bearer is missing, has expired, or is not valid in this cluster: log in again, " +
		"or make one with kubectl create token")
	// ErrBusy means that the source or the user has caused too many reviews.
	ErrBusy = errors.New("too many logins and rights are being checked, try again in a few seconds")
	// ErrRightUndecided means that the API server did not answer.
	ErrRightUndecided = errors.New("the API server did not review the request's rights: try again; if that lasts, the log of the eventbridge " +
		"has the reason, and kubectl get clusterrolebindings whether the eventbridge may create tokenreviews and subjectaccessreviews")
)

// ForbiddenError means that a user lacks a right.
type ForbiddenError struct {
	User  string
	Right Right
}

// Error names the missing right and the remedy.
func (f ForbiddenError) Error() string {
	return fmt.Sprintf("%s may not %s: %s", f.User, f.Right, f.Right.remedy())
}

// Token allows everything to the holder of the token on this machine. It is for local mode, which has no Kubernetes.
type Token string

// errNoToken also tells the user of a local mode where its token works.
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

// sourceOf returns the remote address of a request. Through a port-forward or an Ingress it is not the user's machine.
func sourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// The API groups of the rights.
const (
	group         = "rouse.run" // virtual: no API server serves it
	groupEventing = "eventing.kyma-project.io"
)

// Right is what a request requires: a verb on a resource, in one namespace or, if that is empty, in all.
type Right struct {
	Verb, Group, Resource, Subresource string
	Namespace                          string
}

// ListSubscriptions allows reading the backlog of Subscriptions. It is the right to list Subscriptions, whose status
// shows about as much.
func ListSubscriptions(namespace string) Right {
	return Right{Verb: "list", Group: groupEventing, Resource: "subscriptions", Namespace: namespace}
}

// ListDeadLetters allows listing dead letters without their events.
func ListDeadLetters(namespace string) Right { return deadLetters("list", "", namespace) }

// GetDeadLetter allows reading a dead letter with its event.
func GetDeadLetter(namespace string) Right { return deadLetters("get", "", namespace) }

// Redrive allows delivering dead letters again.
func Redrive(namespace string) Right { return deadLetters("create", "redrive", namespace) }

// Purge allows deleting dead letters.
func Purge(namespace string) Right { return deadLetters("delete", "", namespace) }

// ListEvents allows reading the journal of events.
func ListEvents(namespace string) Right { return events("list", namespace) }

// InvokeFunctions allows calling Functions over HTTP from the dashboard, which reaches them where a user may not.
func InvokeFunctions(namespace string) Right {
	return Right{Verb: "create", Group: group, Resource: "functions", Subresource: "invoke", Namespace: namespace}
}

// WatchEvents allows following the journal.
func WatchEvents(namespace string) Right { return events("watch", namespace) }

// ListDelayed allows listing events that are due later, without their data.
func ListDelayed(namespace string) Right {
	return Right{Verb: "list", Group: group, Resource: "delayedevents", Namespace: namespace}
}

// CancelDelayed allows deleting them.
func CancelDelayed(namespace string) Right {
	return Right{Verb: "delete", Group: group, Resource: "delayedevents", Namespace: namespace}
}

// ListSchedules allows listing Schedules with what has become of them.
func ListSchedules(namespace string) Right {
	return Right{Verb: "list", Group: group, Resource: "schedules", Namespace: namespace}
}

// RunSchedule allows running a Schedule by hand.
func RunSchedule(namespace string) Right {
	return Right{Verb: "create", Group: group, Resource: "schedules", Subresource: "run", Namespace: namespace}
}

func deadLetters(verb, subresource, namespace string) Right {
	return Right{Verb: verb, Group: group, Resource: "deadletters", Subresource: subresource, Namespace: namespace}
}

func events(verb, namespace string) Right {
	return Right{Verb: verb, Group: group, Resource: "events", Namespace: namespace}
}

// String returns a readable form: list deadletters.rouse.run in namespace orders.
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

// role returns the Kubernetes role that includes the right through the chart's aggregated roles.
func (r Right) role() string {
	if r.Verb == "list" || r.Verb == "watch" {
		return "view"
	}
	return "edit"
}

// remedy returns what a user without the right can do. kubectl auth can-i accepts virtual resources only with --list.
func (r Right) remedy() string {
	if r.Namespace == "" {
		return "name a namespace that is yours, or ask for a ClusterRoleBinding to the ClusterRole " + r.role()
	}
	return "ask for a RoleBinding there to the ClusterRole " + r.role() +
		"; kubectl auth can-i --list -n " + r.Namespace + " shows what you may do"
}

// review returns the review of whether a user has the right.
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

// ownerOf returns the Owner of the user with a name.
func ownerOf(user string) string {
	const accounts = "system:serviceaccount:"
	if account, ok := strings.CutPrefix(user, accounts); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return accounts + namespace
	}
	return user
}

const (
	rightFreshFor = 30 * time.Second // how long an allowed answer is reused
	// knownFor is how long a user's tokens are reviewed with priority over tokens that were never valid.
	knownFor        = 10 * time.Minute
	deniedFor       = 5 * time.Second
	rightRefusedFor = 10 * time.Second
	limitersFor     = time.Minute

	maxUsers     = 1024
	maxRefused   = 1024
	maxDecisions = 4096
	maxLimiters  = 1024
)

// hash is the hash of a token.
type hash = [sha256.Size]byte

// reviewed is a user and the time of the review.
type reviewed struct {
	user User
	at   time.Time
}

func (r reviewed) isFresh() bool { return time.Since(r.at) < rightFreshFor }

// question identifies the review of a right for the user of a token.
type question struct {
	token hash
	right Right
}

// memory is a bounded LRU cache.
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

// limits is a rate limiter of reviews per source of new tokens or per user.
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
	l.known.add(whose, limiter, limitersFor) // renewed while it is used
	return limiter.Allow()
}

package identity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	authenticationv1 "k8s.io/api/authentication/v1"

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

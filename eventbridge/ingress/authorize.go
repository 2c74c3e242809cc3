package ingress

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

var (
	// ErrUnauthenticated is an Authorize's answer to a client without a valid token.
	ErrUnauthenticated = errors.New("publishing needs the header Authorization: Bearer <token>, with a token of a ServiceAccount for this eventbridge")
	// ErrUndecided is its answer while the API server cannot review a token.
	ErrUndecided = errors.New("the token cannot be checked now")
	// ErrForbidden is a Permission's answer to an event that its holder may not publish.
	ErrForbidden = errors.New("this may not be published")
)

// Authorize returns what the holder of a token, "" for none, may publish: ErrUnauthenticated, ErrUndecided or a Permission.
type Authorize func(ctx context.Context, token string) (Permission, error)

// Permission returns ErrForbidden for an event that may not be published, under its own type and, if that is not empty,
// an old one. It sets the Publisher of one that may.
type Permission func(ev *cloudevent.Event, oldType string) error

func anything(*cloudevent.Event, string) error { return nil }

// permission asks before anything of the body is read.
func (h *handler) permission(r *http.Request) (Permission, error) {
	if h.authorize == nil {
		return anything, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	return h.authorize(r.Context(), strings.TrimSpace(token))
}

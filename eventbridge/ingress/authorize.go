package ingress

import (
	"context"
	"errors"
	"fmt"
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

// errOtherOrigin refuses what a page of another site has a browser send.
var errOtherOrigin = fmt.Errorf("%w: a web page of another origin sends it, with a content type for which browsers ask nobody; "+
	"publish with application/json or application/cloudevents+json, through a gateway whose CORS policy allows the page", ErrForbidden)

var sameOrigin = http.NewCrossOriginProtection()

// checkOrigin refuses what any web page may have a browser send without a preflight, which no publish path answers. A browser says
// where a request comes from; other clients say nothing.
func checkOrigin(r *http.Request) error {
	switch mediaType(r.Header.Get("Content-Type")) {
	case "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data":
		if sameOrigin.Check(r) != nil {
			return errOtherOrigin
		}
	}
	return nil
}

// permission asks before anything of the body is read.
func (h *handler) permission(r *http.Request) (Permission, error) {
	if err := checkOrigin(r); err != nil {
		return nil, err
	}
	if h.authorize == nil {
		return anything, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	return h.authorize(r.Context(), strings.TrimSpace(token))
}

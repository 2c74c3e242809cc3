package main

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

// adminAccess is nil, and not an interface that holds nil, where there is no admin API. Its reviews have a client of their own, so
// that they wait for none of publishers.
func adminAccess(o admin.Options, log logr.Logger) (identity.Access, error) {
	if o.Address == "" {
		return nil, nil //nolint:nilnil // no API needs no access
	}
	reviews, err := kube.NewReviews()
	if err != nil {
		return nil, err
	}
	return identity.NewKubernetes(reviews, log.WithName("admin")), nil
}

// reviewerFor is nil, and not an interface that holds nil, where publishers need no token.
func reviewerFor(access routing.Access) (identity.Reviewer, error) {
	if access.Publish == nil {
		return nil, nil //nolint:nilnil // no reviewer is no error
	}
	reviews, err := kube.NewReviews()
	if err != nil {
		return nil, err
	}
	return reviewer{reviews}, nil
}

// reviewer asks the API server.
type reviewer struct{ reviews *kube.Reviews }

// Review implements identity.Reviewer.
func (r reviewer) Review(ctx context.Context, token, audience string) (identity.Account, error) {
	namespace, name, ok, err := r.reviews.ServiceAccountOf(ctx, token, audience)
	if err == nil && !ok {
		err = identity.ErrUnknown
	}
	return identity.Account{Namespace: namespace, Name: name}, err
}

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TokenReviews asks the API server whose tokens are.
type TokenReviews struct{ client client.Client }

// NewTokenReviews makes a client of its own for the cluster that the pod runs in, or that KUBECONFIG names.
func NewTokenReviews() (*TokenReviews, error) {
	rest, scheme, err := Cluster()
	if err != nil {
		return nil, err
	}
	c, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client for TokenReviews: %w", err)
	}
	return &TokenReviews{client: c}, nil
}

// ServiceAccountOf returns the ServiceAccount that a token for the audience is of. ok is false for any other token. An
// error means that there is no answer; it holds nothing of the token.
func (t *TokenReviews) ServiceAccountOf(ctx context.Context, token, audience string) (namespace, name string, ok bool, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	if err := t.client.Create(ctx, review); err != nil {
		return "", "", false, fmt.Errorf("create a TokenReview: %w", err)
	}
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, audience) {
		return "", "", false, nil
	}
	account, ok := strings.CutPrefix(review.Status.User.Username, "system:serviceaccount:")
	if !ok {
		return "", "", false, nil
	}
	namespace, name, ok = strings.Cut(account, ":")
	return namespace, name, ok, nil
}

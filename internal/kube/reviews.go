package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reviews authenticates tokens with the API server, and authorizes their users. Errors never contain a token.
type Reviews struct{ client client.Client }

// NewReviews returns Reviews with a client of its own for the cluster that the pod runs in, or that KUBECONFIG names.
func NewReviews() (*Reviews, error) {
	objects, err := NewClient()
	if err != nil {
		return nil, err
	}
	return &Reviews{client: objects}, nil
}

// ReviewsBy returns Reviews that use an existing client.
func ReviewsBy(c client.Client) *Reviews { return &Reviews{client: c} }

// ServiceAccountOf returns the ServiceAccount of a token for the audience. ok is false for any other token. An error
// means that the API server did not decide.
func (r *Reviews) ServiceAccountOf(ctx context.Context, token, audience string) (namespace, name string, ok bool, err error) {
	user, ok, err := r.UserOf(ctx, token, audience)
	if err != nil || !ok {
		return "", "", false, err
	}
	account, ok := strings.CutPrefix(user.Username, "system:serviceaccount:")
	if !ok {
		return "", "", false, nil
	}
	namespace, name, ok = strings.Cut(account, ":")
	return namespace, name, ok, nil
}

// UserOf returns the user of a token for the audience, or for the API server itself when audience is empty. ok is false
// for any other token. An error means that the API server did not decide.
func (r *Reviews) UserOf(ctx context.Context, token, audience string) (user authenticationv1.UserInfo, ok bool, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if audience != "" {
		review.Spec.Audiences = []string{audience}
	}
	if err := r.client.Create(ctx, review); err != nil {
		return user, false, fmt.Errorf("create a TokenReview: %w", err)
	}
	// An authenticator without audiences leaves them empty.
	if !review.Status.Authenticated || audience != "" && !slices.Contains(review.Status.Audiences, audience) {
		return user, false, nil
	}
	return review.Status.User, true, nil
}

// Allows reports whether a user is authorized. An error means that the API server did not decide.
func (r *Reviews) Allows(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	if err := r.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("create a SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

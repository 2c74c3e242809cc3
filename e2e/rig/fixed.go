package rig

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/routing"
)

// tokens are texts of the form namespace/name, and take so long to be reviewed.
type tokens time.Duration

// Review implements identity.Reviewer.
func (t tokens) Review(ctx context.Context, token, _ string) (identity.Account, error) {
	select {
	case <-time.After(time.Duration(t)):
	case <-ctx.Done():
		return identity.Account{}, ctx.Err()
	}
	namespace, name, ok := strings.Cut(token, "/")
	if !ok {
		return identity.Account{}, identity.ErrUnknown
	}
	return identity.Account{Namespace: namespace, Name: name}, nil
}

// fixedRoutes never change.
type fixedRoutes []routing.Route

// Watch implements eventbridge.Routes.
func (f fixedRoutes) Watch(ctx context.Context, apply func([]routing.Route)) error {
	apply(f)
	<-ctx.Done()
	return nil
}

// fixedEndpoints never change. A Service that has none is asleep.
type fixedEndpoints map[string][]string

// Watch implements sink.Endpoints.
func (f fixedEndpoints) Watch(
	ctx context.Context, service types.NamespacedName, _ int32, apply func([]routing.Endpoint),
) error {
	var endpoints []routing.Endpoint
	for _, address := range f[service.String()] {
		endpoints = append(endpoints, routing.Endpoint{Address: address, Ready: true})
	}
	apply(endpoints)
	<-ctx.Done()
	return nil
}

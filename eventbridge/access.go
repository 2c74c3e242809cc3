package eventbridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// publishAccess decides who may publish what, by the operator's rules.
type publishAccess struct {
	rules    routing.Access
	verifier *identity.Verifier
	denials  *prometheus.CounterVec
}

// newPublishAccess is nil where every client may publish everything. Without a reviewer no client can publish.
func newPublishAccess(rules routing.Access, reviewer identity.Reviewer, registerer prometheus.Registerer) *publishAccess {
	if rules.Publish == nil {
		return nil
	}
	a := &publishAccess{
		rules: rules,
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_publish_denials_total",
			Help: "Publishes that were refused by reason: unauthenticated, undecided or forbidden. Only of the last the namespace is known.",
		}, []string{"reason", "namespace"}),
	}
	if reviewer != nil {
		a.verifier = identity.New(reviewer, rules.Publish.Audience)
	}
	registerer.MustRegister(a.denials)
	return a
}

// authorizer is nil, and not a function that always allows, without rules.
func (a *publishAccess) authorizer() ingress.Authorize {
	if a == nil {
		return nil
	}
	return a.authorize
}

func (a *publishAccess) authorize(ctx context.Context, token string) (ingress.Permission, error) {
	if a.verifier == nil {
		a.denials.WithLabelValues("undecided", "").Inc()
		return nil, ingress.ErrUndecided
	}
	account, err := a.verifier.Verify(ctx, token)
	switch {
	case errors.Is(err, identity.ErrUnknown):
		a.denials.WithLabelValues("unauthenticated", "").Inc()
		return nil, ingress.ErrUnauthenticated
	case err != nil:
		a.denials.WithLabelValues("undecided", "").Inc()
		return nil, ingress.ErrUndecided
	}
	return func(ev *cloudevent.Event, oldType string) error {
		if err := a.rules.MayPublish(account.Namespace, account.Name, ev.Source, ev.Type, oldType); err != nil {
			a.denials.WithLabelValues("forbidden", account.Namespace).Inc()
			return fmt.Errorf("%w: %w", ingress.ErrForbidden, err)
		}
		ev.Publisher = account.Namespace
		return nil
	}, nil
}

// reply reports whether the sinks of a namespace may reply with an event. One that they may not is never stored.
func (a *publishAccess) reply(namespace string, ev *cloudevent.Event) error {
	if a == nil {
		return nil
	}
	if err := a.rules.MayPublish(namespace, "", ev.Source, ev.Type, ""); err != nil {
		a.denials.WithLabelValues("forbidden", namespace).Inc()
		return fmt.Errorf("%w: %w", dispatch.ErrUnpublishable, err)
	}
	ev.Publisher = namespace
	return nil
}

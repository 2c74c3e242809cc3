package clusterhome

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// served is what a process with several users does for one of them. It asks bridges with its own login, so each right is judged here.
type served struct {
	process *Process
	login   *login
}

// may returns nil when the user has a right. Where the bridges know the user, they decide.
func (h *Home) may(ctx context.Context, right identity.Right) error {
	if h.served == nil {
		return nil
	}
	return h.served.may(ctx, right)
}

func (s *served) may(ctx context.Context, right identity.Right) error {
	err := s.process.deps.Access.Authorize(ctx, s.login.user(), right)
	if err == nil {
		return nil
	}
	status := http.StatusServiceUnavailable
	if _, forbidden := errors.AsType[identity.ForbiddenError](err); forbidden {
		status = http.StatusForbidden
	}
	return dashboard.Error{Status: status, Text: err.Error()}
}

// missingRights returns what is not shown because the user lacks a right.
func (h *Home) missingRights(ctx context.Context) []dashboard.Problem {
	if h.served == nil {
		return nil
	}
	var problems []dashboard.Problem
	for _, right := range []identity.Right{identity.WatchEvents(h.namespace), identity.ListDeadLetters(h.namespace)} {
		if err := h.may(ctx, right); err != nil {
			problems = append(problems, dashboard.Problem{
				Object: "Your rights", Message: err.Error(), Remedy: "until then the pages about it are empty", Warning: true,
			})
		}
	}
	return problems
}

// bridges returns the admin APIs of all bridges, with the process's login.
func (s *served) bridges(ctx context.Context) ([]target.Admin, error) { return s.process.bridges(ctx) }

// within returns a query of the namespace that the home shows, unless it names another one.
func (h *Home) within(query journal.Query) journal.Query {
	query.Namespace = cmp.Or(query.Namespace, h.namespace)
	return query
}

func (s *served) each(ctx context.Context, query journal.Query, yield func(journal.Record) bool) {
	if s.may(ctx, identity.ListEvents(query.Namespace)) == nil {
		s.process.records.Each(query, yield)
	}
}

const (
	// judgeAgain is the interval at which the right of a follower is judged again, and undecidedTurns how often that may fail.
	judgeAgain     = 20 * time.Second
	undecidedTurns = 3
)

// follow follows the records until the user loses the right to them.
func (s *served) follow(ctx context.Context, query journal.Query, yield func(journal.Record)) {
	right := identity.WatchEvents(query.Namespace)
	if s.may(ctx, right) != nil {
		<-ctx.Done()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var judging sync.WaitGroup
	defer judging.Wait()
	defer cancel()
	judging.Go(func() {
		defer cancel()
		ticker := time.NewTicker(judgeAgain)
		defer ticker.Stop()
		for failures := 0; failures < undecidedTurns; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := s.process.deps.Access.Authorize(ctx, s.login.user(), right)
			if _, forbidden := errors.AsType[identity.ForbiddenError](err); forbidden {
				return
			}
			if failures++; err == nil {
				failures = 0
			}
		}
	})
	s.process.records.Follow(ctx, query, yield)
}

// originOf returns the Subscription of a dead letter, if somebody is to be told about it.
func (h *Home) originOf(ctx context.Context, bridge *target.Client, sequence uint64) types.NamespacedName {
	if h.served == nil {
		return types.NamespacedName{}
	}
	found, err := bridge.DeadLetter(ctx, h.namespace, sequence)
	if err != nil {
		return types.NamespacedName{} // the change will say why
	}
	return types.NamespacedName{Namespace: found.Namespace, Name: found.Subscription}
}

// note records an Event on an object that the user has done something with. An object that is gone has none.
func (h *Home) note(ctx context.Context, kind string, name types.NamespacedName, reason, what string) {
	if h.served == nil || h.served.process.deps.Note == nil || name.Name == "" {
		return
	}
	found, err := h.objects.Get(ctx, resourceOf(kind), name.Namespace, name.Name)
	if err != nil || found == nil {
		return
	}
	h.served.process.deps.Note(found, reason, what+" by "+h.served.login.user().Name)
}

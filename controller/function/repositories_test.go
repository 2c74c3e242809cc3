package function

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/gitpoll"
)

// fakeRepositories are those whose references the test moves.
type fakeRepositories struct {
	events chan event.GenericEvent

	mu        sync.Mutex
	found     map[string]gitpoll.Finding // by URL
	functions map[types.NamespacedName]gitpoll.Want
}

func newFakeRepositories() *fakeRepositories {
	return &fakeRepositories{
		events: make(chan event.GenericEvent, 100),
		found:  map[string]gitpoll.Finding{}, functions: map[types.NamespacedName]gitpoll.Want{},
	}
}

func (r *fakeRepositories) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (r *fakeRepositories) Events() <-chan event.GenericEvent { return r.events }

func (r *fakeRepositories) Commit(fn types.NamespacedName, want gitpoll.Want) (gitpoll.Finding, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.functions[fn] = want
	found, ok := r.found[want.URL]
	return found, ok
}

func (r *fakeRepositories) Forget(fn types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.functions, fn)
}

// find lets a check of the repository end.
func (r *fakeRepositories) find(url string, found gitpoll.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[url] = found
	for fn, want := range r.functions {
		if want.URL != url {
			continue
		}
		object := &v1alpha2.Function{}
		object.Namespace, object.Name = fn.Namespace, fn.Name
		r.events <- event.GenericEvent{Object: object}
	}
}

package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// definitionInterval is between looks for a CustomResourceDefinition.
const definitionInterval = 5 * time.Second

// WhenServed starts the controller of a kind of ours, at once or as soon as the API server serves it: an installation whose
// CustomResourceDefinitions are upgraded apart may lack one.
func WhenServed(mgr ctrl.Manager, kind schema.GroupVersionKind, start func() error) error {
	served := func() bool {
		_, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return !meta.IsNoMatchError(err)
	}
	if served() {
		return start()
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		mgr.GetLogger().Info("a CustomResourceDefinition is missing, and looked for from now on", "kind", kind.Kind)
		for !served() {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(definitionInterval):
			}
		}
		return start()
	}))
}

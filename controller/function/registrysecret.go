package function

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/registry"
)

// applyRegistrySecret gives the namespace the credentials of the Function's
// registry, and repairs what others have changed in them. A Secret of another
// owner under that name is a failure.
func (r *Reconciler) applyRegistrySecret(ctx context.Context, s *scope) (*failure, error) {
	config, err := s.registry.DockerConfig(s.tenant)
	if err != nil {
		return nil, err
	}
	desired, err := kube.ToUnstructured(resources.RegistrySecret(s.fn, config))
	if err != nil {
		return nil, err
	}
	key := registrySecretOf(client.ObjectKeyFromObject(s.fn))
	var live metav1.Object
	found := metadataOf(kindSecret)
	err = r.client.Get(ctx, key, found)
	switch {
	case err == nil:
		live = found
		err := kube.CheckOwner(live, kindSecret, s.fn, v1alpha2.GroupVersion.WithKind(resources.FunctionKind).GroupKind())
		if foreign := (&kube.ForeignError{}); errors.As(err, &foreign) {
			return &failure{reason: v1alpha2.ReasonRegistryInvalid, message: err.Error(), err: err}, nil
		}
		if err != nil {
			return nil, kube.Waiting(err, predecessorDelay)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("look for Secret %q: %w", key, err)
	}
	_, err = r.applier.Apply(ctx, desired, live, kube.Exclusive{"data"})
	return nil, err
}

func registrySecretOf(fn client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: fn.Namespace, Name: resources.RegistrySecretName(fn.Name)}
}

// tenantOf is the owner of a namespace's images.
func (r *Reconciler) tenantOf(ctx context.Context, namespace string) (registry.Tenant, error) {
	found := metadataOf(kindNamespace)
	if err := r.client.Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
		return registry.Tenant{}, fmt.Errorf("look for Namespace %q: %w", namespace, err)
	}
	return registry.Tenant{Namespace: namespace, UID: string(found.UID)}, nil
}

// authorizePull finds the credentials for an earlier version's image, where the
// spec's own needs none.
func (r *Reconciler) authorizePull(ctx context.Context, s *scope) error {
	if !s.rolledBack || s.registry != nil {
		return nil
	}
	found, err := r.registries.For(ctx, s.fn.Namespace)
	if _, invalid := errors.AsType[*images.InvalidError](err); invalid || found == nil && err == nil {
		return nil // the image may be on the node, and the pods say so if it is not
	}
	if err != nil {
		return fmt.Errorf("find the registry of %q: %w", s.fn.Name, err)
	}
	if !found.Has(s.code.Image) {
		return nil
	}
	if s.tenant, err = r.tenantOf(ctx, s.fn.Namespace); err != nil {
		return err
	}
	s.registry = found
	_, err = r.applyRegistrySecret(ctx, s)
	return err
}

// pullSecret is the Secret with which nodes pull the image of the pods.
func pullSecret(s *scope) string {
	if s.registry == nil || !s.registry.Has(s.code.Image) {
		return ""
	}
	return resources.RegistrySecretName(s.fn.Name)
}

package function

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/registry"
	"github.com/rouse-run/rouse/internal/kube"
)

// applyRegistrySecret gives the namespace the credentials of the Function's
// registry. A Secret of somebody else under that name is a failure.
func (r *Reconciler) applyRegistrySecret(ctx context.Context, s *scope) (*failure, error) {
	config := s.registry.DockerConfig()
	live := metadataOf(kindSecret)
	key := client.ObjectKey{Namespace: s.fn.Namespace, Name: resources.RegistrySecretName(s.fn)}
	options := []client.ApplyOption{kube.FieldOwner}
	err := r.client.Get(ctx, key, live)
	switch {
	case err == nil:
		err := kube.CheckOwner(live, kindSecret, s.fn, v1alpha2.GroupVersion.WithKind(resources.FunctionKind).GroupKind())
		if foreign := (&kube.ForeignError{}); errors.As(err, &foreign) {
			return &failure{reason: v1alpha2.ReasonRegistryInvalid, message: err.Error(), err: err}, nil
		}
		if err != nil {
			return nil, kube.Waiting(err, predecessorDelay)
		}
		if live.Labels[resources.LabelContent] == resources.ContentOf(config) {
			return nil, nil
		}
		options = append(options, client.ForceOwnership)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("look for Secret %q: %w", key, err)
	}
	if err := r.client.Apply(ctx, resources.RegistrySecret(s.fn, config), options...); err != nil {
		return nil, fmt.Errorf("apply Secret %q: %w", key, err)
	}
	return nil, nil
}

// authorizePull finds the credentials for an earlier version's image, where the
// spec's own needs none.
func (r *Reconciler) authorizePull(ctx context.Context, s *scope) error {
	if !s.recalled || s.registry != nil {
		return nil
	}
	found, err := r.registries.For(ctx, s.fn.Namespace)
	if _, invalid := errors.AsType[*registry.InvalidError](err); invalid || found == nil && err == nil {
		return nil // the image may be on the node, and the pods say so if it is not
	}
	if err != nil {
		return fmt.Errorf("find the registry of %q: %w", s.fn.Name, err)
	}
	if !found.Has(s.code.Image) {
		return nil
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
	return resources.RegistrySecretName(s.fn)
}

package function

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/function/resources"
)

// prepareInPods lets every pod install for itself, because there is no registry
// to keep an image in, or because the pod's image follows Kyma's contract.
func (r *Reconciler) prepareInPods(ctx context.Context, s *scope) error {
	id := fingerprint(imageTag(s.fn, *s.plan), string(r.ca))[:10]
	name := resources.PreparationName(s.fn, id)
	s.code.Image = s.plan.Base
	s.code.Prepared = resources.Prepared{Input: name, GitSecret: gitSecret(s.fn)}

	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.fn.Namespace, Name: name}, metadataOf(kindSecret))
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for Secret %q: %w", name, err)
	}
	if err := r.applyInput(ctx, s, name, resources.ResourcePreparation); err != nil {
		return err
	}
	return r.clearPreparations(ctx, s, name)
}

// clearPreparations deletes what no version needs any more that a rollback can
// still choose.
func (r *Reconciler) clearPreparations(ctx context.Context, s *scope, present string) error {
	sets := &appsv1.ReplicaSetList{}
	err := r.live.List(ctx, sets, client.InNamespace(s.fn.Namespace), client.MatchingLabels(resources.SelectorLabels(s.fn)))
	if err != nil {
		return fmt.Errorf("list the earlier versions of %q: %w", s.fn.Name, err)
	}
	used := map[string]bool{present: true}
	for _, code := range versionsOf(sets.Items) {
		used[code.Prepared.Input] = true
	}
	return r.deleteSecrets(ctx, s, resources.PreparationLabels(s.fn), used)
}

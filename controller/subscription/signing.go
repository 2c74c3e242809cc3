package subscription

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
)

const noKeyringMessage = "spec.delivery.webhook: this installation hands no keys to the eventbridge: install it with apiRules.enabled and doors.enabled"

// signingProblem hands the keys by which deliveries are signed to the bridges, and returns why they cannot be signed, empty if they
// can or need not be. An error beside it says when to try again; the Secret is watched.
func (r *Reconciler) signingProblem(ctx context.Context, sub *eventingv1alpha2.Subscription, route routing.Route) (string, error) {
	webhook := route.Delivery.Webhook
	switch {
	case webhook == nil:
		return "", nil
	case r.keyring == nil:
		return noKeyringMessage, nil
	}
	keys, err := r.keyring.Read(ctx, types.NamespacedName{Namespace: sub.Namespace, Name: webhook.SecretName})
	if err != nil {
		return "", err //nolint:wrapcheck // it names the Secret
	}
	_, invalid := door.NewSigner(keys)
	if invalid != nil {
		keys = nil // what the bridges had is taken out
	}
	unkept, err := r.keyring.Keep(ctx, sub, webhook.SecretName, keys)
	switch {
	case err != nil:
		return "", err //nolint:wrapcheck // it names the Secret
	case invalid != nil:
		return fmt.Sprintf("spec.delivery.webhook.secretName: Secret %s: %s", webhook.SecretName, invalid), nil
	case unkept != "":
		problem := "spec.delivery.webhook: " + unkept
		return problem, kube.Waiting(errors.New(problem), limitDelay)
	default:
		return "", nil
	}
}

// signingIndex finds the Subscriptions that sign by a Secret, by its namespace/name.
const signingIndex = "rouse.signing"

func indexSigning(object client.Object) []string {
	sub, ok := object.(*eventingv1alpha2.Subscription)
	if !ok || sub.Spec.Delivery == nil || sub.Spec.Delivery.Webhook == nil {
		return nil
	}
	return []string{sub.Namespace + "/" + sub.Spec.Delivery.Webhook.SecretName}
}

package credentials

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Make writes what is missing. It tries again until the timeout, because KEDA's namespace may come later, and others may write meanwhile.
func Make(ctx context.Context, objects client.Client, o *Options, log logr.Logger) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 2*time.Second, o.Timeout, true, func(ctx context.Context) (bool, error) {
		last = makeOnce(ctx, objects, o, log)
		if last != nil {
			log.Info("trying again", "reason", last.Error())
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func makeOnce(ctx context.Context, objects client.Client, o *Options, log logr.Logger) error {
	known := map[types.NamespacedName]*corev1.Secret{}
	for _, name := range Needed(o) {
		secret := &corev1.Secret{}
		err := objects.Get(ctx, name, secret)
		switch {
		case err == nil:
			known[name] = secret
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("read the Secret %s: %w", name, err)
		}
	}
	changed, err := Decide(o, known)
	if err != nil {
		return err
	}
	for _, secret := range changed {
		if secret.ResourceVersion == "" {
			err = objects.Create(ctx, secret)
		} else {
			err = objects.Update(ctx, secret)
		}
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("write the Secret %s: there is no namespace %q: make it, or name KEDA's in keda.namespace", secret.Name, secret.Namespace)
		}
		if err != nil {
			return fmt.Errorf("write the Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		log.Info("Secret written", "namespace", secret.Namespace, "name", secret.Name)
	}
	return nil
}

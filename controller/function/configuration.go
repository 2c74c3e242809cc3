package function

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// content is the part of a ConfigMap or Secret that pods see. Nil stands for one that does not exist.
type content struct {
	// salt is set for Secrets, so that a user who may read pods but not Secrets cannot guess a short value from the
	// hash.
	salt   types.UID
	values map[string][]byte
}

// readConfiguration hashes the ConfigMaps and Secrets of the pods if the user wants the pods to follow them.
func (r *Reconciler) readConfiguration(ctx context.Context, s *scope) error {
	if !followsConfiguration(s.fn) {
		return nil
	}
	references := s.references()
	contents := make(map[referent]*content, len(references))
	for _, ref := range references {
		if _, ok := contents[ref.referent]; ok {
			continue
		}
		found, err := r.readContent(ctx, s.fn.Namespace, ref.referent)
		if err != nil {
			return err
		}
		contents[ref.referent] = found
	}
	hash, complete := configurationHash(references, contents)
	if !complete && s.deployment != nil {
		// A pod would not start without them, and they may be in the middle of a replacement.
		if present := s.deployment.Spec.Template.Annotations[resources.AnnotationConfiguration]; present != "" {
			hash = present
		}
	}
	s.configuration = hash
	return nil
}

// readContent bypasses the cache, which holds no data of ConfigMaps and Secrets.
func (r *Reconciler) readContent(ctx context.Context, namespace string, of referent) (*content, error) {
	key := client.ObjectKey{Namespace: namespace, Name: of.name}
	found := &content{}
	var err error
	switch of.kind {
	case kindSecret:
		secret := &corev1.Secret{}
		err = r.live.Get(ctx, key, secret)
		found.salt, found.values = secret.UID, secret.Data
	default:
		config := &corev1.ConfigMap{}
		err = r.live.Get(ctx, key, config)
		found.values = maps.Clone(config.BinaryData)
		if found.values == nil {
			found.values = make(map[string][]byte, len(config.Data))
		}
		for name, value := range config.Data {
			found.values[name] = []byte(value)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %q: %w", of.kind, key, err)
	}
	return found, nil
}

// configurationHash hashes everything that the references resolve to. complete is false when an object is missing
// without which a pod does not start.
func configurationHash(references []reference, contents map[referent]*content) (sum string, complete bool) {
	complete = true
	digest := sha256.New()
	for _, ref := range references {
		found := contents[ref.referent]
		write(digest, ref.kind, ref.name, ref.key)
		switch {
		case found == nil:
			complete = complete && ref.optional
			write(digest, "missing")
		case ref.key == "":
			write(digest, string(found.salt))
			for _, key := range slices.Sorted(maps.Keys(found.values)) {
				write(digest, key, string(found.values[key]))
			}
		default:
			value, ok := found.values[ref.key]
			complete = complete && (ok || ref.optional)
			write(digest, string(found.salt), strconv.FormatBool(ok), string(value))
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), complete
}

// write separates the parts, so that different parts never give the same hash.
func write(digest hash.Hash, parts ...string) {
	for _, part := range parts {
		digest.Write(fmt.Appendf(nil, "%d:%s", len(part), part))
	}
}

// Kinds of the objects that a Function takes values from, and of the one that contains it.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindNamespace = "Namespace"
)

// referent is an object in the Function's namespace that it takes values from.
type referent struct{ kind, name string }

func (r referent) String() string { return r.kind + "/" + r.name }

// reference is a use of a referent: of one key or, when key is empty, of all.
type reference struct {
	referent
	key      string
	optional bool
}

// referencesOf lists the ConfigMaps and Secrets that the environment and the mounts refer to, sorted.
func referencesOf(fn *v1alpha2.Function) []reference {
	var found []reference
	for _, variable := range fn.Spec.Env {
		from := variable.ValueFrom
		switch {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			ref := from.ConfigMapKeyRef
			found = append(found, reference{referent{kindConfigMap, ref.Name}, ref.Key, ptr.Deref(ref.Optional, false)})
		case from.SecretKeyRef != nil:
			ref := from.SecretKeyRef
			found = append(found, reference{referent{kindSecret, ref.Name}, ref.Key, ptr.Deref(ref.Optional, false)})
		}
	}
	for _, mount := range fn.Spec.SecretMounts {
		found = append(found, reference{referent: referent{kindSecret, mount.SecretName}})
	}
	slices.SortStableFunc(found, func(a, b reference) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.key, b.key))
	})
	return found
}

// followsConfiguration reports whether a changed ConfigMap or Secret replaces the pods.
func followsConfiguration(fn *v1alpha2.Function) bool {
	return fn.Annotations[v1alpha2.AnnotationRestartOnChange] == "true"
}

// indexReferences returns the values of referenceIndex for a Function.
func indexReferences(object client.Object) []string {
	fn, ok := object.(*v1alpha2.Function)
	if !ok {
		return nil
	}
	var values []string
	if name := filesOf(fn); name != "" {
		values = append(values, referent{kindConfigMap, name}.String())
	}
	if followsConfiguration(fn) {
		for _, ref := range referencesOf(fn) {
			values = append(values, ref.String())
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// followers finds the Functions that follow an object of a kind.
func followers(reader client.Reader, kind string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		return functionRequests(ctx, reader, everyFunction, client.InNamespace(object.GetNamespace()),
			client.MatchingFields{referenceIndex: referent{kind, object.GetName()}.String()})
	})
}

// metadataOf returns an empty object of a kind whose metadata alone is read.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// boundIndex finds the Deployments into which a Secret was projected.
const boundIndex = "bound"

func indexBound(object client.Object) []string {
	deployment, ok := object.(*appsv1.Deployment)
	if !ok {
		return nil
	}
	return resources.Secrets(deployment.Spec.Template.Annotations)
}

// bound finds the Functions to which a runtime of servicebinding.io bound a Secret. Only their Deployments show it; a
// Function has its Deployment's name.
func bound(reader client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, secret client.Object) []reconcile.Request {
		deployments := &appsv1.DeploymentList{}
		err := reader.List(ctx, deployments, client.InNamespace(secret.GetNamespace()), client.MatchingFields{boundIndex: secret.GetName()})
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the deployments that a secret is bound to")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(deployments.Items))
		for i := range deployments.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&deployments.Items[i])})
		}
		return requests
	})
}

// boundSecrets names the Secrets of the services that the Function is bound to.
func (s *scope) boundSecrets() []string {
	if s.deployment == nil {
		return nil
	}
	return resources.Secrets(s.deployment.Spec.Template.Annotations)
}

// references lists everything that the pods take values from: what the spec names and what is bound.
func (s *scope) references() []reference {
	found := referencesOf(s.fn)
	for _, name := range s.boundSecrets() {
		ref := reference{referent: referent{kindSecret, name}}
		if !slices.Contains(found, ref) {
			found = append(found, ref)
		}
	}
	return found
}

// checkBindings prevents the controller and a runtime of servicebinding.io from overwriting each other, and restores
// fields that one of its webhooks removed meanwhile.
func (r *Reconciler) checkBindings(s *scope, wanted *appsv1ac.DeploymentApplyConfiguration) error {
	if s.deployment == nil {
		return nil
	}
	if conflict := resources.Conflict(&s.deployment.Spec.Template, wanted.Spec.Template.Spec); conflict != "" {
		return kube.Stalled(&failure{
			condition: v1alpha2.ConditionConfigurationReady, reason: v1alpha2.ReasonInvalidSpec, message: conflict,
		})
	}
	if claimedBefore(s.fn) {
		r.applier.Distrust("Deployment", client.ObjectKeyFromObject(s.deployment))
	}
	return nil
}

// claimedBefore reports whether a field that both a Function and a binding claim may have kept the Deployment from
// being applied, possibly by another process. The runtime's webhook may have removed fields that our managed fields
// still list.
func claimedBefore(fn *v1alpha2.Function) bool {
	before := meta.FindStatusCondition(fn.Status.Conditions, v1alpha2.ConditionConfigurationReady)
	return before != nil && before.Status == metav1.ConditionFalse && before.Reason == v1alpha2.ReasonInvalidSpec
}

package kube

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	serverlessv1alpha1 "github.com/rouse-run/rouse/api/serverless/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube/watch"
)

// Cluster returns the configuration of the cluster that the pod runs in, or that KUBECONFIG names, and the scheme of
// its types.
func Cluster() (*rest.Config, *runtime.Scheme, error) {
	found, err := config.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("find the cluster: %w", err)
	}
	scheme, err := NewScheme()
	if err != nil {
		return nil, nil, fmt.Errorf("register types: %w", err)
	}
	return found, scheme, nil
}

// NewScheme returns a scheme of Kubernetes' own types, those of Gateway API, and ours. It does not include KEDA's,
// whose objects are handled without Go types.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme),
		serverlessv1alpha1.AddToScheme(scheme),
		serverlessv1alpha2.AddToScheme(scheme),
		eventingv1alpha2.AddToScheme(scheme),
		gatewayv2.AddToScheme(scheme),
		operatorv1alpha1.AddToScheme(scheme),
		rousev1alpha1.AddToScheme(scheme),
		gatewayapi.Install(scheme),
	)
	return scheme, err
}

// SetLogger makes controller-runtime and client-go log to logger. There is no other way: client-go's watches and its
// leader election log through klog.
func SetLogger(logger logr.Logger) {
	log.SetLogger(logger)
	klog.SetLogger(logger)
}

// NewCache returns a cache of the cluster's objects for processes that only read: each kind that is read is watched. It
// reads the cluster that the pod runs in, or that KUBECONFIG names. It drops all annotations except the one for
// debugging, unless the kind has a transform of its own. Of pods it keeps only their location, for watch.Endpoints.
func NewCache(logger logr.Logger, kinds ...map[client.Object]cache.ByObject) (cache.Cache, error) {
	SetLogger(logger)
	config, scheme, err := Cluster()
	if err != nil {
		return nil, err
	}
	options := cache.Options{
		Scheme: scheme, DefaultTransform: withoutAnnotations, ByObject: watch.CacheObjects(), NewInformer: watch.NewInformer,
	}
	for _, kind := range kinds {
		maps.Copy(options.ByObject, kind)
	}
	objects, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	return objects, nil
}

// WithoutManagedFields is a cache transform for objects that are not applied: it drops managed fields and the copy of
// the whole object that kubectl apply leaves in an annotation.
func WithoutManagedFields(object any) (any, error) {
	if known, err := meta.Accessor(object); err == nil {
		known.SetManagedFields(nil)
		if annotations := known.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
			known.SetAnnotations(annotations)
		}
	}
	return object, nil
}

// NewConfigMapCache returns a cache of one ConfigMap, which needs only the permission to read that one. It keeps one
// key, whose value is truncated one byte above the bound. The other keys have no values.
func NewConfigMapCache(config *rest.Config, name types.NamespacedName, key string, bound int) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register types: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil) // the API server may not be reachable yet
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	c, err := cache.New(config, cache.Options{
		Scheme:            scheme,
		Mapper:            mapper,
		DefaultNamespaces: map[string]cache.Config{name.Namespace: {}},
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Field:     fields.OneTermEqualSelector("metadata.name", name.Name),
			Transform: func(object any) (any, error) { return onlyKey(object, key, bound), nil },
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of ConfigMap %s: %w", name, err)
	}
	return c, nil
}

func onlyKey(object any, key string, bound int) any {
	typed, ok := object.(*corev1.ConfigMap)
	if !ok {
		return object
	}
	typed.Annotations, typed.ManagedFields, typed.BinaryData = nil, nil, nil
	for name, value := range typed.Data {
		if name != key {
			value = ""
		}
		typed.Data[name] = strings.Clone(value[:min(len(value), bound+1)])
	}
	return object
}

// withoutAnnotations drops annotations, which may have 256 KiB, and managed fields.
func withoutAnnotations(object any) (any, error) {
	if known, err := meta.Accessor(object); err == nil {
		known.SetAnnotations(serverlessv1alpha2.DebugUntil(known.GetAnnotations()))
		known.SetManagedFields(nil)
	}
	return object, nil
}

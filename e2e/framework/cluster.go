package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// System is the namespace that Rouse is installed in.
const System = "rouse-system"

const fieldOwner = client.FieldOwner("rouse-e2e")

// Cluster is a connection to the cluster under test.
type Cluster struct {
	client.WithWatch
	Config *rest.Config
	Kube   kubernetes.Interface
}

// Connect opens the cluster that KUBECONFIG names.
func Connect() (*Cluster, error) {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		return nil, errors.New(`KUBECONFIG is not set: run "make cluster" and then eval "$(go run -C e2e/cluster . env)"`)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	config.QPS, config.Burst = 200, 400
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	withWatch, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Cluster{WithWatch: withWatch, Config: config, Kube: kube}, nil
}

// ApplyYAML applies every document of a manifest by server-side apply. A namespace, when given, is set on
// documents that have none.
func (c *Cluster) ApplyYAML(ctx context.Context, namespace, manifest string) error {
	for _, document := range splitDocuments(manifest) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			return fmt.Errorf("parse manifest: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetNamespace() == "" && namespace != "" && object.GetKind() != "Namespace" {
			object.SetNamespace(namespace)
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
	return nil
}

// CreateNamespace makes a namespace with a generated name, under Pod Security "restricted".
func (c *Cluster) CreateNamespace(ctx context.Context, prefix string) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: prefix + "-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := c.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("create namespace %s-*: %w", prefix, err)
	}
	return namespace.Name, nil
}

// DeleteNamespace deletes a namespace and waits until it is gone.
func (c *Cluster) DeleteNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return Await(ctx, 2*time.Minute, "namespace "+name+" to be gone", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// DeleteDefinition deletes a CustomResourceDefinition, which a chart leaves behind, and with it all its objects.
func (c *Cluster) DeleteDefinition(ctx context.Context, name string) error {
	definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := c.Delete(ctx, definition); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the CustomResourceDefinition %s: %w", name, err)
	}
	return nil
}

// slack is how much longer than on a machine with nothing else to do everything may take: waits bound what hangs, and
// measure nothing.
const slack = 3

// Await polls until the condition holds, for slack times the timeout. Errors of the condition do not end the wait,
// because servers restart under some features, but the last one before its end is reported.
func Await(ctx context.Context, timeout time.Duration, what string, condition wait.ConditionWithContextFunc) error {
	timeout *= slack
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		done, err := condition(ctx)
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return done && err == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waited %s for %s: %w", timeout, what, err), last)
	}
	return nil
}

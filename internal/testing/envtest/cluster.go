package envtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	gatewayv2alpha1 "github.com/rouse-run/rouse/api/gateway/v2alpha1"
	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Option configures a Cluster.
type Option func(*options)

type options struct {
	keda        bool
	gatewayAPI  bool
	addToScheme []func(*runtime.Scheme) error

	apiServerFlags, etcdFlags map[string]string
}

// WithKEDA also installs the CRD of KEDA's ScaledObject.
func WithKEDA() Option {
	return func(o *options) { o.keda = true }
}

// WithGatewayAPI also installs the CRDs of Gateway API's Gateways, HTTPRoutes and ReferenceGrants.
func WithGatewayAPI() Option {
	return func(o *options) { o.gatewayAPI = true }
}

// WithScheme adds types to the client's scheme, which includes those of Kubernetes, of apiextensions.k8s.io and of this
// project.
func WithScheme(add func(*runtime.Scheme) error) Option {
	return func(o *options) { o.addToScheme = append(o.addToScheme, add) }
}

// WithFlags sets flags of kube-apiserver and etcd, by their names without dashes, in place of envtest's.
func WithFlags(apiServer, etcd map[string]string) Option {
	return func(o *options) { o.apiServerFlags, o.etcdFlags = apiServer, etcd }
}

// controlPlaneTimeout allows for busy machines.
const controlPlaneTimeout = time.Minute

// Cluster is the kube-apiserver and etcd of one test package.
type Cluster struct {
	options options
	start   func() (*Environment, error)
	stop    func() error
}

// Environment gives tests access to a running Cluster.
type Environment struct {
	// Config connects to the kube-apiserver as a cluster administrator.
	Config *rest.Config
	// Scheme is the scheme of Client.
	Scheme *runtime.Scheme
	// Client reads and writes without a cache.
	Client client.Client

	plane *ctrlenvtest.Environment
}

// New returns a Cluster. It is started by Environment.
func New(opts ...Option) *Cluster {
	c := &Cluster{stop: func() error { return nil }}
	for _, opt := range opts {
		opt(&c.options)
	}
	c.start = sync.OnceValues(c.run)
	return c
}

// Main runs the tests of a package, stops the Cluster and the package's others, and returns the exit code.
func (c *Cluster) Main(m *testing.M, others ...*Cluster) int {
	code := m.Run()
	for _, each := range append(others, c) {
		if err := each.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop a test control plane:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Environment starts the Cluster unless it is running. It fails the test on an error.
func (c *Cluster) Environment(t testing.TB) *Environment {
	t.Helper()
	env, err := c.Start()
	if err != nil {
		t.Fatalf("start the test control plane: %v", err)
	}
	return env
}

// Start is Environment for programs other than tests. Stop stops the Cluster.
func (c *Cluster) Start() (*Environment, error) { return c.start() }

// Stop stops a Cluster that Start has started.
func (c *Cluster) Stop() error { return c.stop() }

// KubeConfig returns a kubeconfig for another user of the kube-apiserver, with the permissions that RBAC grants.
func (e *Environment) KubeConfig(user string, groups ...string) ([]byte, error) {
	added, err := e.plane.AddUser(ctrlenvtest.User{Name: user, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %q: %w", user, err)
	}
	return added.KubeConfig()
}

// Namespace makes a namespace for one test.
func (e *Environment) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	return namespace.Name
}

func (c *Cluster) run() (*Environment, error) {
	binaries, err := findAssets()
	if err != nil {
		return nil, err
	}
	crds, err := crdPaths(c.options)
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme(c.options.addToScheme)
	if err != nil {
		return nil, err
	}
	guarded, err := guard(binaries)
	if err != nil {
		return nil, err
	}

	plane := &ctrlenvtest.Environment{
		Scheme:                   scheme,
		CRDDirectoryPaths:        crds,
		CRDInstallOptions:        ctrlenvtest.CRDInstallOptions{MaxTime: controlPlaneTimeout},
		ErrorIfCRDPathMissing:    true,
		UseExistingCluster:       new(false), // regardless of the environment
		ControlPlaneStartTimeout: controlPlaneTimeout,
		ControlPlaneStopTimeout:  controlPlaneTimeout,
	}
	plane.ControlPlane.GetAPIServer().Path = guarded.apiServer
	plane.ControlPlane.Etcd = &ctrlenvtest.Etcd{Path: guarded.etcd}
	for flag, value := range c.options.apiServerFlags {
		plane.ControlPlane.GetAPIServer().Configure().Set(flag, value)
	}
	for flag, value := range c.options.etcdFlags {
		plane.ControlPlane.Etcd.Configure().Set(flag, value)
	}
	c.stop = func() error { return errors.Join(plane.Stop(), guarded.remove()) }

	config, err := plane.Start()
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	if err := lag(config); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	return &Environment{Config: config, Scheme: scheme, Client: kube, plane: plane}, nil
}

func newScheme(more []func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	adds := append([]func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		serverlessv1alpha2.AddToScheme,
		eventingv1alpha2.AddToScheme,
		gatewayv2.AddToScheme,
		gatewayv2alpha1.AddToScheme,
		operatorv1alpha1.AddToScheme,
		rousev1alpha1.AddToScheme,
		gatewayapi.Install,
	}, more...)
	for _, add := range adds {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return scheme, nil
}

// Object decodes a YAML manifest without any types in between.
func Object(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(manifest))
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(raw))
	return object
}

// Causes returns the kube-apiserver's validation errors, each as "field: message", without the note that rules were
// skipped because of them.
func Causes(t testing.TB, err error) []string {
	t.Helper()
	require.Error(t, err)
	require.True(t, apierrors.IsInvalid(err), "not rejected by validation: %v", err)
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		causes = append(causes, cause.Field+": "+cause.Message)
	}
	return causes
}

// Table returns the columns and rows that kubectl get prints for a resource of a namespace.
func (e *Environment) Table(t testing.TB, resource schema.GroupVersionResource, namespace string) *metav1.Table {
	t.Helper()
	clients, err := kubernetes.NewForConfig(e.Config)
	require.NoError(t, err)
	path := []string{"", "apis", resource.Group, resource.Version, "namespaces", namespace, resource.Resource}
	raw, err := clients.RESTClient().Get().AbsPath(strings.Join(path, "/")).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		DoRaw(t.Context())
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, json.Unmarshal(raw, table))
	return table
}

// Resource returns the discovery information of a resource.
func (e *Environment) Resource(t testing.TB, resource schema.GroupVersionResource) metav1.APIResource {
	t.Helper()
	clients, err := kubernetes.NewForConfig(e.Config)
	require.NoError(t, err)
	list, err := clients.Discovery().ServerResourcesForGroupVersion(resource.GroupVersion().String())
	require.NoError(t, err)
	for _, found := range list.APIResources {
		if found.Name == resource.Resource {
			return found
		}
	}
	require.Fail(t, "no such resource", resource.String())
	return metav1.APIResource{}
}

// ScaledObject returns one for the Deployment of its name. It needs WithKEDA.
func ScaledObject(namespace, name string, annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"name": name},
			"triggers":       []any{map[string]any{"type": "external-push", "metadata": map[string]any{"scalerAddress": "scaler:9090"}}},
		},
	}}
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetAnnotations(annotations)
	return object
}

package envtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	gatewayv2alpha1 "github.com/rouse-run/rouse/api/gateway/v2alpha1"
	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// controlPlaneTimeout is for machines that have much else to do.
const controlPlaneTimeout = time.Minute

// Cluster is the kube-apiserver and etcd of one test package.
type Cluster struct {
	options options
	start   func() (*Environment, error)
	stop    func() error
}

// Environment is what tests do with a running Cluster.
type Environment struct {
	// Config reaches the kube-apiserver as a cluster administrator.
	Config *rest.Config
	// Scheme knows the types of Client.
	Scheme *runtime.Scheme
	// Client reads and writes without a cache.
	Client client.Client

	plane *ctrlenvtest.Environment
}

// New describes a Cluster. Nothing starts before Environment is called.
func New(opts ...Option) *Cluster {
	c := &Cluster{stop: func() error { return nil }}
	for _, opt := range opts {
		opt(&c.options)
	}
	c.start = sync.OnceValues(c.run)
	return c
}

// Main runs the tests of a package and then stops what they started. It returns
// the exit code.
func (c *Cluster) Main(m *testing.M) int {
	code := m.Run()
	if err := c.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test control plane:", err)
		return max(code, 1)
	}
	return code
}

// Environment starts the Cluster unless it runs already. The test fails when
// that is impossible.
func (c *Cluster) Environment(t testing.TB) *Environment {
	t.Helper()
	env, err := c.Start()
	if err != nil {
		t.Fatalf("start the test control plane: %v", err)
	}
	return env
}

// Start is Environment for programs that are no tests. They end with Stop.
func (c *Cluster) Start() (*Environment, error) { return c.start() }

// Stop ends what Start has started.
func (c *Cluster) Stop() error { return c.stop() }

// KubeConfig is a kubeconfig by which a further user reaches the kube-apiserver, with the rights that RBAC gives.
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
		UseExistingCluster:       new(false), // whatever the environment has
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
		gatewayapi.Install,
	}, more...)
	for _, add := range adds {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return scheme, nil
}

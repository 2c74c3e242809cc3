package target

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/skew"
)

// The resources of a cluster that commands use.
func functionsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "serverless.kyma-project.io", Version: "v1alpha2", Resource: "functions"}
}

func subscriptionsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "eventing.kyma-project.io", Version: "v1alpha2", Resource: "subscriptions"}
}

func namespacesResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func podsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

func deploymentsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}

func slicesResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
}

// cluster is a Rouse in a Kubernetes cluster.
type cluster struct {
	options Options
	name    string // for messages
	config  *rest.Config
	http    *http.Client
	objects dynamic.Interface
	rest    rest.Interface // for lists of which few fields are read
	// forward returns a URL of a pod's port: forwardTo, which needs a kubelet, or addressOf.
	forward func(ctx context.Context, pod *corev1.Pod, port int32) (url string, err error)
	// system finds the parts of Rouse: this one, or that of the process for its users.
	system *cluster

	mu       sync.Mutex
	forwards map[string]*forward
}

func openCluster(o Options) (*Connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "read the kubeconfig: %w", err)
	}
	if _, has := raw.Contexts[o.Context]; o.Context != "" && !has {
		var names []string
		for name := range raw.Contexts {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) == 0 {
			return nil, exit.Errorf(exit.Unreachable, "there is no context %s, nor any other: name a file with --kubeconfig", o.Context)
		}
		return nil, exit.Errorf(exit.Unreachable, "there is no context %s; there are %s", o.Context, strings.Join(names, ", "))
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "read the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "read the kubeconfig: %w", err)
	}
	if o.Namespace != "" {
		namespace = o.Namespace
	}
	name := "the cluster of context " + cmp.Or(o.Context, raw.CurrentContext)
	if o.Context == "" && o.Kubeconfig != "" {
		name = "the cluster of " + o.Kubeconfig
	}
	c, err := newCluster(o, name, config)
	if err != nil {
		return nil, err
	}
	return &Connection{Target: c, Name: name, Namespace: namespace}, nil
}

func newCluster(o Options, name string, config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	config.QPS = -1 // requests of a single user
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "use the kubeconfig: %w", err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "use the kubeconfig: %w", err)
	}
	lists, err := rest.UnversionedRESTClientForConfigAndClient(dynamic.ConfigFor(config), client)
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "use the kubeconfig: %w", err)
	}
	c := &cluster{options: o, name: name, config: config, http: client, objects: objects, rest: lists, forwards: map[string]*forward{}}
	c.forward, c.system = c.forwardTo, c
	return c, nil
}

// Close implements Target.
func (c *cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.forwards {
		f.close()
	}
	c.forwards = nil
	c.http.CloseIdleConnections()
	return nil
}

// explain adds to an error of the API server the missing right or object.
func (c *cluster) explain(err error, verb, resource, namespace string) error {
	where := "in namespace " + namespace
	if namespace == "" {
		where = "in all namespaces"
	}
	switch {
	case err == nil, exit.CodeOf(err) == exit.Refused:
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case apierrors.IsForbidden(err):
		return exit.Errorf(exit.Unreachable, "you may not %s %s %s: ask for a role with that verb in %s", verb, resource, where, c.name)
	case apierrors.IsUnauthorized(err):
		return exit.Errorf(exit.Unreachable, "%s does not accept your credentials: log in again", c.name)
	case apierrors.IsNotFound(err):
		return exit.Errorf(exit.NotFound, "%s %s: %w", verb, resource, err)
	}
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return exit.Errorf(exit.Failed, "%s %s %s: %w", verb, resource, where, err)
	}
	return exit.Errorf(exit.Unreachable, "%s does not answer: %w", c.name, withoutURL(err))
}

// into converts an unstructured object.
func into[T any](content map[string]any) (T, error) {
	var object T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &object); err != nil {
		return object, fmt.Errorf("read what the API server sent: %w", err)
	}
	return object, nil
}

// intoAll converts the objects of a list.
func intoAll[T any](items []unstructured.Unstructured) ([]T, error) {
	objects := make([]T, 0, len(items))
	for _, item := range items {
		object, err := into[T](item.Object)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// notServed returns the reason that a resource is not found: Rouse is not installed, or its release serves another version.
func (c *cluster) notServed(ctx context.Context, people string, resource schema.GroupVersionResource) error {
	served, err := c.served(ctx, resource)
	if err != nil {
		return err
	}
	if err := skew.Resource(resource.Resource, resource.Version, served); err != nil {
		return exit.With(exit.Unreachable, err)
	}
	return exit.Errorf(exit.Unreachable, "%s has no %s: Rouse is not installed there", c.name, people)
}

// served returns the versions of a resource that the cluster serves.
func (c *cluster) served(ctx context.Context, resource schema.GroupVersionResource) ([]string, error) {
	var group metav1.APIGroup
	if err := c.discover(ctx, "/apis/"+resource.Group, &group); err != nil {
		return nil, err
	}
	var versions []string
	for _, version := range group.Versions {
		var list metav1.APIResourceList
		if err := c.discover(ctx, "/apis/"+version.GroupVersion, &list); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}

// discover reads a discovery document of the API server. A missing one stays empty.
func (c *cluster) discover(ctx context.Context, path string, into any) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, c.http)
	if err != nil {
		return exit.Errorf(exit.Unreachable, "use the kubeconfig: %w", err)
	}
	text, err := client.RESTClient().Get().AbsPath(path).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return c.explain(err, "get", path, "")
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read what the API server sent: %w", err)
	}
	return nil
}

const (
	// adminAccount is the chart's ServiceAccount with all rights.
	adminAccount = "rouse-admin"
	// tokenSeconds is the shortest lifetime that an API server grants.
	tokenSeconds = 600
)

func serviceAccountsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
}

// login returns the token for the admin API: the kubeconfig's token. A client certificate cannot be sent to a server
// other than the API server, and a token carries no impersonation: in these cases, and when the user names a
// ServiceAccount, login requests a token of a ServiceAccount, which is valid only for the admin API.
func (c *cluster) login(ctx context.Context) (string, error) {
	if c.options.ServiceAccount != "" {
		return c.accountToken(ctx, c.options.ServiceAccount)
	}
	if c.config.Impersonate.UserName == "" {
		token, err := tokenOf(ctx, c.config)
		if err != nil {
			return "", exit.Errorf(exit.Unreachable, "log in to %s: %w", c.name, err)
		}
		if token != "" {
			return token, nil
		}
	}
	return c.accountToken(ctx, c.options.RouseNamespace+"/"+adminAccount)
}

// tokenOf returns the bearer token of a kubeconfig, empty without one. It reads it from a request, because it may come from a file, a
// program or another plugin.
func tokenOf(ctx context.Context, config *rest.Config) (string, error) {
	wrapped, err := rest.HTTPWrappersForConfig(config, unsent{})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://unasked.invalid/", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := wrapped.RoundTrip(request)
	if err != nil {
		return "", withoutURL(err)
	}
	_ = response.Body.Close()
	token, _ := daemon.Bearer(response.Request)
	return token, nil
}

// unsent returns the request as it would have been sent.
type unsent struct{}

// RoundTrip implements http.RoundTripper.
func (unsent) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r,
	}, nil
}

// accountToken creates a token of a ServiceAccount, namespace/name.
func (c *cluster) accountToken(ctx context.Context, account string) (string, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", exit.Errorf(exit.Usage, "--service-account %q: use NAMESPACE/NAME", account)
	}
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"audiences": []any{identity.Audience}, "expirationSeconds": int64(tokenSeconds)},
	}}
	answer, err := c.objects.Resource(serviceAccountsResource()).Namespace(namespace).Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", c.explainLogin(err, namespace, name)
	}
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err != nil || token == "" {
		return "", fmt.Errorf("make a token of ServiceAccount %s: the response does not contain one", account)
	}
	return token, nil
}

func (c *cluster) explainLogin(err error, namespace, name string) error {
	const remedy = "name a ServiceAccount of yours with --service-account NAMESPACE/NAME, or use a kubeconfig that logs in with a token"
	why := ""
	if c.options.ServiceAccount == "" {
		why = "your kubeconfig has no token that the admin API could be shown, and "
	}
	switch {
	case apierrors.IsForbidden(err):
		return exit.Errorf(exit.Unreachable, "%syou may not create serviceaccounts/token for %s/%s in %s: %s; "+
			"kubectl auth can-i create serviceaccounts/%s --subresource=token -n %s says whether you may",
			why, namespace, name, c.name, remedy, name, namespace)
	case apierrors.IsNotFound(err):
		return exit.Errorf(exit.Unreachable, "%sthere is no ServiceAccount %s/%s in %s: %s", why, namespace, name, c.name, remedy)
	}
	return c.explain(err, "create", "serviceaccounts/token", namespace)
}

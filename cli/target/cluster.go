package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rouse-run/rouse/cli/exit"
)

// What is read and changed in a cluster.
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

// cluster is a Rouse in a Kubernetes.
type cluster struct {
	options Options
	name    string // for people
	config  *rest.Config
	http    *http.Client
	objects dynamic.Interface
	// forward opens a port of a pod on loopback, once, and returns its URL: forwardTo, which needs a kubelet.
	forward func(ctx context.Context, namespace, pod string, port int32) (url string, err error)

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
	name := "the cluster of context " + o.Context
	if o.Context == "" {
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
	config.QPS = -1 // one person's requests
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "use the kubeconfig: %w", err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, exit.Errorf(exit.Unreachable, "use the kubeconfig: %w", err)
	}
	c := &cluster{options: o, name: name, config: config, http: client, objects: objects, forwards: map[string]*forward{}}
	c.forward = c.forwardTo
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

// explain adds to an error of the API server what the user may not do with a resource, or what is missing.
func (c *cluster) explain(err error, verb, resource, namespace string) error {
	where := "in namespace " + namespace
	if namespace == "" {
		where = "in all namespaces"
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case apierrors.IsForbidden(err):
		return exit.Errorf(exit.Unreachable, "you may not %s %s %s: ask for a role with that verb in %s", verb, resource, where, c.name)
	case apierrors.IsUnauthorized(err):
		return exit.Errorf(exit.Unreachable, "%s does not accept your credentials: log in anew", c.name)
	case apierrors.IsNotFound(err):
		return exit.Errorf(exit.NotFound, "%s %s: %w", verb, resource, err)
	}
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return exit.Errorf(exit.Failed, "%s %s %s: %w", verb, resource, where, err)
	}
	return exit.Errorf(exit.Unreachable, "%s does not answer: %w", c.name, withoutURL(err))
}

// into reads an object that came without its type.
func into[T any](content map[string]any) (T, error) {
	var object T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &object); err != nil {
		return object, fmt.Errorf("read what the API server sent: %w", err)
	}
	return object, nil
}

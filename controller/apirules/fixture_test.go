package apirules

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	timeout = time.Minute
	soon    = 20 * time.Millisecond
)

var cluster = envtest.New(envtest.WithGatewayAPI())

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m))
}

// fixture is a namespace of a tenant and one of the release, with gateways and a controller.
type fixture struct {
	client.Client
	t       *testing.T
	tenant  string
	release string
	domain  string // of the gateway kyma-system/kyma-gateway, which is Rouse's own

	mu       sync.Mutex
	decided  []apirule.Exposure
	gateways map[string]*gateway // by address
}

// gateway is a fake gateway that reports what the test sets.
type gateway struct {
	server *httptest.Server
	behind bool // it ignores changes
	seen   map[string]apirule.Loaded
	found  []apirule.LoadedProblem
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	env := cluster.Environment(t)
	f := &fixture{Client: env.Client, t: t, tenant: env.Namespace(t), release: env.Namespace(t), gateways: map[string]*gateway{}}
	f.domain = f.tenant + ".example.com"
	return f
}

// options enables a gateway of our own and Gateways of Gateway API.
func (f *fixture) options() Options {
	return Options{
		APIRuleSettings: watch.APIRuleSettings{
			Enabled: true, GatewayAPI: true, Authorizers: []string{"sessions"},
			Domains: map[types.NamespacedName]string{{Namespace: "kyma-system", Name: "kyma-gateway"}: f.domain},
		},
		Entrance: types.NamespacedName{Namespace: f.release, Name: "rouse-gateway-http"},
		Gateways: types.NamespacedName{Namespace: f.release, Name: "rouse-gateway"},
	}
}

// start runs a controller until the test ends.
func (f *fixture) start(change ...func(*Options)) {
	f.t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(f.t, err)
	options := f.options()
	for _, c := range change {
		c(&options)
	}
	controllers := config.Controller{SkipNameValidation: new(true)} // many controllers in a process
	mgr, err := ctrl.NewManager(cluster.Environment(f.t).Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: controllers,
		// Limited to this test: other tests' controllers would write the status, too.
		Cache: cache.Options{
			ByObject: watch.GatewayServices(), DefaultTransform: Transform, DefaultNamespaces: map[string]cache.Config{f.tenant: {}, f.release: {}},
		},
	})
	require.NoError(f.t, err)
	require.NoError(f.t, Setup(mgr, f.dial, options))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-ended)
	})
	f.follow(mgr, options)
}

// follow makes the gateways load the current objects, as real ones do.
func (f *fixture) follow(mgr ctrl.Manager, options Options) {
	require.NoError(f.t, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return watch.APIRules(ctx, mgr.GetCache(), options.APIRuleSettings, func(all []apirule.Exposure) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.decided = all
		})
	})))
}

// gateway starts gateways at these addresses. All of them are ready unless they are terminating.
func (f *fixture) gateway(addresses ...string) {
	f.t.Helper()
	f.mu.Lock()
	for _, address := range addresses {
		g := &gateway{seen: map[string]apirule.Loaded{}}
		g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.report(w, r, g) }))
		f.t.Cleanup(g.server.Close)
		f.gateways[address] = g
	}
	f.mu.Unlock()
	f.listGateways()
}

// report serves the report of a gateway.
func (f *fixture) report(w http.ResponseWriter, r *http.Request, g *gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.URL.Path != "/apirules" {
		http.NotFound(w, r)
		return
	}
	if !g.behind {
		g.seen = map[string]apirule.Loaded{}
		for i := range f.decided {
			fingerprint, err := f.decided[i].Fingerprint()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			g.seen[f.decided[i].APIRule.String()] = apirule.Loaded{Fingerprint: fingerprint, Problems: g.found}
		}
	}
	_ = json.NewEncoder(w).Encode(apirule.Report{APIRules: g.seen})
}

// set changes a gateway.
func (f *fixture) set(address string, change func(*gateway)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.gateways[address])
}

// listGateways writes the slice of the gateways' Service as Kubernetes' own controller does.
func (f *fixture) listGateways() {
	f.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.release, Name: "rouse-gateway-x", Labels: map[string]string{discoveryv1.LabelServiceName: "rouse-gateway"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	err := f.Get(f.t.Context(), client.ObjectKeyFromObject(slice), slice)
	require.NoError(f.t, client.IgnoreNotFound(err))
	slice.Endpoints = nil
	f.mu.Lock()
	for address := range f.gateways {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	f.mu.Unlock()
	if err != nil {
		require.NoError(f.t, f.Create(f.t.Context(), slice))
		return
	}
	require.NoError(f.t, f.Update(f.t.Context(), slice))
}

// dial connects to the server of a gateway's address.
func (f *fixture) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	g := f.gateways[host]
	f.mu.Unlock()
	if g == nil || port != "9091" {
		return nil, errors.New("connection refused")
	}
	return (&net.Dialer{}).DialContext(ctx, network, g.server.Listener.Addr().String())
}

// rule creates a valid APIRule, with changes.
func (f *fixture) rule(name string, change ...func(*v2.APIRule)) *v2.APIRule {
	f.t.Helper()
	rule := &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.tenant, Name: name},
		Spec: v2.APIRuleSpec{
			Hosts: []v2.Host{v2.Host(name)}, Gateway: new("kyma-system/kyma-gateway"), Service: &v2.Service{Name: "price", Port: 80},
			Rules: []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: new(true)}},
		},
	}
	for _, c := range change {
		c(rule)
	}
	require.NoError(f.t, f.Create(f.t.Context(), rule))
	return rule
}

// edit changes an APIRule.
func (f *fixture) edit(rule *v2.APIRule, change func(*v2.APIRule)) {
	f.t.Helper()
	require.NoError(f.t, f.Get(f.t.Context(), client.ObjectKeyFromObject(rule), rule))
	before := rule.DeepCopy()
	change(rule)
	require.NoError(f.t, f.Patch(f.t.Context(), rule, client.MergeFrom(before)))
}

// service creates a Service in a namespace.
func (f *fixture) service(namespace, name string) *corev1.Service {
	f.t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	require.NoError(f.t, f.Create(f.t.Context(), service))
	return service
}

// await waits for a status of an APIRule.
func (f *fixture) await(rule *v2.APIRule, state v2.State, description string) *v2.APIRule {
	f.t.Helper()
	found := &v2.APIRule{}
	deadline := time.Now().Add(timeout)
	for {
		require.NoError(f.t, f.Get(f.t.Context(), client.ObjectKeyFromObject(rule), found))
		if found.Status.State == state && strings.Contains(found.Status.Description, description) {
			require.NotNil(f.t, found.Status.LastProcessedTime)
			return found
		}
		if time.Now().After(deadline) {
			require.FailNow(f.t, "the status does not come", "want %s, %s\ngot %s, %s", state, description, found.Status.State, found.Status.Description)
		}
		time.Sleep(soon)
	}
}

// httpRoute returns the HTTPRoute of a name, nil when it does not exist.
func (f *fixture) httpRoute(name string) *gatewayapi.HTTPRoute {
	f.t.Helper()
	route := &gatewayapi.HTTPRoute{}
	err := f.Get(f.t.Context(), client.ObjectKey{Namespace: f.tenant, Name: name}, route)
	require.NoError(f.t, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return route
}

// awaitRoute waits for an HTTPRoute with the host.
func (f *fixture) awaitRoute(name, host string) *gatewayapi.HTTPRoute {
	f.t.Helper()
	var found *gatewayapi.HTTPRoute
	require.Eventually(f.t, func() bool {
		found = f.httpRoute(name)
		return found != nil && len(found.Spec.Hostnames) == 1 && string(found.Spec.Hostnames[0]) == host
	}, timeout, soon)
	return found
}

// apiGateway creates a Gateway of the tenant for the hosts under its domain.
func (f *fixture) apiGateway(name string) *gatewayapi.Gateway {
	f.t.Helper()
	g := &gatewayapi.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.tenant, Name: name},
		Spec: gatewayapi.GatewaySpec{GatewayClassName: "any", Listeners: []gatewayapi.Listener{
			{Name: "http", Port: 80, Protocol: gatewayapi.HTTPProtocolType, Hostname: new(gatewayapi.Hostname("*." + f.domain))},
		}},
	}
	require.NoError(f.t, f.Create(f.t.Context(), g))
	return g
}

// answer sets the Gateway's conditions of an HTTPRoute, as an implementation does.
func (f *fixture) answer(route *gatewayapi.HTTPRoute, gateway string, conditions ...metav1.Condition) {
	f.t.Helper()
	require.NoError(f.t, f.Get(f.t.Context(), client.ObjectKeyFromObject(route), route))
	status := gatewayapi.RouteParentStatus{
		ControllerName: "example.com/any", ParentRef: gatewayapi.ParentReference{
			Namespace: new(gatewayapi.Namespace(f.tenant)), Name: gatewayapi.ObjectName(gateway),
		},
	}
	for _, condition := range conditions {
		condition.ObservedGeneration = route.Generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	route.Status.Parents = []gatewayapi.RouteParentStatus{status}
	require.NoError(f.t, f.Status().Update(f.t.Context(), route))
}

func accepted() metav1.Condition {
	return metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"}
}

func resolved() metav1.Condition {
	return metav1.Condition{Type: "ResolvedRefs", Status: metav1.ConditionTrue, Reason: "ResolvedRefs"}
}

// grants returns the names of the ReferenceGrants in the gateways' namespace.
func (f *fixture) grants() []string {
	f.t.Helper()
	list := &gatewayapi.ReferenceGrantList{}
	require.NoError(f.t, f.List(f.t.Context(), list, client.InNamespace(f.release)))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

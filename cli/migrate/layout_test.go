package migrate_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/migration"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const (
	rouseSystem = "rouse-system"
	kymaSystem  = "kyma-system"
	shop        = "shop"
	testTimeout = 2 * time.Minute
	tick        = 20 * time.Millisecond
)

// layout is a cluster as Kyma leaves it, with a Rouse beside: its controller of Subscriptions, its bridges' admin API, and for all
// else what the controllers write.
type layout struct {
	*envtest.Environment
	t          *testing.T
	nats       *natstest.Server
	conn       *broker.Conn
	kubeconfig string
	admin      string
	publish    func(subject string, data []byte) error
}

func newLayout(t *testing.T, cluster *envtest.Cluster) *layout {
	t.Helper()
	l := &layout{Environment: cluster.Environment(t), t: t, nats: natstest.Start(t)}
	for _, name := range []string{rouseSystem, kymaSystem, shop} {
		l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	l.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: rouseSystem, Name: "rouse-admin"}})
	l.serveIstio()
	l.writeKubeconfig()
	options := broker.DefaultOptions()
	options.URL = l.nats.URL()
	var err error
	l.conn, err = broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.conn.Close(context.Background())) })
	server := httptest.NewServer(admin.New(admin.Deps{
		Store: jetstream.NewAdminStore(l.conn, broker.DefaultStream, nil), Access: anybody{}, Log: logr.Discard(),
	}))
	t.Cleanup(server.Close)
	l.admin = server.URL
	l.release()
	return l
}

// anybody may do everything.
type anybody struct{}

func (anybody) Authenticate(*http.Request) (identity.User, error) {
	return identity.User{Name: "anybody"}, nil
}

func (anybody) Authorize(context.Context, identity.User, identity.Right) error { return nil }

func (l *layout) create(objects ...client.Object) {
	l.t.Helper()
	for _, object := range objects {
		require.NoError(l.t, l.Client.Create(l.t.Context(), object))
	}
}

func (l *layout) writeKubeconfig() {
	written := clientcmdapi.NewConfig()
	written.Clusters["test"] = &clientcmdapi.Cluster{Server: l.Config.Host, CertificateAuthorityData: l.Config.CAData}
	written.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: l.Config.CertData, ClientKeyData: l.Config.KeyData}
	written.Contexts["admin"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "admin", Namespace: shop}
	written.CurrentContext = "admin"
	l.kubeconfig = filepath.Join(l.t.TempDir(), "kubeconfig")
	require.NoError(l.t, clientcmd.WriteToFile(*written, l.kubeconfig))
}

// serveIstio adds the kinds of Istio's that Kyma's API gateway writes.
func (l *layout) serveIstio() {
	l.serve("networking.istio.io/v1", "virtualservices", "VirtualService")
	l.serve("security.istio.io/v1", "requestauthentications", "RequestAuthentication")
	l.serve("security.istio.io/v1", "authorizationpolicies", "AuthorizationPolicy")
}

// serve adds a kind without its schema.
func (l *layout) serve(apiVersion, plural, kind string) {
	l.t.Helper()
	group, version, _ := strings.Cut(apiVersion, "/")
	l.create(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
			}}},
		},
	})
}

// createServed creates an object of a kind that is served soon.
func (l *layout) createServed(object client.Object) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.Client.Create(l.t.Context(), object) == nil }, testTimeout, tick, "its kind is served soon")
}

// release is the controller's Deployment of a chart that fits the stream.
func (l *layout) release(flags ...string) {
	args := append([]string{
		"--stream-replicas=1", "--stream-max-bytes=700Mi", "--stream-max-msgs-per-subject=1000000", "--stream-duplicate-window=2m0s",
		"--migration=" + rouseSystem + "/" + migration.ConfigMap, "--apirules", "--publisher-alias=kyma-system/eventing-publisher-proxy",
	}, flags...)
	deployment := deploymentOf(rouseSystem, "rouse-controller", map[string]string{
		"app.kubernetes.io/part-of": "rouse", "app.kubernetes.io/component": "controller",
	}, args...)
	deployment.Annotations = map[string]string{"meta.helm.sh/release-name": "rouse"}
	l.create(deployment)
}

func deploymentOf(namespace, name string, labels map[string]string, args ...string) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "image", Args: args}}},
			},
		},
	}
}

// function is a Function with what Kyma has made for it, of today's and of its older releases.
func (l *layout) function(name string) *v1alpha2.Function {
	l.t.Helper()
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name},
		Spec:       v1alpha2.FunctionSpec{Runtime: v1alpha2.RuntimeNodeJS22, Source: v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports={}"}}},
	}
	l.create(fn)
	made := func(kind, random string, more map[string]any) *unstructured.Unstructured {
		object := envtest.Object(l.t, kind)
		object.SetNamespace(shop)
		object.SetName(name + "-" + random)
		object.SetLabels(functionLabels(fn, ""))
		object.SetOwnerReferences(ownerOf(fn))
		maps.Copy(object.Object, more)
		return object
	}
	old := deploymentOf(shop, name+"-x7k2p", functionLabels(fn, v1alpha2.ResourceDeployment))
	old.OwnerReferences = ownerOf(fn)
	template := map[string]any{"template": map[string]any{"spec": map[string]any{
		"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "i"}},
	}}}
	l.create(old,
		made("{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler}", "hq5nd", map[string]any{"spec": map[string]any{
			"maxReplicas": int64(2), "scaleTargetRef": map[string]any{"apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function", "name": name},
		}}),
		made("{apiVersion: batch/v1, kind: Job}", "build-tzz2k", map[string]any{"spec": template}),
		made("{apiVersion: v1, kind: ConfigMap}", "9cxkk", map[string]any{"data": map[string]any{"handler.js": "module.exports={}"}}))
	return fn
}

func functionLabels(fn *v1alpha2.Function, resource string) map[string]string {
	labels := map[string]string{
		v1alpha2.LabelFunctionName: fn.Name, v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelUUID: string(fn.UID),
	}
	if resource != "" {
		labels[v1alpha2.LabelResource] = resource
	}
	return labels
}

func ownerOf(fn *v1alpha2.Function) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind("Function"))}
}

// rouseServes writes what Rouse's controller makes for a Function: its Deployment, and what scales it.
func (l *layout) rouseServes(fn *v1alpha2.Function) {
	l.t.Helper()
	deployment := deploymentOf(shop, fn.Name, functionLabels(fn, v1alpha2.ResourceDeployment))
	scaled := envtest.ScaledObject(shop, fn.Name, nil)
	scaled.SetLabels(functionLabels(fn, ""))
	for _, object := range []client.Object{deployment, scaled} {
		object.SetOwnerReferences(ownerOf(fn))
		content, err := kube.ToUnstructured(object)
		require.NoError(l.t, err)
		unstructured.RemoveNestedField(content.Object, "status")
		require.NoError(l.t, l.Client.Apply(l.t.Context(), client.ApplyConfigurationFromUnstructured(content), kube.FieldOwner))
	}
}

// runPods plays the controller of Deployments: all have the pods that they ask for.
func (l *layout) runPods() {
	l.play(func(ctx context.Context) {
		list := &appsv1.DeploymentList{}
		_ = l.Client.List(ctx, list) // again at the next tick
		for i := range list.Items {
			d := &list.Items[i]
			n := *d.Spec.Replicas
			wanted := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
			if d.Status.ObservedGeneration != wanted.ObservedGeneration || d.Status.Replicas != wanted.Replicas {
				d.Status = wanted
				_ = l.Client.Status().Update(ctx, d)
			}
		}
	})
}

// runGateways plays the gateways of Rouse and their controller: all serve each APIRule that has a spec.
func (l *layout) runGateways() {
	l.play(func(ctx context.Context) {
		list := &v2.APIRuleList{}
		_ = l.Client.List(ctx, list) // again at the next tick
		for i := range list.Items {
			rule := &list.Items[i]
			if len(rule.Spec.Hosts) == 0 || rule.Status.ObservedGeneration == rule.Generation {
				continue
			}
			rule.Status = v2.APIRuleStatus{State: v2.StateReady, ObservedGeneration: rule.Generation, Conditions: []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()},
			}}
			_ = l.Client.Status().Update(ctx, rule)
		}
	})
}

// play does something at each tick until the test ends.
func (l *layout) play(do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			do(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(tick):
			}
		}
	}()
	l.t.Cleanup(func() { cancel(); <-ended })
}

// runController runs Rouse's controller of Subscriptions.
func (l *layout) runController() (stop func()) {
	l.t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(l.t, err)
	mgr, err := ctrl.NewManager(l.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	require.NoError(l.t, err)
	options := subscription.DefaultOptions()
	options.Migration = types.NamespacedName{Namespace: rouseSystem, Name: migration.ConfigMap}
	require.NoError(l.t, subscription.Setup(l.t.Context(), mgr, l.conn, prometheus.NewRegistry(), options))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(l.t, <-ended)
		}
	}
	l.t.Cleanup(stop)
	return stop
}

// apiRules are an APIRule of v2 and one of v1beta1, as Kyma stores it: without a spec, which an annotation has. Each has the objects of
// Kyma's API gateway, with the labels of its version.
func (l *layout) apiRules(name, older string) {
	l.t.Helper()
	rule := envtest.Object(l.t, `
apiVersion: gateway.kyma-project.io/v2
kind: APIRule
spec:
  hosts: [price.example.com]
  gateway: kyma-system/kyma-gateway
  service: {name: price, port: 80}
  rules: [{path: /*, methods: [GET], noAuth: true}]
`)
	old := envtest.Object(l.t, `
apiVersion: gateway.kyma-project.io/v2alpha1
kind: APIRule
metadata:
  annotations:
    gateway.kyma-project.io/original-version: v1beta1
    gateway.kyma-project.io/v1beta1-spec: >-
      {"host":"stock.example.com","gateway":"kyma-gateway.kyma-system.svc.cluster.local","service":{"name":"stock","port":80},
      "rules":[{"path":"/.*","methods":["GET"],"accessStrategies":[{"handler":"no_auth"}]}]}
`)
	for name, object := range map[string]*unstructured.Unstructured{name: rule, older: old} {
		object.SetNamespace(shop)
		object.SetName(name)
		object.SetFinalizers([]string{"gateway.kyma-project.io/subresources"})
		l.create(object)
	}
	for rule, labels := range map[string]map[string]string{
		name:  {"apirule.gateway.kyma-project.io/name": name, "apirule.gateway.kyma-project.io/namespace": shop},
		older: {"apirule.gateway.kyma-project.io/v1beta1": older + "." + shop},
	} {
		for _, kind := range []string{
			"{apiVersion: networking.istio.io/v1, kind: VirtualService}", "{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy}",
			"{apiVersion: security.istio.io/v1, kind: RequestAuthentication}",
		} {
			object := envtest.Object(l.t, kind)
			object.SetNamespace(shop)
			object.SetName(rule + "-k2z9x")
			object.SetLabels(labels)
			l.createServed(object)
		}
	}
}

// publisher is Kyma's publisher behind its Service, with the endpoints that Rouse's controller adds for the alias.
func (l *layout) publisher() {
	l.t.Helper()
	const name = "eventing-publisher-proxy"
	selector := map[string]string{"app.kubernetes.io/name": name}
	l.create(deploymentOf(kymaSystem, name, selector),
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: kymaSystem, Name: name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "operator.kyma-project.io/v1alpha1", Kind: "Eventing", Name: "eventing", UID: "4f4ee3b1-8f73-4f9c-8a9c-0c1f2a4b7d11"},
			}},
			Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Name: "http-client", Port: 80}}},
		})
	for slice, by := range map[string]string{name + "-abcde": "endpointslice-controller.k8s.io", name + "-ipv4": "alias.rouse.run"} {
		object := envtest.Object(l.t, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, endpoints: [{addresses: [10.1.2.3], conditions: {ready: true}}]}`)
		object.SetNamespace(kymaSystem)
		object.SetName(slice)
		object.SetLabels(map[string]string{"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": by})
		l.create(object)
	}
}

// serverless is the resource of Kyma's operator, which nobody releases any more.
func (l *layout) serverless() {
	object := envtest.Object(l.t, `{apiVersion: operator.kyma-project.io/v1alpha1, kind: Serverless, spec: {}}`)
	object.SetNamespace(kymaSystem)
	object.SetName("default")
	object.SetFinalizers([]string{"serverless-operator.kyma-project.io/deletion-hook"})
	l.create(object)
}

package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/daemon"
)

const (
	// readTimeout bounds an examination, and settleTime is the time between two looks at the consumers.
	readTimeout = 15 * time.Second
	settleTime  = 2 * time.Second
	// maxObjects bounds the objects of a kind that are read, and maxSecret the bytes of a certificate.
	maxObjects = 1000
	maxSecret  = 64 << 10
)

const (
	scaledObjects   = "scaledobjects.keda.sh"
	externalMetrics = "external.metrics.k8s.io"
	rouseParts      = "app.kubernetes.io/part-of=rouse"
	versionLabel    = "app.kubernetes.io/version"
	nodeLeases      = "kube-node-lease"
)

// reading reads the facts about one cluster.
type reading struct {
	conn       *target.Connection
	kubernetes target.Kubernetes
	bridge     Bridge
	settle     time.Duration
}

// Bridge returns the client of one bridge, since each has the numbers of all consumers.
type Bridge func(context.Context) (*target.Client, error)

// ReadCluster reads the facts about a cluster. It fails when the cluster does not answer at all.
func ReadCluster(ctx context.Context, conn *target.Connection, kubernetes target.Kubernetes, bridge Bridge) (Cluster, error) {
	return reading{conn, kubernetes, bridge, settleTime}.read(ctx)
}

func (r reading) read(ctx context.Context) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c := Cluster{
		Name: r.conn.Name, Namespace: r.conn.Namespace, RouseNamespace: r.kubernetes.RouseNamespace(), Client: daemon.Version(), Now: time.Now(),
	}
	server, err := r.kubernetes.Version(ctx)
	if err != nil {
		return Cluster{}, err
	}
	c.Server = known(Server(server), nil)
	c.Now = time.Now()
	var group errgroup.Group
	for _, read := range []func(){
		func() { c.Resources = r.resources(ctx) },
		func() { c.Components = r.components(ctx, c.RouseNamespace, rouseParts) },
		func() { c.KEDA = r.keda(ctx) },
		func() { c.Rights = r.rights(ctx) },
		func() { c.Certificates = r.certificates(ctx) },
		func() { c.Nodes = r.nodes(ctx) },
		func() { c.RousePods = known(list[corev1.Pod](ctx, r, pods(), c.RouseNamespace, rouseParts)) },
		func() {
			c.FunctionPods = known(list[corev1.Pod](ctx, r, pods(), c.Namespace, v1alpha2.LabelManagedBy+"="+v1alpha2.ManagedBy))
		},
		func() { c.Functions = r.functions(ctx) },
		func() { c.Policies = r.policies(ctx) },
		func() { c.Work = r.work(ctx) },
	} {
		group.Go(func() error {
			read()
			return nil
		})
	}
	return c, group.Wait()
}

func known[T any](value T, err error) Known[T] { return Known[T]{value, err} }

func list[T any](ctx context.Context, r reading, resource schema.GroupVersionResource, namespace, labels string) ([]T, error) {
	return target.ListOf[T](ctx, r.kubernetes, resource, namespace, labels, maxObjects)
}

const (
	resourcePods = "pods"
	verbList     = "list"
)

func pods() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resourcePods}
}

func (r reading) resources(ctx context.Context) []Resource {
	found := []Resource{
		{Name: "functions.serverless.kyma-project.io", Version: "v1alpha2", Required: true},
		{Name: "subscriptions.eventing.kyma-project.io", Version: "v1alpha2", Required: true},
		{Name: "apirules.gateway.kyma-project.io", Version: "v2"},
		{Name: "schedules.rouse.run", Version: "v1alpha1"},
		{Name: "doors.rouse.run", Version: "v1alpha1"},
		{Name: scaledObjects, Version: "v1alpha1"},
	}
	for i := range found {
		found[i].Check = checkResources
		found[i].Served = known(r.kubernetes.Served(ctx, schema.ParseGroupResource(found[i].Name)))
	}
	metrics := Resource{Check: checkResources, Name: externalMetrics, Version: "v1beta1"}
	metrics.Served = known(r.kubernetes.Versions(ctx, externalMetrics))
	return append(found, metrics)
}

// workload is what Deployments and StatefulSets have in common.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Replicas *int32 `json:"replicas"`
	} `json:"spec"`
	Status appsv1.DeploymentStatus `json:"status"`
}

func (w workload) component() Component {
	desired := int32(1)
	if w.Spec.Replicas != nil {
		desired = *w.Spec.Replicas
	}
	return Component{Name: w.Name, Kind: w.Kind, Version: w.Labels[versionLabel], Desired: desired, Ready: w.Status.ReadyReplicas}
}

func (r reading) components(ctx context.Context, namespace, labels string) Known[[]Component] {
	var found []Component
	for _, resource := range []string{"deployments", "statefulsets"} {
		workloads, err := list[workload](ctx, r, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}, namespace, labels)
		if err != nil {
			return known[[]Component](nil, err)
		}
		for _, each := range workloads {
			found = append(found, each.component())
		}
	}
	return known(found, nil)
}

// keda returns the operators of KEDA in all namespaces, by the labels of its chart or of its manifests.
func (r reading) keda(ctx context.Context) Known[[]Component] {
	for _, labels := range []string{"app.kubernetes.io/name=keda-operator", "app=keda-operator"} {
		if found := r.components(ctx, "", labels); found.Err != nil || len(found.Value) > 0 {
			return found
		}
	}
	return known[[]Component](nil, nil)
}

func (r reading) rights(ctx context.Context) Known[[]Right] {
	own, rouse := r.conn.Namespace, r.kubernetes.RouseNamespace()
	var found []Right
	for _, each := range []struct {
		verb, group, resource, sub, namespace, command string
	}{
		{verbList, "serverless.kyma-project.io", "functions", "", own, "rouse functions"},
		{"patch", "serverless.kyma-project.io", "functions", "", own, "kubectl apply"},
		{verbList, "eventing.kyma-project.io", "subscriptions", "", own, "rouse subscriptions"},
		{"patch", "eventing.kyma-project.io", "subscriptions", "", own, "kubectl apply"},
		{verbList, "", resourcePods, "", own, "rouse logs"},
		{"get", "", resourcePods, "log", own, "rouse logs"},
		{verbList, "", resourcePods, "", rouse, "rouse events"},
		{"create", "", resourcePods, "portforward", rouse, "rouse events"},
		{verbList, "rouse.run", "events", "", own, "rouse events"},
		{verbList, "rouse.run", "deadletters", "", own, "rouse dlq list"},
		{"create", "rouse.run", "deadletters", "redrive", own, "rouse dlq redrive"},
	} {
		allowed, err := r.kubernetes.May(ctx, authorizationv1.ResourceAttributes{
			Namespace: each.namespace, Verb: each.verb, Group: each.group, Resource: each.resource, Subresource: each.sub,
		})
		if err != nil {
			return known[[]Right](nil, err)
		}
		name := each.resource
		if each.sub != "" {
			name += "/" + each.sub
		}
		found = append(found, Right{Verb: each.verb, Resource: name, Namespace: each.namespace, For: each.command, Allowed: allowed})
	}
	return known(found, nil)
}

// secret holds the part of a Secret that is public.
type secret struct {
	metav1.ObjectMeta `json:"metadata"`

	Data struct {
		Certificate []byte `json:"tls.crt"`
	} `json:"data"`
	Type corev1.SecretType `json:"type"`
}

// certificates reads the certificates in Rouse's namespace. It keeps no key.
func (r reading) certificates(ctx context.Context) Known[[]Certificate] {
	secrets, err := list[secret](ctx, r, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, r.kubernetes.RouseNamespace(), "")
	if err != nil {
		return known[[]Certificate](nil, err)
	}
	var found []Certificate
	for _, each := range secrets {
		if each.Type == corev1.SecretTypeTLS {
			found = append(found, certificateOf("Secret "+each.Namespace+"/"+each.Name, each.Data.Certificate))
		}
	}
	return known(found, nil)
}

// certificateOf returns the first certificate of a chain, which is that of the server.
func certificateOf(name string, text []byte) Certificate {
	c := Certificate{Name: name}
	block, _ := pem.Decode(text[:min(len(text), maxSecret)])
	if block == nil || block.Type != "CERTIFICATE" {
		c.Problem = "it has no certificate in PEM"
		return c
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.Problem = "its certificate cannot be read: " + err.Error()
		return c
	}
	c.Expires = parsed.NotAfter
	return c
}

func (r reading) nodes(ctx context.Context) Known[[]NodeClock] {
	leases, err := list[coordinationv1.Lease](ctx, r,
		schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, nodeLeases, "")
	var found []NodeClock
	for i := range leases {
		if renewed := leases[i].Spec.RenewTime; renewed != nil {
			found = append(found, NodeClock{Name: leases[i].Name, Renewed: renewed.Time})
		}
	}
	return known(found, err)
}

func (r reading) functions(ctx context.Context) Known[[]Function] {
	functions, err := list[v1alpha2.Function](ctx, r,
		schema.GroupVersionResource{Group: "serverless.kyma-project.io", Version: "v1alpha2", Resource: "functions"}, r.conn.Namespace, "")
	var found []Function
	for i := range functions {
		found = append(found, functionOf(&functions[i]))
	}
	return known(found, err)
}

// functionOf returns the first problem of a Function. A registry that does not answer is one, although the condition is Unknown.
func functionOf(fn *v1alpha2.Function) Function {
	f := Function{Namespace: fn.Namespace, Name: fn.Name}
	for _, condition := range fn.Status.Conditions {
		switch {
		case condition.Reason == v1alpha2.ReasonNoRegistry:
			f.NoRegistry = true
		case condition.Reason == v1alpha2.ReasonKedaNotInstalled: // KEDA has a check of its own
		case f.Problem != "":
		case condition.Status == metav1.ConditionFalse, condition.Reason == v1alpha2.ReasonRegistryUnavailable:
			f.Reason, f.Problem = condition.Reason, condition.Message
		}
	}
	return f
}

func (r reading) policies(ctx context.Context) Known[Policies] {
	found := Policies{Functions: map[string]string{
		v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelResource: v1alpha2.ResourceDeployment,
	}}
	var err error
	found.Policies, err = list[networkingv1.NetworkPolicy](ctx, r,
		schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, r.conn.Namespace, "")
	// The API server gives each namespace its name as a label; other labels need a right that few users have.
	found.Rouse = map[string]string{corev1.LabelMetadataName: r.kubernetes.RouseNamespace()}
	namespaces, failed := list[corev1.Namespace](ctx, r, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		"", corev1.LabelMetadataName+"="+r.kubernetes.RouseNamespace())
	if failed == nil && len(namespaces) == 1 {
		found.Rouse = namespaces[0].Labels
	}
	return known(found, err)
}

// work reads twice what waits, so that what moves is not taken for stuck.
func (r reading) work(ctx context.Context) Known[[]Work] {
	subscriptions, err := r.conn.Subscriptions(ctx, r.conn.Namespace)
	if err != nil {
		return known[[]Work](nil, err)
	}
	earlier, err := r.waiting(ctx)
	if err == nil && slices.ContainsFunc(earlier, func(w target.Work) bool { return w.Backlog > 0 }) {
		select {
		case <-ctx.Done():
			return known[[]Work](nil, ctx.Err())
		case <-time.After(r.settle):
		}
	}
	var later []target.Work
	if err == nil {
		later, err = r.waiting(ctx)
	}
	return known(workOf(subscriptions, earlier, later), err)
}

func (r reading) waiting(ctx context.Context) ([]target.Work, error) {
	client, err := r.bridge(ctx)
	if err != nil {
		return nil, err
	}
	return client.Work(ctx, r.conn.Namespace)
}

// workOf joins what is known about each Subscription.
func workOf(subscriptions []target.Subscription, earlier, later []target.Work) []Work {
	var found []Work
	for _, now := range later {
		w := Work{
			Namespace: now.Namespace, Name: now.Name, Consumer: now.Consumer,
			Waiting: now.Backlog, Running: now.AckPending, DeadLetters: now.DeadLetters,
		}
		for _, before := range earlier {
			if before.Namespace == now.Namespace && before.Name == now.Name {
				w.Earlier = before.Backlog
			}
		}
		w.Paused = slices.ContainsFunc(subscriptions, func(s target.Subscription) bool {
			return s.Namespace == now.Namespace && s.Name == now.Name && s.State == "paused"
		})
		found = append(found, w)
	}
	return found
}

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	namespaces = 20
	atATime    = 16
	sourceKiB  = 2 // of each Function
)

// cluster is a kube-apiserver with its etcd.
type cluster struct{ *envtest.Environment }

// fill makes the objects, and returns the token of a user who may see all.
func (c *cluster) fill(ctx context.Context, count int, adminPort int32) (token string, err error) {
	c.Config.QPS = -1
	if c.Client, err = client.New(c.Config, client.Options{Scheme: c.Scheme}); err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	for _, name := range append([]string{releaseNamespace}, teams()...) {
		if err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return "", fmt.Errorf("make namespace %s: %w", name, err)
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for i := range count {
		group.Go(func() error { return c.create(groupCtx, objects(i)...) })
	}
	if err := errors.Join(group.Wait(), c.bridge(ctx, adminPort)); err != nil {
		return "", err
	}
	return c.user(ctx)
}

func teams() (names []string) {
	for i := range namespaces {
		names = append(names, namespaceOf(i))
	}
	return names
}

func (c *cluster) create(ctx context.Context, all ...client.Object) error {
	for _, object := range all {
		err := c.Client.Create(ctx, object)
		switch typed := object.(type) {
		case *serverlessv1alpha2.Function:
			for _, condition := range []string{serverlessv1alpha2.ConditionConfigurationReady, serverlessv1alpha2.ConditionBuildReady, serverlessv1alpha2.ConditionRunning} {
				typed.Status.Conditions = append(typed.Status.Conditions, metav1.Condition{
					Type: condition, Status: metav1.ConditionTrue, Reason: "Bench", LastTransitionTime: metav1.Now(),
				})
			}
			err = errors.Join(err, c.Client.Status().Update(ctx, typed))
		case *eventingv1alpha2.Subscription:
			typed.Status.Ready = true
			err = errors.Join(err, c.Client.Status().Update(ctx, typed))
		}
		if err != nil {
			return fmt.Errorf("make %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// objects are a Function, its Deployment without replicas, and its Subscription.
func objects(i int) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespaceOf(i), Name: nameOf(i)}
	source := make([]byte, sourceKiB<<10)
	for at := range source {
		source[at] = "abcdefghijklmnop "[(at*7+i)%17]
	}
	managed := *meta.DeepCopy()
	managed.Labels = map[string]string{serverlessv1alpha2.LabelManagedBy: serverlessv1alpha2.ManagedBy}
	pod := map[string]string{serverlessv1alpha2.LabelFunctionName: nameOf(i)}
	return []client.Object{
		&serverlessv1alpha2.Function{ObjectMeta: meta, Spec: serverlessv1alpha2.FunctionSpec{
			Runtime: "nodejs22", Source: serverlessv1alpha2.Source{Inline: &serverlessv1alpha2.InlineSource{Source: "// " + string(source)}},
		}},
		&appsv1.Deployment{ObjectMeta: managed, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "x"}}},
			},
		}},
		&eventingv1alpha2.Subscription{ObjectMeta: meta, Spec: eventingv1alpha2.SubscriptionSpec{
			Source: benchName, Types: []string{typeOf(i)}, Sink: sinkOf(i),
		}},
	}
}

// bridge makes the pod of the bridge, which is on this machine.
func (c *cluster) bridge(ctx context.Context, adminPort int32) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: "eventbridge", Labels: map[string]string{
			"app.kubernetes.io/part-of": "rouse", "app.kubernetes.io/component": "eventbridge",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "eventbridge", Image: "x", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080}, {Name: "admin", ContainerPort: adminPort},
		}}}},
	}
	if err := c.create(ctx, pod); err != nil {
		return err
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: host, PodIPs: []corev1.PodIP{{IP: host}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	return c.Client.Status().Update(ctx, pod)
}

// user makes a user who may read all that the pages show, in all namespaces.
func (c *cluster) user(ctx context.Context) (token string, err error) {
	meta := metav1.ObjectMeta{Name: "looks"}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: meta.Name}}
	read := []string{"get", "list", "watch"}
	err = c.create(ctx, account,
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"serverless.kyma-project.io", "eventing.kyma-project.io", "rouse.run", "apps", "gateway.kyma-project.io"}, Resources: []string{"*"}, Verbs: read},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: releaseNamespace, Name: meta.Name}},
		})
	if err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return request.Status.Token, nil
}

func portOf(address string) (int32, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return 0, fmt.Errorf("read the address of the admin API: %w", err)
	}
	port, err := strconv.ParseInt(parsed.Port(), 10, 32)
	return int32(port), err
}

// load publishes events at a rate.
type load struct {
	published atomic.Int64
	end       context.CancelFunc
	running   sync.WaitGroup
}

// publishers is the number of connections, each of which publishes its part: so many that none has to wait for the answer before the next.
const publishers = 50

func startLoad(ctx context.Context, to string, rate int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{end: cancel}
	for publisher := range publishers {
		l.running.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			every := time.Second * publishers / time.Duration(rate)
			time.Sleep(every * time.Duration(publisher) / publishers) // they take turns
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for i := publisher; ; i += publishers {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				event := rig.Event{ID: "event-" + strconv.Itoa(i), Source: benchName, Type: typeOf(i), Data: `{"net":900}`}
				if status, _, err := event.Publish(ctx, client, to); err == nil && status == http.StatusNoContent {
					l.published.Add(1)
				}
			}
		})
	}
	return l
}

// stop ends the load, and returns how many events were stored.
func (l *load) stop() int64 {
	l.end()
	l.running.Wait()
	return l.published.Load()
}

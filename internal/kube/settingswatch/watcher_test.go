package settingswatch

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/settings"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/output"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

var cluster = envtest.New()

func TestMain(m *testing.M) {
	kube.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m))
}

// fixture is a process that follows its settings, with the permissions that the chart grants.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
	user      *rest.Config
	watcher   *Watcher
	registry  *prometheus.Registry
	log       *daemon.Log
	out       *output.Buffer

	mu   sync.Mutex
	last *settings.Settings
}

func start(t *testing.T, objects ...*corev1.ConfigMap) *fixture {
	t.Helper()
	env := cluster.Environment(t)
	f := &fixture{Client: env.Client, t: t, namespace: env.Namespace(t), registry: prometheus.NewRegistry(), out: &output.Buffer{}}
	f.restrict(env.Config)
	for _, object := range objects {
		object.Namespace = f.namespace
		require.NoError(t, f.Create(t.Context(), object))
	}
	var err error
	f.log, err = daemon.New(f.out, "scaler", daemon.Config{Level: "info", Format: daemon.FormatJSON, DebugLines: 50})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	f.watcher, err = New(Options{ConfigMap: f.namespace + "/rouse-config", LogConfigMap: f.namespace + "/rouse-log-config"}, Deps{
		Config: f.user, Log: f.log.Logger(), Registry: f.registry, Events: env.Client,
		Apply: func(read *settings.Settings) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.last = read
		},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return f
}

// restrict creates a user with permission to read only the two ConfigMaps.
func (f *fixture) restrict(admin *rest.Config) {
	f.t.Helper()
	name := "system:serviceaccount:" + f.namespace + ":rouse-scaler"
	metadata := metav1.ObjectMeta{Namespace: f.namespace, Name: "rouse-settings"}
	require.NoError(f.t, f.Create(f.t.Context(), &rbacv1.Role{ObjectMeta: metadata, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"},
		ResourceNames: []string{"rouse-config", "rouse-log-config"},
	}}}))
	require.NoError(f.t, f.Create(f.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metadata, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: metadata.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}))
	f.user = rest.CopyConfig(admin)
	f.user.Impersonate = rest.ImpersonationConfig{UserName: name}
}

func configMap(name, key, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: text}}
}

func functionConfig(text string) *corev1.ConfigMap {
	return configMap("rouse-config", settings.FunctionKey, text)
}

func logConfig(text string) *corev1.ConfigMap {
	return configMap("rouse-log-config", settings.LogKey, text)
}

func (f *fixture) set(object *corev1.ConfigMap) {
	f.t.Helper()
	object.Namespace = f.namespace
	require.NoError(f.t, f.Update(f.t.Context(), object))
}

func (f *fixture) publisher() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		return "of the flag"
	}
	return f.last.PublisherAddress
}

func (f *fixture) awaitPublisher(want string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return f.publisher() == want }, timeout, tick)
}

// awaitEvent waits for an Event on a ConfigMap that contains the text.
func (f *fixture) awaitEvent(object, reason, text string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		list := &eventsv1.EventList{}
		require.NoError(f.t, f.List(f.t.Context(), list, client.InNamespace(f.namespace)))
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Kind == "ConfigMap" && e.Regarding.Name == object && e.Reason == reason && strings.Contains(e.Note, text) {
				return true
			}
		}
		return false
	}, timeout, tick, "no Event %s on %s with %q", reason, object, text)
}

func (f *fixture) awaitValid(key string, want float64) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return testutil.ToFloat64(f.watcher.metrics.good.WithLabelValues(key)) == want }, timeout, tick)
}

func TestChangedSettingsAreInForceWithoutARestart(t *testing.T) {
	t.Parallel()
	f := start(t, functionConfig("functionPublisherProxyAddress: http://a/publish"), logConfig("logLevel: info"))
	require.True(t, f.watcher.First(t.Context(), timeout))
	require.Equal(t, "http://a/publish", f.publisher())
	logger := f.log.Logger().WithName("wake")
	require.False(t, logger.V(1).Enabled())

	began := time.Now()
	f.set(functionConfig("functionPublisherProxyAddress: http://b/publish"))
	f.awaitPublisher("http://b/publish")
	t.Log("settings in force after", time.Since(began))
	began = time.Now()
	f.set(logConfig("{components: {scaler/wake: debug}, logFormat: console}"))
	require.Eventually(t, func() bool { return logger.V(1).Enabled() }, timeout, tick)
	t.Log("log in force after", time.Since(began))
	require.False(t, f.log.Logger().V(1).Enabled())
	logger.V(1).Info("as text")
	require.Contains(t, f.out.String(), "level=DEBUG msg=\"as text\" logger=wake")
	f.awaitEvent("rouse-config", ReasonInForce, "Publisher address set from 'http://a/publish' to 'http://b/publish'")
	f.awaitEvent("rouse-log-config", ReasonInForce, "Log levels of components set from '' to 'scaler/wake=debug'")
	require.InDelta(t, 2, testutil.ToFloat64(f.watcher.metrics.changes.WithLabelValues(settings.FunctionKey)), 0)

	f.set(logConfig(""))
	require.Eventually(t, func() bool { return !logger.V(1).Enabled() }, timeout, tick, "an empty file leaves it to the command line")
}

func TestInvalidFilesLeaveTheLastValidOneInForce(t *testing.T) {
	t.Parallel()
	f := start(t, functionConfig("functionPublisherProxyAddress: http://a/publish"), logConfig("logLevel: error"))
	require.True(t, f.watcher.First(t.Context(), timeout))
	f.awaitValid(settings.FunctionKey, 1)
	for _, step := range []struct {
		name string
		act  func()
		want string
	}{
		{
			"a typo", func() { f.set(functionConfig("functionPublisherProxyAdress: http://b/publish")) },
			`unknown field "functionPublisherProxyAdress": did you mean functionPublisherProxyAddress?: correct it with kubectl edit configmap`,
		},
		{"1 MB", func() { f.set(functionConfig("# " + strings.Repeat("x", 1_000_000))) }, "it is longer than 256 KiB"},
		{"another key", func() { f.set(configMap("rouse-config", "config.yaml", "")) }, "has no key function-config.yaml, but config.yaml: add it"},
		{"deleted", func() {
			object := functionConfig("")
			object.Namespace = f.namespace
			require.NoError(t, f.Delete(t.Context(), object))
		}, "does not exist: create it with the key function-config.yaml. The last good settings stay in force"},
	} {
		step.act()
		f.awaitEvent("rouse-config", ReasonRefused, step.want)
		f.awaitValid(settings.FunctionKey, 0)
		require.Equal(t, "http://a/publish", f.publisher(), step.name)
		require.Eventually(t, func() bool { return strings.Contains(f.out.String(), "the settings of the ConfigMap are not used") }, timeout, tick)
	}
	again := functionConfig("functionPublisherProxyAddress: http://c/publish")
	again.Namespace = f.namespace
	require.NoError(t, f.Create(t.Context(), again))
	f.awaitPublisher("http://c/publish")
	f.awaitValid(settings.FunctionKey, 1)

	f.set(logConfig("logLevel: loud"))
	f.awaitEvent("rouse-log-config", ReasonRefused, `logLevel: "loud" must be one of`)
	require.False(t, f.log.Logger().Enabled(), "the last valid level must be in force")
}

func TestAProcessBeginsWithoutItsConfigMaps(t *testing.T) {
	t.Parallel()
	f := start(t)
	require.True(t, f.watcher.First(t.Context(), timeout), "missing files must be detected")
	require.Equal(t, "of the flag", f.publisher())
	f.awaitEvent("rouse-config", ReasonRefused, "The settings of the command line are in force")
	later := functionConfig("functionPublisherProxyAddress: http://a/publish")
	later.Namespace = f.namespace
	require.NoError(t, f.Create(t.Context(), later))
	f.awaitPublisher("http://a/publish")
}

func TestProcessMayReadOnlyItsTwoConfigMaps(t *testing.T) {
	t.Parallel()
	f := start(t, functionConfig(""), logConfig(""), configMap("other", "a", "b"))
	c, err := client.New(f.user, client.Options{})
	require.NoError(t, err)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "rouse-config"}, &corev1.ConfigMap{}))
	require.Error(t, c.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "other"}, &corev1.ConfigMap{}))
	require.Error(t, c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(f.namespace)))
	changed := functionConfig("functionPublisherProxyAddress: http://evil/publish")
	changed.Namespace = f.namespace
	require.Error(t, c.Update(t.Context(), changed), "no process may change them")
}

func TestDebugAnnotationShowsTheLinesOfOneObject(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	f := start(t, functionConfig(""), logConfig(""))
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	objects, err := cache.New(env.Config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{f.namespace: {}}})
	require.NoError(t, err)
	refused := events.NewFakeRecorder(10)
	debugged := []*Debugged{DebuggedThemselves(objects, f.log.Logger(), refused, true, true), DebuggedBehindServices(objects, f.log.Logger(), true)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() { _ = objects.Start(ctx) })
	for _, d := range debugged {
		running.Go(func() { _ = d.Run(ctx) })
	}
	orders := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "orders"},
		Spec: eventingv1alpha2.SubscriptionSpec{
			Sink: "http://price." + f.namespace + ".svc.cluster.local", Source: "shop", Types: []string{"order.received.v1"},
		},
	}
	price := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "price"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	until := func(d time.Duration) map[string]string {
		return map[string]string{v1alpha2.AnnotationDebugUntil: time.Now().Add(d).UTC().Format(time.RFC3339)}
	}
	for _, tc := range []struct {
		object client.Object
		values []any
	}{
		{orders, []any{"subscription", f.namespace + "/orders"}}, {price, []any{"service", f.namespace + "/price"}},
	} {
		logger := f.log.Logger().WithValues(tc.values...)
		require.NoError(t, f.Create(t.Context(), tc.object))
		require.False(t, logger.V(1).Enabled())
		annotate := func(annotations map[string]string) {
			before, ok := tc.object.DeepCopyObject().(client.Object)
			require.True(t, ok)
			tc.object.SetAnnotations(annotations)
			require.NoError(t, f.Patch(t.Context(), tc.object, client.MergeFrom(before)))
		}
		annotate(until(time.Hour))
		require.Eventually(t, func() bool { return logger.V(1).Enabled() }, timeout, tick)
		require.False(t, f.log.Logger().V(1).Enabled(), "other objects must not be affected")
		annotate(nil)
		require.Eventually(t, func() bool { return !logger.V(1).Enabled() }, timeout, tick)
		annotate(until(time.Hour))
		require.Eventually(t, func() bool { return logger.V(1).Enabled() }, timeout, tick)
		require.NoError(t, f.Delete(t.Context(), tc.object))
		require.Eventually(t, func() bool { return !logger.V(1).Enabled() }, timeout, tick)
	}

	forEver := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "for-ever", Annotations: until(24 * time.Hour)}, Spec: orders.Spec}
	require.NoError(t, f.Create(t.Context(), forEver))
	select {
	case event := <-refused.Events:
		require.Contains(t, event, "annotation rouse.run/debug-until: it is more than one hour ahead")
	case <-time.After(timeout):
		require.Fail(t, "no Event")
	}
	require.False(t, f.log.Logger().WithValues("subscription", f.namespace+"/for-ever").V(1).Enabled())
}

func TestContentIsAppliedOrReportsTheNextStep(t *testing.T) {
	t.Parallel()
	content := func(key, text string) watch.Content {
		return watch.Content{Found: true, Data: map[string]string{key: text}}
	}
	f := &file{name: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-config"}, key: "function-config.yaml"}
	inForce := ""
	f.use = func(text string) ([]string, error) {
		if text == "typo" {
			return nil, errors.New("function-config.yaml: unknown field")
		}
		if text == inForce {
			return nil, nil
		}
		inForce = text
		return []string{"it is " + text}, nil
	}
	for _, step := range []struct {
		name    string
		content watch.Content
		want    outcome
	}{
		{"missing at the start", watch.Content{}, outcome{
			problem: "ConfigMap rouse-system/rouse-config does not exist: create it with the key function-config.yaml. The settings of the command line are in force",
		}},
		{"still", watch.Content{}, outcome{}},
		{"made without its key", content("config.yaml", "a"), outcome{
			problem: "ConfigMap rouse-system/rouse-config has no key function-config.yaml, but config.yaml: add it. The settings of the command line are in force",
		}},
		{"good", content("function-config.yaml", "a"), outcome{changes: []string{"it is a"}, first: true}},
		{"as it was", content("function-config.yaml", "a"), outcome{}},
		{"changed", content("function-config.yaml", "b"), outcome{changes: []string{"it is b"}}},
		{"a typo", content("function-config.yaml", "typo"), outcome{
			problem: "function-config.yaml: unknown field: correct it with kubectl edit configmap --namespace rouse-system rouse-config. The last good settings stay in force",
		}},
		{"deleted", watch.Content{}, outcome{
			problem: "ConfigMap rouse-system/rouse-config does not exist: create it with the key function-config.yaml. The last good settings stay in force",
		}},
		{"as before the typo", content("function-config.yaml", "b"), outcome{changes: []string{"The file is good again"}}},
	} {
		require.Equal(t, step.want, f.take(step.content), step.name)
		require.Equal(t, step.want.problem != "" || step.name == "still", f.problem != "", step.name)
	}
}

func TestOptionsNameConfigMaps(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": true, "rouse-config": true, "rouse-system/rouse-config": true, "a/b/c": false, "/a": false, "A": false, "a/": false,
	} {
		o := Options{ConfigMap: text}
		require.Equal(t, ok, flags.Validate(&o) == nil, text)
		o = Options{LogConfigMap: text}
		require.Equal(t, ok, flags.Validate(&o) == nil, text)
	}
	require.ErrorContains(t, flags.Validate(&Options{ConfigMap: "A"}), `--config-map must be a name, or namespace/name, is "A"`)
	name, err := nameOf("rouse-system/rouse-config")
	require.NoError(t, err)
	require.Equal(t, types.NamespacedName{Namespace: "rouse-system", Name: "rouse-config"}, name)
	_, err = nameOf("rouse-config")
	require.ErrorContains(t, err, "outside of a pod name it as namespace/rouse-config")
}

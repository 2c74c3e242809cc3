package watch

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

func TestSettingsOfAPIRulesComeFromFlags(t *testing.T) {
	t.Parallel()
	settings := APIRuleSettings{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Bind(fs, &settings)
	require.NoError(t, fs.Parse([]string{
		"--apirules", "--gateway-api", "--gateway-domain=kyma-system/kyma-gateway=example.com", "--gateway-domain=shop/own=shop.example.com",
	}))
	require.NoError(t, flags.Validate(&settings))
	require.Equal(t, APIRuleSettings{Enabled: true, GatewayAPI: true, Domains: map[types.NamespacedName]string{
		{Namespace: "kyma-system", Name: "kyma-gateway"}: "example.com", {Namespace: "shop", Name: "own"}: "shop.example.com",
	}}, settings)
	require.Equal(t, "kyma-system/kyma-gateway=example.com,shop/own=shop.example.com", fs.Lookup("gateway-domain").Value.String())
}

func TestADomainOfAGatewayIsRefused(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]string{
		"gateway=example.com":     "is not namespace/name=domain",
		"a/b/c=example.com":       "is not namespace/name=domain",
		"/b=example.com":          "is not namespace/name=domain",
		"a/b":                     "is not namespace/name=domain",
		"a/b=":                    `--gateway-domain a/b: "" is not a domain`,
		"a/b=*.example.com":       `--gateway-domain a/b: "*.example.com" is not a domain`,
		"a/b=Example.com":         `is not a domain`,
		"a/b=localhost":           `is not a domain`,
		"a/b=example.com/path":    `is not a domain`,
		"a/b=example.com=another": `is not a domain`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			settings := APIRuleSettings{}
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			flags.Bind(fs, &settings)
			err := fs.Parse([]string{"--gateway-domain=" + text})
			if err == nil {
				err = flags.Validate(&settings)
			}
			require.ErrorContains(t, err, message)
		})
	}
}

// watched runs APIRules on a cache of its own, and returns the Exposures of a namespace.
func watched(
	t *testing.T, env *envtest.Environment, namespace string, settings APIRuleSettings, change ...func(*cache.Options),
) (<-chan []apirule.Exposure, cache.Cache) {
	t.Helper()
	options := cache.Options{Scheme: env.Scheme, ByObject: GatewayServices(), DefaultTransform: TransformAPIRules}
	for _, c := range change {
		c(&options)
	}
	objects, err := cache.New(env.Config, options)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	told := make(chan []apirule.Exposure)
	var running sync.WaitGroup
	running.Go(func() { _ = objects.Start(ctx) })
	ended := make(chan error, 1)
	running.Go(func() {
		ended <- APIRules(ctx, objects, settings, func(all []apirule.Exposure) {
			var ours []apirule.Exposure
			for i := range all {
				if all[i].APIRule.Namespace == namespace {
					ours = append(ours, all[i])
				}
			}
			select {
			case told <- ours:
			case <-ctx.Done():
			}
		})
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		require.NoError(t, <-ended)
	})
	return told, objects
}

// late is a mapper of a cluster where Gateway API is installed later.
type late struct {
	meta.RESTMapper
	there atomic.Bool
}

func (l *late) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Group == gatewayapi.GroupName && !l.there.Load() {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return l.RESTMapper.RESTMapping(kind, versions...)
}

func TestMissingKindsDelayNoDecision(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	mapper := &late{RESTMapper: env.Client.RESTMapper()}
	told, _ := watched(t, env, namespace, APIRuleSettings{
		Enabled: true, GatewayAPI: true, Domains: map[types.NamespacedName]string{{Namespace: "kyma-system", Name: "kyma-gateway"}: "example.com"},
	}, func(o *cache.Options) { o.Mapper = mapper })
	require.NoError(t, env.Client.Create(t.Context(), apiRule(namespace, namespace, "kyma-system/kyma-gateway")))
	until(t, told, answersAt(namespace+".example.com"))

	other := apiRule(namespace, "price", namespace+"/shop")
	other.Name = "zz-other"
	require.NoError(t, env.Client.Create(t.Context(), other))
	until(t, told, answersAt(namespace+".example.com", ""))
	require.NoError(t, env.Client.Create(t.Context(), &gatewayapi.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec: gatewayapi.GatewaySpec{GatewayClassName: "any", Listeners: []gatewayapi.Listener{{
			Name: "http", Port: 80, Protocol: gatewayapi.HTTPProtocolType, Hostname: new(gatewayapi.Hostname("*." + namespace + ".example.com")),
		}}},
	}))
	mapper.there.Store(true)
	until(t, told, answersAt(namespace+".example.com", "price."+namespace+".example.com"))
}

// until waits for Exposures that meet the condition.
func until(t *testing.T, told <-chan []apirule.Exposure, holds func([]apirule.Exposure) bool) []apirule.Exposure {
	t.Helper()
	for {
		select {
		case all := <-told:
			if holds(all) {
				return all
			}
		case <-time.After(time.Minute):
			t.Fatal("the Exposures were not applied")
		}
	}
}

func answersAt(hosts ...string) func([]apirule.Exposure) bool {
	return func(all []apirule.Exposure) bool {
		if len(all) != len(hosts) {
			return false
		}
		for i := range all {
			if all[i].Host != hosts[i] {
				return false
			}
		}
		return true
	}
}

func apiRule(namespace, host, gateway string) *v2.APIRule {
	return &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "price"},
		Spec: v2.APIRuleSpec{
			Hosts: []v2.Host{v2.Host(host)}, Gateway: &gateway, Service: &v2.Service{Name: "price", Port: 80},
			Rules: []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: new(true)}},
		},
	}
}

func TestWatchReportsExposuresInWhateverOrderObjectsArrive(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	domain := namespace + ".example.com"
	told, _ := watched(t, env, namespace, APIRuleSettings{Enabled: true, GatewayAPI: true})
	until(t, told, answersAt())

	// An APIRule without the objects that it names.
	rule := apiRule(namespace, "price", namespace+"/shop")
	require.NoError(t, env.Client.Create(t.Context(), rule))
	e := until(t, told, answersAt(""))[0]
	require.Equal(t, "spec.gateway", e.Problems[0].Attribute)

	gateway := &gatewayapi.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec: gatewayapi.GatewaySpec{GatewayClassName: "any", Listeners: []gatewayapi.Listener{
			{Name: "http", Port: 80, Protocol: gatewayapi.HTTPProtocolType, Hostname: new(gatewayapi.Hostname("*." + domain))},
			{Name: "dns", Port: 53, Protocol: gatewayapi.UDPProtocolType},
		}},
	}
	require.NoError(t, env.Client.Create(t.Context(), gateway))
	e = until(t, told, answersAt("price."+domain))[0]
	require.True(t, e.Rules[0].Closed, "its Service is not there")

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "price"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "price"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	require.NoError(t, env.Client.Create(t.Context(), service))
	e = until(t, told, func(all []apirule.Exposure) bool { return !all[0].Rules[0].Closed })[0]
	require.Equal(t, service.Spec.ClusterIP, e.Rules[0].Backend.Address)
	require.Empty(t, e.Problems)

	require.NoError(t, env.Client.Delete(t.Context(), service))
	until(t, told, func(all []apirule.Exposure) bool { return all[0].Rules[0].Closed })
	require.NoError(t, env.Client.Delete(t.Context(), gateway))
	until(t, told, answersAt(""))
	require.NoError(t, env.Client.Delete(t.Context(), rule))
	until(t, told, answersAt())
}

func TestDomainsOfTheSettingsAreGateways(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	told, _ := watched(t, env, namespace, APIRuleSettings{Enabled: true, Domains: map[types.NamespacedName]string{
		{Namespace: "kyma-system", Name: "kyma-gateway"}: "example.com",
	}})
	require.NoError(t, env.Client.Create(t.Context(), apiRule(namespace, namespace, "kyma-system/kyma-gateway")))
	until(t, told, answersAt(namespace+".example.com"))
}

func TestAnAPIRuleOfThePublishersAliasLeadsToTheBridges(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	target := types.NamespacedName{Namespace: env.Namespace(t), Name: "bridges"}
	told, _ := watched(t, env, namespace, APIRuleSettings{
		Enabled: true, Domains: map[types.NamespacedName]string{{Namespace: "kyma-system", Name: "kyma-gateway"}: "example.com"},
		Alias: PublisherAlias{Service: types.NamespacedName{Namespace: namespace, Name: "price"}, Target: target},
	})
	create := func(namespace, name string, selector map[string]string) {
		require.NoError(t, env.Client.Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 80}}},
		}))
	}
	create(namespace, "price", nil)
	require.NoError(t, env.Client.Create(t.Context(), apiRule(namespace, namespace, "kyma-system/kyma-gateway")))
	e := until(t, told, answersAt(namespace+".example.com"))[0]
	require.True(t, e.Rules[0].Closed, "the bridges have no Service yet")
	create(target.Namespace, target.Name, map[string]string{"app": "bridges"})
	e = until(t, told, func(all []apirule.Exposure) bool { return !all[0].Rules[0].Closed })[0]
	require.Equal(t, target, e.Rules[0].Backend.Service)
}

func TestIrrelevantChangesAreNotReported(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	for name, tc := range map[string]struct {
		differs       func(before, after any) bool
		before, after client.Object
		want          bool
	}{
		"the status of an APIRule": {ruleDiffers, &v2.APIRule{}, &v2.APIRule{Status: v2.APIRuleStatus{State: v2.StateReady}}, false},
		"its spec":                 {ruleDiffers, &v2.APIRule{}, &v2.APIRule{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, true},
		"its end":                  {ruleDiffers, &v2.APIRule{}, &v2.APIRule{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}, true},
		"a label of a Service":     {serviceDiffers, &corev1.Service{}, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}, false},
		"its address":              {serviceDiffers, &corev1.Service{}, &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}, true},
		"the namespaces that it admits": {serviceDiffers, &corev1.Service{}, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{apirule.AnnotationFrom: "*"}},
		}, true},
		"the status of a Gateway": {gatewayDiffers, &gatewayapi.Gateway{}, &gatewayapi.Gateway{
			Status: gatewayapi.GatewayStatus{Listeners: []gatewayapi.ListenerStatus{{AttachedRoutes: 1}}},
		}, false},
		"its listeners": {gatewayDiffers, &gatewayapi.Gateway{}, &gatewayapi.Gateway{
			Spec: gatewayapi.GatewaySpec{Listeners: []gatewayapi.Listener{{Protocol: gatewayapi.HTTPSProtocolType}}},
		}, true},
	} {
		require.Equal(t, tc.want, tc.differs(tc.before, tc.after), name)
	}

	namespace := env.Namespace(t)
	told, _ := watched(t, env, namespace, APIRuleSettings{Enabled: true})
	rule := apiRule(namespace, namespace+".example.com", "kyma-system/kyma-gateway")
	require.NoError(t, env.Client.Create(t.Context(), rule))
	until(t, told, answersAt(""))
}

func TestCacheKeepsOnlyFieldsThatDecisionsDependOn(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	rule := apiRule(namespace, namespace+".example.com", "a/b")
	rule.Annotations = map[string]string{"note": "long"}
	require.NoError(t, env.Client.Create(t.Context(), rule))
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "price", Annotations: map[string]string{
			"note": "long", apirule.AnnotationFrom: "shop", v1alpha2.AnnotationHTTPWake: v1alpha2.HTTPWakeEnabled,
			v1alpha2.AnnotationScaleTarget: "deployment/" + strings.Repeat("long", 50),
		}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}))
	require.NoError(t, env.Client.Create(t.Context(), &gatewayapi.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "price", Annotations: map[string]string{"note": "long"}},
		Spec: gatewayapi.GatewaySpec{GatewayClassName: "any", Listeners: []gatewayapi.Listener{{
			Name: "http", Port: 80, Protocol: gatewayapi.HTTPProtocolType, AllowedRoutes: &gatewayapi.AllowedRoutes{},
		}}},
	}))
	_, objects := watched(t, env, namespace, APIRuleSettings{Enabled: true, GatewayAPI: true})
	require.True(t, objects.WaitForCacheSync(t.Context()))
	key := types.NamespacedName{Namespace: namespace, Name: "price"}

	kept := &v2.APIRule{}
	require.NoError(t, objects.Get(t.Context(), key, kept))
	require.Empty(t, kept.Annotations)
	require.Empty(t, kept.ManagedFields)
	service := &corev1.Service{}
	require.NoError(t, objects.Get(t.Context(), key, service))
	require.Equal(t, map[string]string{
		apirule.AnnotationFrom: "shop", v1alpha2.AnnotationHTTPWake: v1alpha2.HTTPWakeEnabled, v1alpha2.AnnotationScaleTarget: "",
	}, service.Annotations)
	require.Empty(t, service.ManagedFields)
	gateway := &gatewayapi.Gateway{}
	require.NoError(t, objects.Get(t.Context(), key, gateway))
	require.Empty(t, gateway.Annotations)
	require.Equal(t, gatewayapi.GatewaySpec{Listeners: []gatewayapi.Listener{{Name: "http", Port: 80, Protocol: gatewayapi.HTTPProtocolType}}}, gateway.Spec)
}

func TestSimultaneousChangesAreReportedTogether(t *testing.T) {
	t.Parallel()
	changed, decided := make(chan struct{}, 1), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- (&watch{changed: changed}).follow(ctx, func() error {
			decided <- struct{}{}
			return nil
		})
	}()
	<-decided
	handler := onChangeOf(ruleDiffers, (&watch{changed: changed}).raise)
	for range 100 {
		handler.OnAdd(&v2.APIRule{}, false)
		handler.OnUpdate(&v2.APIRule{}, &v2.APIRule{Status: v2.APIRuleStatus{State: v2.StateReady}})
		handler.OnDelete(&v2.APIRule{})
	}
	<-decided
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, changed, "one decision was for all of them")

	broken := errors.New("broken")
	require.ErrorIs(t, (&watch{}).follow(t.Context(), func() error { return broken }), broken)
	require.NoError(t, (&watch{}).follow(ctx, func() error { return broken }), "errors after the end of ctx must be ignored")
}

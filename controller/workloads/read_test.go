package workloads

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/workload"
)

// serviceOf returns a Service that selects the pods of worker.
func serviceOf(annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "orders", Name: "worker", Annotations: annotations},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "worker"}},
	}
}

func TestAServiceNamesWhatItsEventsScale(t *testing.T) {
	t.Parallel()
	scaling := resources.Scaling{Defaults: workload.Tuning{PollingSeconds: 10, CooldownSeconds: 60}, TriggerTypes: []string{"cpu"}}
	asked, err := read(serviceOf(map[string]string{"rouse.run/scale-target": "deployment/worker"}), scaling)
	require.NoError(t, err)
	require.Equal(t, resources.ScaleTarget{Kind: "Deployment", Name: "worker", Low: 0, High: 10}, asked.target)
	require.Equal(t, int64(60), asked.tuning.CooldownSeconds)

	asked, err = read(serviceOf(map[string]string{
		"rouse.run/scale-target": "StatefulSet/ledger.v1", "rouse.run/min-replicas": "20", "rouse.run/cooldown-period": "5",
	}), scaling)
	require.NoError(t, err)
	require.Equal(t, resources.ScaleTarget{Kind: "StatefulSet", Name: "ledger.v1", Low: 20, High: 20}, asked.target)
	require.Equal(t, int64(5), asked.tuning.CooldownSeconds)
}

func TestAWrongServiceNamesItsFieldAndTheRemedy(t *testing.T) {
	t.Parallel()
	good := map[string]string{"rouse.run/scale-target": "deployment/worker"}
	with := func(key, value string) map[string]string {
		return map[string]string{"rouse.run/scale-target": "deployment/worker", key: value}
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		change      func(*corev1.Service)
		want        string
	}{
		"no kind":             {annotations: map[string]string{"rouse.run/scale-target": "worker"}, want: `invalid value "worker": must be deployment/NAME or statefulset/NAME`},
		"no name":             {annotations: map[string]string{"rouse.run/scale-target": "deployment/"}, want: "must be deployment/NAME"},
		"another kind":        {annotations: map[string]string{"rouse.run/scale-target": "daemonset/worker"}, want: "must be deployment/NAME"},
		"another namespace":   {annotations: map[string]string{"rouse.run/scale-target": "deployment/bank/worker"}, want: "of a workload in the Service's namespace"},
		"a negative bound":    {annotations: with("rouse.run/min-replicas", "-1"), want: `annotation rouse.run/min-replicas: invalid value "-1": must be a whole number from 0 to 10000`},
		"a huge bound":        {annotations: with("rouse.run/max-replicas", "1000000"), want: "must be a whole number from 1 to 10000"},
		"crossed bounds":      {annotations: map[string]string{"rouse.run/scale-target": "deployment/worker", "rouse.run/min-replicas": "3", "rouse.run/max-replicas": "2"}, want: "annotation rouse.run/max-replicas is 2, less than rouse.run/min-replicas, 3: raise it"},
		"a wrong tuning":      {annotations: with("rouse.run/lag-threshold", "many"), want: `annotation rouse.run/lag-threshold: invalid value "many"`},
		"no selector":         {annotations: good, change: func(s *corev1.Service) { s.Spec.Selector = nil }, want: "the Service has no spec.selector"},
		"an external name":    {annotations: good, change: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, want: "the Service is of type ExternalName"},
		"a Function's":        {annotations: good, change: func(s *corev1.Service) { s.OwnerReferences = ofFunction() }, want: "the Service is that of Function pricing: set spec.scaleConfig there"},
		"two wrong at a time": {annotations: map[string]string{"rouse.run/scale-target": "x", "rouse.run/min-replicas": "y"}, want: `annotation rouse.run/min-replicas: invalid value "y"`},
	} {
		service := serviceOf(tc.annotations)
		if tc.change != nil {
			tc.change(service)
		}
		_, err := read(service, resources.Scaling{})
		require.ErrorContains(t, err, tc.want, name)
	}
}

// site is a Service of nginx that HTTP wakes.
func site(change ...func(*corev1.Service)) *corev1.Service {
	made := serviceOf(map[string]string{"rouse.run/scale-target": "deployment/worker", "rouse.run/http-wake": "enabled"})
	made.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("rouse-8080")}}
	for _, c := range change {
		c(made)
	}
	return made
}

func TestHTTPWakesAWorkloadThatAsksForIt(t *testing.T) {
	t.Parallel()
	scaling := resources.Scaling{HTTPWake: true}
	asked, err := read(site(), scaling)
	require.NoError(t, err)
	require.True(t, asked.tuning.HTTPWake)
	require.Equal(t, "rouse-8080", asked.podPort, "the gateways count its requests")

	asked, err = read(site(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) }), scaling)
	require.NoError(t, err)
	require.True(t, asked.tuning.HTTPWake)
	require.Empty(t, asked.podPort, "its pods report them")

	asked, err = read(serviceOf(map[string]string{"rouse.run/scale-target": "deployment/worker"}), scaling)
	require.NoError(t, err)
	require.False(t, asked.tuning.HTTPWake, "unlike a Function it has to ask")
}

func TestAServiceThatHTTPCannotWakeNamesItsFieldAndTheRemedy(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*corev1.Service){
		"targetPort rouse-8080 leads callers to the gateways alone: set annotation rouse.run/http-wake: enabled": func(s *corev1.Service) {
			delete(s.Annotations, "rouse.run/http-wake")
		},
		`annotation rouse.run/http-wake: invalid value "yes": must be enabled or disabled`: func(s *corev1.Service) {
			s.Annotations["rouse.run/http-wake"] = "yes"
		},
		"the Service has 2 ports, and HTTP wakes by a Service with one": func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 81})
		},
		"the Service is headless": func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone },
		`targetPort "rouse-http": invalid value: must be rouse- and a port of the pods`: func(s *corev1.Service) {
			s.Spec.Ports[0].TargetPort = intstr.FromString("rouse-http")
		},
		"the Service has no spec.selector": func(s *corev1.Service) { s.Spec.Selector = nil },
	} {
		_, err := read(site(change), resources.Scaling{HTTPWake: true})
		require.ErrorContains(t, err, want)
	}
	_, err := read(site(), resources.Scaling{})
	require.ErrorContains(t, err, "needs the gateways, which are not installed: install the chart with gateway.enabled")
}

func ofFunction() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "serverless.kyma-project.io/v1alpha2", Kind: "Function", Name: "pricing", Controller: new(true)}}
}

func TestATargetIsCheckedBeforeItIsScaled(t *testing.T) {
	t.Parallel()
	asked := scale{target: resources.ScaleTarget{Kind: "Deployment", Name: "worker"}, podPort: "rouse-8080"}
	pods := map[string]string{"app": "worker", "version": "2"}
	for name, tc := range map[string]struct {
		found *target
		want  string
	}{
		"none":            {nil, "Deployment worker does not exist in namespace orders: create it"},
		"a Function's":    {&target{podLabels: pods, function: "pricing"}, "Deployment worker is that of Function pricing"},
		"others' pods":    {&target{podLabels: map[string]string{"app": "other"}}, "the Service selects pods with app=worker, which the pods of Deployment worker are not"},
		"past gateways":   {&target{podLabels: pods, portNames: []string{"rouse-8080"}}, "a container of Deployment worker has a port named rouse-8080"},
		"a second scaler": {&target{podLabels: pods, scalers: []string{"HorizontalPodAutoscaler cpu"}}, "Deployment worker is scaled by HorizontalPodAutoscaler cpu too"},
	} {
		require.ErrorContains(t, check(serviceOf(nil), asked, tc.found), tc.want, name)
	}
	require.NoError(t, check(serviceOf(nil), asked, &target{podLabels: pods, portNames: []string{"http"}}))
}

package resources

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
	"github.com/rouse-run/rouse/internal/workload"
)

func TestAVersionNamesImageSourceAndRuntime(t *testing.T) {
	t.Parallel()
	base := Code{Image: "i", Source: "s", Runtime: "nodejs22"}
	require.Len(t, base.Version(), 10)
	require.Equal(t, base.Version(), Code{Image: "i", Source: "s", Runtime: "nodejs22"}.Version())
	for name, other := range map[string]Code{
		"another image":       {Image: "j", Source: "s", Runtime: "nodejs22"},
		"another source":      {Image: "i", Source: "t", Runtime: "nodejs22"},
		"another runtime":     {Image: "i", Source: "s", Runtime: "nodejs24"},
		"Kyma's contract":     {Image: "i", Source: "s", Runtime: "nodejs22", Kyma: true},
		"other preparations":  {Image: "i", Source: "s", Runtime: "nodejs22", Prepared: Prepared{Input: "x"}},
		"where one part ends": {Image: "is", Source: "", Runtime: "nodejs22"},
	} {
		require.NotEqual(t, base.Version(), other.Version(), name)
	}
}

func TestCodeComesBackFromTheTemplateThatRunsIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Code{
		"source in the environment": {Image: "runtime:1", Source: "c291cmNl", Runtime: "nodejs22"},
		"what the pods install":     {Image: "runtime:1", Runtime: "nodejs22", Prepared: Prepared{Input: "price-prepare-1", GitSecret: "git"}},
		"a file that the pod writes": {
			Image: "kyma:1", Runtime: "python312", Kyma: true, Inline: &workload.Inline{Source: "print('$$ $(A)')", Dependencies: "a==1"},
		},
		"what such a pod installs": {Image: "kyma:1", Runtime: "python312", Kyma: true, Prepared: Prepared{Input: "price-prepare-1"}},
		"source in the image":      {Image: "registry/shop-price@sha256:1", Runtime: "python314"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := Deployment(function(python), settings(), Workload{Code: want})
			require.NoError(t, err)
			deployment, err := applyconfig.Of[appsv1.Deployment](config)
			require.NoError(t, err)
			got, ok := CodeOf(&deployment.Spec.Template)
			require.True(t, ok)
			require.Equal(t, want.Version(), got.Version())
			got.version = ""
			require.Equal(t, want, got)
		})
	}
	_, ok := CodeOf(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: ContainerName, Image: "i"}}}})
	require.False(t, ok, "a template without a version is not ours")
}

func TestAPodThatEndsHasTimeForItsRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env  []corev1.EnvVar
		want int64
	}{
		"30 seconds by default":              {want: 33},
		"a longer timeout of the handler":    {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "90.5"}}, want: 94},
		"a shorter one changes nothing":      {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "5"}}, want: 33},
		"a timeout that is none":             {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "long"}}, want: 33},
		"ten minutes at most":                {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "1e300"}}, want: 603},
		"infinity too":                       {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "Inf"}}, want: 603},
		"a timeout that comes from a Secret": {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", ValueFrom: &corev1.EnvVarSource{}}}, want: 33},
		"the last of a name wins": {
			env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "90"}, {Name: "A"}, {Name: "FUNC_TIMEOUT", Value: "1"}}, want: 33,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := function(func(fn *v1alpha2.Function) { fn.Spec.Env = tc.env })
			require.Equal(t, tc.want, gracePeriod(fn))
		})
	}
}

func TestAPodServesOnForAWhileAfterTheOrderToEnd(t *testing.T) {
	t.Parallel()
	config, err := Deployment(function(), settings(), Workload{Code: code(function(), "s"), Replicas: ptr.To[int32](1)})
	require.NoError(t, err)
	pod := config.Spec.Template.Spec
	sleep := *pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	require.Positive(t, sleep)
	require.Greater(t, *pod.TerminationGracePeriodSeconds, sleep, "the grace period includes the sleep")
	require.Nil(t, pod.Containers[0].Lifecycle.PostStart, "nothing may delay the start")
}

// What prepares a pod runs scripts of packages.
func TestMountedSecretsAreInTheFunctionsContainerAlone(t *testing.T) {
	t.Parallel()
	fn := function(func(fn *v1alpha2.Function) {
		fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "db", MountPath: "/bindings/db"}}
	})
	code := Code{Image: "runtime:1", Runtime: "nodejs22", Prepared: Prepared{Input: "price-prepare-1"}}
	config, err := Deployment(fn, settings(), Workload{Code: code})
	require.NoError(t, err)
	pod := config.Spec.Template.Spec
	require.NotEmpty(t, pod.InitContainers)
	for i := range pod.InitContainers {
		for _, mount := range pod.InitContainers[i].VolumeMounts {
			require.NotEqual(t, "db", *mount.Name)
		}
		for _, variable := range pod.InitContainers[i].Env {
			require.NotEqual(t, workload.EnvBindingRoot, *variable.Name)
		}
	}
	names := map[string]string{}
	for _, variable := range pod.Containers[0].Env {
		if variable.Value != nil {
			names[*variable.Name] = *variable.Value
		}
	}
	require.Equal(t, "/bindings", names[workload.EnvBindingRoot])
}

package resources

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// podWithTokens is the pod of a Function where publishers show tokens.
func podWithTokens(t *testing.T, fn *v1alpha2.Function, change func(*Workload)) *corev1ac.PodSpecApplyConfiguration {
	t.Helper()
	installation := settings()
	installation.PublisherAudience = "audience"
	wanted := Workload{Code: code(fn, "c291cmNl")}
	if wanted.Kyma = FollowsKyma(fn, installation); wanted.Kyma {
		wanted.Source = ""
	}
	if change != nil {
		change(&wanted)
	}
	deployment, err := Deployment(fn, installation, wanted)
	require.NoError(t, err)
	return deployment.Spec.Template.Spec
}

func seesToken(container corev1ac.ContainerApplyConfiguration) bool {
	for _, mount := range container.VolumeMounts {
		if *mount.Name == tokenVolume {
			return *mount.MountPath == tokenDir && *mount.ReadOnly
		}
	}
	return false
}

func tokenFileOf(container corev1ac.ContainerApplyConfiguration) string {
	for _, variable := range container.Env {
		if *variable.Name == "PUBLISHER_TOKEN_FILE" && variable.Value != nil {
			return *variable.Value
		}
	}
	return ""
}

func TestAFunctionThatPublishesHereHasAToken(t *testing.T) {
	t.Parallel()
	env := func(variables ...corev1.EnvVar) option {
		return func(fn *v1alpha2.Function) { fn.Spec.Env = variables }
	}
	mounted := func(secret, path string) option {
		return func(fn *v1alpha2.Function) {
			fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: secret, MountPath: path}}
		}
	}
	for name, tc := range map[string]struct {
		with option
		want bool
	}{
		"any":                          {python, true},
		"of Kyma's contract":           {kyma, true},
		"with the address written":     {env(corev1.EnvVar{Name: "PUBLISHER_PROXY_ADDRESS", Value: settings().PublisherAddress}), true},
		"with a variable of its own":   {env(corev1.EnvVar{Name: "PUBLISHER_TOKEN_FILE", Value: "/certificates/key"}), true},
		"with a Secret around it":      {mounted("own", "/var/run/secrets"), true},
		"with a Secret of its name":    {mounted(tokenVolume, "/own"), true},
		"that publishes elsewhere":     {env(corev1.EnvVar{Name: "PUBLISHER_PROXY_ADDRESS", Value: "http://elsewhere.example.com"}), false},
		"whose address is in a Secret": {env(corev1.EnvVar{Name: "PUBLISHER_PROXY_ADDRESS", ValueFrom: &corev1.EnvVarSource{}}), false},
		"with a Secret in its place":   {mounted("own", "/var/run/secrets/rouse/"), false},
		"with a Secret below it":       {mounted("own", "/var/run/secrets/rouse/token"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podWithTokens(t, function(tc.with), nil)
			require.False(t, *pod.AutomountServiceAccountToken)
			require.Equal(t, tc.want, seesToken(pod.Containers[0]))
			want := ""
			if tc.want {
				want = "/var/run/secrets/rouse/token"
			}
			require.Equal(t, want, tokenFileOf(pod.Containers[0]))
			names := map[string]bool{}
			for _, volume := range pod.Volumes {
				require.False(t, names[*volume.Name], *volume.Name)
				names[*volume.Name] = true
				if *volume.Name != tokenVolume {
					continue
				}
				require.Len(t, volume.Projected.Sources, 1)
				require.Equal(t, "audience", *volume.Projected.Sources[0].ServiceAccountToken.Audience)
			}
			require.Equal(t, tc.want, names[tokenVolume])
		})
	}
}

func TestTheContainerThatInstallsPackagesHasNoToken(t *testing.T) {
	t.Parallel()
	pod := podWithTokens(t, function(python), func(wanted *Workload) { wanted.Prepared = Prepared{Input: "price-prepare-0123456789"} })
	require.Len(t, pod.InitContainers, 2)
	for _, container := range pod.InitContainers {
		require.False(t, seesToken(container), *container.Name)
	}
	require.True(t, seesToken(pod.Containers[0]))

	plan := Build{Name: "price-build-0123456789", Base: "runtime:1"}
	without, err := Job(function(), settings(), plan)
	require.NoError(t, err)
	installation := settings()
	installation.PublisherAudience = "audience"
	with, err := Job(function(), installation, plan)
	require.NoError(t, err)
	require.Equal(t, without, with)
}

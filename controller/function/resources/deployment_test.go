package resources

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestTheTemplateHashFollowsTheCodeAndNotTheReplicas(t *testing.T) {
	t.Parallel()
	hash := func(fn *v1alpha2.Function, source string, replicas int32) string {
		deployment, err := Deployment(fn, settings(), Workload{Code: code(fn, source), Replicas: &replicas})
		require.NoError(t, err)
		return deployment.Spec.Template.Annotations[AnnotationTemplate]
	}
	first := hash(function(), "a", 1)
	require.Equal(t, first, hash(function(scaled(0, 5)), "a", 7))
	require.NotEqual(t, first, hash(function(), "b", 1))
	require.NotEqual(t, first, hash(function(func(fn *v1alpha2.Function) {
		fn.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	}), "a", 1))
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config   *v1alpha2.ResourceConfiguration
		wantName string
		wantCPU  string
	}{
		"the default applies without a configuration": {config: nil, wantName: "M", wantCPU: "400m"},
		"the default applies when only build is set":  {config: &v1alpha2.ResourceConfiguration{}, wantName: "M", wantCPU: "400m"},
		"a profile wins": {
			config:   &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{Profile: "XS"}},
			wantName: "XS", wantCPU: "150m",
		},
		"own resources are custom": {
			config: &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{
				Resources: &corev1.ResourceRequirements{},
			}},
			wantName: "custom", wantCPU: "0",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := function(func(fn *v1alpha2.Function) { fn.Spec.ResourceConfiguration = tc.config })
			got, requirements := Requirements(fn, &Settings{DefaultProfile: "M"})
			require.Equal(t, tc.wantName, got)
			require.Equal(t, tc.wantCPU, requirements.Limits.Cpu().String())
		})
	}
}

func TestTheScaledObjectMatchesKEDAsSchema(t *testing.T) {
	t.Parallel()
	scaling := settings().Scaling
	fn := function(named(strings.Repeat("x", 63)), scaled(0, 5))
	content, err := json.Marshal(ScaledObject(fn, scaling, scaling.Defaults, nil, true))
	require.NoError(t, err)

	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var object kedav1alpha1.ScaledObject
	require.NoError(t, decoder.Decode(&object), "KEDA's type lacks a field")
	require.Equal(t, ptr.To[int32](0), object.Spec.MinReplicaCount)
	require.Nil(t, object.Spec.Fallback)
	require.Len(t, object.Spec.Advanced.HorizontalPodAutoscalerConfig.Name, 63)
	require.Equal(t, "apps/v1", object.Spec.ScaleTargetRef.APIVersion)
}

func TestNamesOfVolumesAreValid(t *testing.T) {
	t.Parallel()
	require.Equal(t, "plain", volumeName("plain"))
	for _, secret := range []string{"with.dots", tmpVolume, functionVolume, inputVolume, "servicebinding-1", strings.Repeat("long", 30)} {
		name := volumeName(secret)
		require.NotEqual(t, secret, name)
		require.LessOrEqual(t, len(name), 63)
		require.NotContains(t, name, ".")
	}
}

func TestSecretMountedAtTmpReplacesTheVolume(t *testing.T) {
	t.Parallel()
	vols, mounts, err := volumes(function(func(fn *v1alpha2.Function) {
		fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "own", MountPath: "/tmp"}}
		fn.Spec.ContainerSecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
	}), settings(), Code{})
	require.NoError(t, err)
	require.Len(t, vols, 1)
	require.Len(t, mounts, 1)
	require.Equal(t, "own", *mounts[0].Name)
}

func TestSecurityContextKeepsTheUsersSettings(t *testing.T) {
	t.Parallel()
	fn := function(func(fn *v1alpha2.Function) {
		fn.Spec.ContainerSecurityContext = &corev1.SecurityContext{Privileged: new(true), RunAsNonRoot: new(false)}
	})
	security := ContainerSecurityContext(fn, false)
	require.True(t, *security.Privileged)
	require.False(t, *security.RunAsNonRoot)
	require.Nil(t, security.AllowPrivilegeEscalation, "Kubernetes refuses false beside privileged")
	require.Nil(t, fn.Spec.ContainerSecurityContext.Capabilities, "the Function itself must not change")
}

// podWithTokens returns the pod of a Function where publishers need tokens.
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

func TestOnlyFunctionsOfThisPublisherHaveAToken(t *testing.T) {
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
		"any":                        {python, true},
		"of Kyma's contract":         {kyma, true},
		"with the address written":   {env(corev1.EnvVar{Name: "PUBLISHER_PROXY_ADDRESS", Value: settings().PublisherAddress}), true},
		"with a variable of its own": {env(corev1.EnvVar{Name: "PUBLISHER_TOKEN_FILE", Value: "/certificates/key"}), true},
		"with a Secret around it":    {mounted("own", "/var/run/secrets"), true},
		"with a Secret of its name":  {mounted(tokenVolume, "/own"), true},
		"that publishes elsewhere":   {env(corev1.EnvVar{Name: "PUBLISHER_PROXY_ADDRESS", Value: "http://elsewhere.example.com"}), false},
		"an address in a Secret":     {env(corev1.EnvVar{Name: "PUBLISHER_PROXY_ADDRESS", ValueFrom: &corev1.EnvVarSource{}}), false},
		"with a Secret in its place": {mounted("own", "/var/run/secrets/rouse/"), false},
		"with a Secret below it":     {mounted("own", "/var/run/secrets/rouse/token"), false},
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

package resources

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
		"the default applies when nothing is said":   {config: nil, wantName: "M", wantCPU: "400m"},
		"the default applies when only build is set": {config: &v1alpha2.ResourceConfiguration{}, wantName: "M", wantCPU: "400m"},
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

func TestTheScaledObjectIsOneThatKEDAKnows(t *testing.T) {
	t.Parallel()
	scaling := settings().Scaling
	fn := function(named(strings.Repeat("x", 63)), scaled(0, 5))
	content, err := json.Marshal(ScaledObject(fn, scaling, scaling.Defaults, true))
	require.NoError(t, err)

	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var object kedav1alpha1.ScaledObject
	require.NoError(t, decoder.Decode(&object), "a field has no place in KEDA's type")
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

func TestASecretAtTmpTakesThePlaceOfTheVolume(t *testing.T) {
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

func TestSecurityKeepsWhatTheUserSays(t *testing.T) {
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

package resources

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func buildWith(config v1alpha2.ResourceRequirements) option {
	return func(fn *v1alpha2.Function) {
		fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Build: &config}
	}
}

func TestBuildsAreAsInTheGoldenFiles(t *testing.T) {
	t.Parallel()
	fn := function(named("price"), buildWith(v1alpha2.ResourceRequirements{Profile: "slow"}))
	job, err := Job(fn, settings(), Build{
		Name: "price-build-0123456789", Base: "registry.example.com/rouse-runtime-nodejs22:1", GitSecret: "git",
		Annotations: map[string]string{"rouse.run/build": "{}"},
	})
	require.NoError(t, err)
	for name, object := range map[string]any{
		"job":             job,
		"secret-input":    InputSecret(fn, "price-build-0123456789", v1alpha2.ResourceJob, []byte(`{"function":"shop/price"}`), []byte("PEM")),
		"secret-registry": RegistrySecret(fn, []byte(`{"auths":{}}`)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireGolden(t, name, object)
		})
	}
}

func TestBuildRequirements(t *testing.T) {
	t.Parallel()
	own := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}
	for name, tc := range map[string]struct {
		fn     *v1alpha2.Function
		memory string
	}{
		"the default":   {function(), "1100Mi"},
		"a profile":     {function(buildWith(v1alpha2.ResourceRequirements{Profile: "local-dev"})), "400Mi"},
		"own resources": {function(buildWith(v1alpha2.ResourceRequirements{Resources: &own})), "3Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := BuildRequirements(tc.fn, "normal").Limits
			require.Equal(t, tc.memory, limits.Memory().String())
		})
	}
	for _, name := range []string{"local-dev", "slow", "normal", "fast"} {
		_, ok := BuildProfile(name)
		require.True(t, ok)
	}
	_, ok := BuildProfile("L")
	require.False(t, ok)
}

func TestAPodThatInstallsAsksForNoMoreThanItNeedsToRun(t *testing.T) {
	t.Parallel()
	config := settings()
	for profile, want := range map[string]struct{ request, limit string }{
		"XS": {"64Mi", "1100Mi"},
		"XL": {"1Gi", "2Gi"},
	} {
		config.DefaultProfile = profile
		got := prepareRequirements(function(), config)
		require.Equal(t, want.request, got.Requests.Memory().String())
		require.Equal(t, want.limit, got.Limits.Memory().String())
	}
	normal, _ := BuildProfile("normal")
	require.Equal(t, "1100Mi", normal.Limits.Memory().String())
}

func TestNamesOfBuildsAreValid(t *testing.T) {
	t.Parallel()
	short := JobName(function(named("price")), "0123456789")
	require.Equal(t, "price-build-0123456789", short)
	long, other := strings.Repeat("x", 63), strings.Repeat("x", 62)+"y"
	names := map[string]bool{}
	for _, name := range []string{long, other} {
		built := JobName(function(named(name)), "0123456789")
		require.Empty(t, validation.IsDNS1123Label(built))
		names[built] = true
		require.Empty(t, validation.IsDNS1123Subdomain(RegistrySecretName(function(named(name)))))
		require.Empty(t, validation.IsDNS1123Subdomain(PreparationName(function(named(name)), "0123456789")))
	}
	require.Len(t, names, 2)
}

package resources

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/fips"
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

// A package's script can read all files of the container that it runs in.
func TestContainersOfABuildSeeOnlyTheCredentialsTheyNeed(t *testing.T) {
	t.Parallel()
	fn := function(named("price"))
	job, err := Job(fn, settings(), Build{Name: "price-build-0123456789", Base: "runtime:1", GitSecret: "git"})
	require.NoError(t, err)
	pod := job.Spec.Template.Spec
	secrets := map[string]string{}
	for _, volume := range pod.Volumes {
		switch {
		case volume.Secret != nil:
			secrets[*volume.Name] = *volume.Secret.SecretName
		default:
			require.Positive(t, volume.EmptyDir.SizeLimit.Sign(), "the size of %s", *volume.Name)
		}
	}
	seen, written := map[string][]string{}, map[string][]string{}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, mount := range container.VolumeMounts {
			if secret := secrets[*mount.Name]; secret != "" {
				seen[*container.Name] = append(seen[*container.Name], secret)
			} else if mount.ReadOnly == nil {
				written[*mount.Name] = append(written[*mount.Name], *container.Name)
			}
		}
	}
	require.Equal(t, map[string][]string{
		"fetch":   {"price-build-0123456789", "git"},
		"install": {"price-build-0123456789", v1alpha2.PackageRegistrySecret},
		"push":    {"price-build-0123456789", "rouse-registry-price"},
	}, seen)
	require.Equal(t, map[string][]string{
		"builder-bin": {"fetch"}, "builder-source": {"fetch"}, "builder-fetch": {"fetch"}, "builder-install": {"install"},
		"builder-push": {"push"}, "builder-handover": {"install", "push"},
	}, written, "containers must share files only through the socket")
	require.Equal(t, []string{"/rouse/bin/builder", "install"}, pod.Containers[0].Command)
	require.Equal(t, "runtime:1", *pod.Containers[0].Image)
	require.NotEqual(t, "runtime:1", *pod.Containers[1].Image, "what pushes is ours")
}

// The chart sets the same mode for the processes of a release; a test of the chart compares them.
func TestEveryContainerOfABuildRunsInTheInstallationsFIPSMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []fips.Mode{fips.Off, fips.On, fips.Only} {
		config := settings()
		config.Build.FIPS = mode
		job, err := Job(function(named("price")), config, Build{Name: "price-build-0123456789", Base: "runtime:1"})
		require.NoError(t, err)
		pod := job.Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			setting := ""
			for _, variable := range container.Env {
				if *variable.Name == fips.Variable {
					setting = *variable.Value
				}
			}
			require.Equal(t, mode.Setting(), setting, *container.Name)
			require.Equal(t, mode.Asked(), slices.Contains(container.Command, "--fips-mode="+string(mode)), *container.Name)
			require.Equal(t, *container.Name, container.Command[1], "the step comes before flags")
		}
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

func TestPreparingPodsRequestOnlyTheirRuntimeResources(t *testing.T) {
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
		require.Empty(t, validation.IsDNS1123Subdomain(RegistrySecretName(name)))
		require.Empty(t, validation.IsDNS1123Subdomain(PreparationName(function(named(name)), "0123456789")))
	}
	require.Len(t, names, 2)
}

package toolchain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

func TestFailureOfALaunchHasAReasonAndAdvice(t *testing.T) {
	t.Parallel()
	refersTo := func(source corev1.EnvVarSource) func(*v1alpha2.Function) {
		return func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &source}} }
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha2.Function)
		reason Reason
		says   string
	}{
		"no such Secret": {
			refersTo(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "a", LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}),
			ReferenceMissing, "shop/price.yaml:3: there is no Secret shop/s among the files; add it to the folder, or correct spec.env[KEY].valueFrom",
		},
		"a field of a pod": {
			refersTo(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}),
			ReferenceMissing, "there is no spec.nodeName without a pod",
		},
		"a Secret to mount": {
			func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "s", MountPath: "/a"}}
			},
			ReferenceMissing, "there is no Secret shop/s among the files",
		},
		"a package.json that is none": {depends("{"), "InvalidDependencies", "spec.source.inline.dependencies is not JSON"},
		"no such package": {
			depends(`{"dependencies": {"@rouse-private/nothing": "1.0.0"}}`), "PackageNotFound", "there is no package @rouse-private/nothing",
		},
		"no such runtime": {func(fn *v1alpha2.Function) { fn.Spec.Runtime = "ruby3" }, "InstallFailed", "there is no runtime ruby3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := newFixture(t).refused(t, inline("nodejs22", "exports.main = () => 1", tc.change))
			require.Equal(t, tc.reason, failed.Reason, failed.Message)
			require.Contains(t, failed.Message, tc.says)
		})
	}
}

func TestAnInterpreterThatCannotBeUsedIsNamedWithWhatToInstall(t *testing.T) {
	t.Parallel()
	program := func(text string) string {
		file := filepath.Join(t.TempDir(), "interpreter")
		require.NoError(t, envtest.Script(file, text))
		return file
	}
	old, broken, gone := program(`echo '["/usr/bin/python3.9", "3.9.2", "x"]'`), program("echo no display >&2; exit 3"), "/no/such/node"
	for name, tc := range map[string]struct {
		runtime string
		option  func(*Options)
		says    []string
	}{
		"gone":    {"nodejs22", func(o *Options) { o.Programs = map[string]string{"nodejs": gone} }, []string{"there is no Node.js at /no/such/node", "install Node.js 20.19"}},
		"too old": {"python312", func(o *Options) { o.Programs = map[string]string{"python": old} }, []string{old + " is Python 3.9.2, which is too old", "install Python 3.11"}},
		"broken":  {"nodejs22", func(o *Options) { o.Programs = map[string]string{"nodejs": broken} }, []string{"does not run as Node.js: no display", "install Node.js"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := newFixture(t, tc.option).refused(t, inline(tc.runtime, "x"))
			require.Equal(t, InterpreterMissing, failed.Reason)
			for _, text := range tc.says {
				require.Contains(t, failed.Message, text)
			}
		})
	}
}

func TestMissingInterpreterIsReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	require.Contains(t, newFixture(t).refused(t, inline("python312", "x")).Message, "there is no python3 on the PATH; install Python 3.11")
}

func TestACacheThatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a-file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	failed := newFixture(t, func(o *Options) { o.Cache = filepath.Join(file, "cache") }).refused(t, inline("nodejs22", "x"))
	require.Equal(t, CacheUnusable, failed.Reason)
	require.Contains(t, failed.Message, file)
	require.Contains(t, failed.Message, "XDG_CACHE_HOME")
}

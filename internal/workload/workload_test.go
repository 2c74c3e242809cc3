package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestSourceRoundTripsThroughItsEncoding(t *testing.T) {
	t.Parallel()
	source := "exports.main = () => `$(FUNC_NAME) $$ \\n ${1}`\n" + strings.Repeat("// ümläut 日本\n", 5000)
	encoded, err := EncodeSource(source)
	require.NoError(t, err)
	require.Less(t, len(encoded), 2000, "a repetitive source should shrink")
	require.NotContains(t, encoded, "$", "Kubernetes would expand it")

	_, err = EncodeSource("exports.main = () => 'of another Function'\n")
	require.NoError(t, err)
	again, err := EncodeSource(source)
	require.NoError(t, err)
	require.Equal(t, encoded, again, "another result would restart the pods")

	packed, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	decoded, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, source, string(decoded))
}

func TestTuning(t *testing.T) {
	t.Parallel()
	defaults := Tuning{PollingSeconds: 10, CooldownSeconds: 60, HTTPConcurrency: 50, HTTPWaitSeconds: 60, HTTPWake: true}
	tests := map[string]struct {
		annotations map[string]string
		want        Tuning
		wantErrors  []string
	}{
		"without annotations the defaults stay": {want: defaults},
		"each annotation replaces its default": {
			annotations: map[string]string{
				v1alpha2.AnnotationPollingInterval: "300",
				v1alpha2.AnnotationCooldownPeriod:  "0",
				v1alpha2.AnnotationLagThreshold:    "1",
				v1alpha2.AnnotationHTTPWake:        "disabled",
				v1alpha2.AnnotationHTTPConcurrency: "5",
				v1alpha2.AnnotationHTTPWait:        "3600",
			},
			want: Tuning{PollingSeconds: 300, CooldownSeconds: 0, LagThreshold: 1, HTTPConcurrency: 5, HTTPWaitSeconds: 3600},
		},
		"every wrong annotation is named": {
			annotations: map[string]string{
				v1alpha2.AnnotationPollingInterval: "10s",
				v1alpha2.AnnotationCooldownPeriod:  "-1",
				v1alpha2.AnnotationLagThreshold:    "0",
				v1alpha2.AnnotationHTTPWake:        "never",
				v1alpha2.AnnotationHTTPConcurrency: "0",
				v1alpha2.AnnotationHTTPWait:        "2h",
			},
			want: defaults,
			wantErrors: []string{
				`annotation rouse.run/polling-interval: invalid value "10s"`,
				`annotation rouse.run/cooldown-period: invalid value "-1"`,
				`annotation rouse.run/lag-threshold: invalid value "0"`,
				`annotation rouse.run/http-wake: invalid value "never": must be enabled or disabled`,
				`annotation rouse.run/http-concurrency: invalid value "0": must be a whole number from 1 to 1000000`,
				`annotation rouse.run/http-wait: invalid value "2h": must be a whole number from 1 to 3600`,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := TuningOf(tc.annotations, defaults)
			require.Equal(t, tc.want, got)
			if len(tc.wantErrors) == 0 {
				require.NoError(t, err)
			}
			for _, want := range tc.wantErrors {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestBindingRootIsSetWhereASecretIsMountedBelowIt(t *testing.T) {
	t.Parallel()
	mounted := func(paths ...string) *v1alpha2.Function {
		fn := &v1alpha2.Function{}
		for _, path := range paths {
			fn.Spec.SecretMounts = append(fn.Spec.SecretMounts, v1alpha2.SecretMount{SecretName: "db", MountPath: path})
		}
		return fn
	}
	tests := map[string]struct {
		fn    *v1alpha2.Function
		env   []corev1.EnvVar
		want  string
		found bool
	}{
		"no Secret is mounted":               {fn: mounted()},
		"a Secret is mounted elsewhere":      {fn: mounted("/etc/db", "/bindings-of-mine/db")},
		"the folder itself is not a binding": {fn: mounted("/bindings")},
		"a path that leads out of it":        {fn: mounted("/bindings/../db")},
		"a Secret in a folder of its own":    {fn: mounted("/bindings/db"), want: "/bindings", found: true},
		"one of several":                     {fn: mounted("/etc/a", "/bindings/db/"), want: "/bindings", found: true},
		"a path with a slash too many":       {fn: mounted("//bindings//db"), want: "/bindings", found: true},
		"the user's own value wins":          {fn: mounted("/bindings/db"), env: variable("/srv/bindings"), want: "/srv/bindings", found: true},
		"an empty value of the user's":       {fn: mounted("/bindings/db"), env: variable(""), found: true},
		"the user's value without any mount": {fn: mounted(), env: variable("/srv"), want: "/srv", found: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.fn.Spec.Runtime, tc.fn.Spec.Env = v1alpha2.RuntimeNodeJS22, tc.env
			for _, env := range [][]corev1.EnvVar{
				Environment(tc.fn, tc.fn.Spec.Runtime, "", Addresses{}),
				KymaEnvironment(tc.fn, tc.fn.Spec.Runtime, nil, Addresses{}),
			} {
				var values []string
				for _, variable := range env {
					if variable.Name == EnvBindingRoot {
						values = append(values, variable.Value)
					}
				}
				if !tc.found {
					require.Empty(t, values)
					continue
				}
				require.Equal(t, []string{tc.want}, values)
			}
		})
	}
}

func TestVariablesOfTheUserMayReferToTheBindingRoot(t *testing.T) {
	t.Parallel()
	fn := &v1alpha2.Function{}
	fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "db", MountPath: "/bindings/db"}}
	fn.Spec.Env = []corev1.EnvVar{{Name: "CA", Value: "$(SERVICE_BINDING_ROOT)/db/ca.crt"}}
	var names []string
	for _, variable := range Environment(fn, v1alpha2.RuntimeNodeJS22, "", Addresses{}) {
		names = append(names, variable.Name)
	}
	require.Subset(t, names, []string{EnvBindingRoot, "CA"})
	before := 0
	for i, name := range names {
		if name == EnvBindingRoot {
			before = i
		}
	}
	require.Equal(t, "CA", names[before+1], "Kubernetes replaces only what came before")
}

func TestMountsBelowAFolder(t *testing.T) {
	t.Parallel()
	fn := &v1alpha2.Function{}
	fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "db", MountPath: "/srv/bindings/db"}}
	require.True(t, MountsBelow(fn, "/srv/bindings"))
	require.True(t, MountsBelow(fn, "/srv/bindings/"))
	require.True(t, MountsBelow(fn, "/"))
	require.False(t, MountsBelow(fn, "/srv/bindings/db"))
	require.False(t, MountsBelow(fn, ""))
	require.False(t, MountsBelow(fn, "/bindings"))
}

func variable(value string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: EnvBindingRoot, Value: value}}
}

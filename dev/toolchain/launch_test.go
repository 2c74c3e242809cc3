package toolchain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/runtimes/language"
)

func TestAFunctionOfEachRuntimeAnswers(t *testing.T) {
	t.Parallel()
	for runtime, source := range map[string]string{
		"nodejs22":  `const sdk = require('sdk'); module.exports.main = (event, context) => sdk.getFunctionName() + ' ' + context['function-name']`,
		"nodejs24":  "import sdk from 'sdk'\nexport const main = () => sdk.getFunctionName() + ' price'",
		"nodejs26":  `const sdk = require('sdk'); exports.main = (req, res) => res.send(sdk.getFunctionName() + ' price')`,
		"python312": "import bottle\ndef main(event, context):\n    return bottle.HTTPResponse(body=context['function-name'] + ' price')\n",
		"python314": "import flask, sdk\ndef main():\n    return sdk.get_function_name() + ' price'\n",
		"go126": "package handler\n\nimport (\n\t\"context\"\n\n\t\"github.com/rouse-run/rouse/runtimes/golang/function\"\n)\n\n" +
			"func Handle(context.Context, function.Event) (any, error) {\n\treturn function.Name() + \" price\", nil\n}\n",
	} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			require.Equal(t, "price price", start(t, w.launch(t, inline(runtime, source))).get(t))
		})
	}
}

func TestPackagesOfTheRuntimesAreAvailableByDefault(t *testing.T) {
	t.Parallel()
	for runtime, source := range map[string]string{
		"nodejs22":  "const axios = require('axios'); require('@opentelemetry/api'); exports.main = () => typeof axios.get",
		"nodejs26":  "import axios from 'axios'\nexport const main = (req, res) => res.send(typeof axios.get)",
		"python312": "import requests\nimport opentelemetry.instrumentation.requests\ndef main(event, context):\n    return type(requests.get).__name__\n",
		"python314": "import requests\nimport opentelemetry.instrumentation.requests\ndef main():\n    return type(requests.get).__name__\n",
	} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, "function", start(t, newFixture(t).launch(t, inline(runtime, source))).get(t))
		})
	}
}

func TestEqualDependenciesAreInstalledOnce(t *testing.T) {
	t.Parallel()
	for runtime, tc := range map[string]struct{ source, dependencies, want string }{
		"nodejs22": {
			"exports.main = () => require('left-pad')('7', 3, '0')", `{"description": "UNIQUE", "dependencies": {"left-pad": "1.3.0"}}`, "007",
		},
		"python312": {"import six\n\ndef main(event, context):\n    return six.__version__\n", "six==1.16.0 # UNIQUE\n", "1.16.0"},
	} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			// Neither the user nor another run of this test has installed them.
			tc.dependencies = strings.ReplaceAll(tc.dependencies, "UNIQUE", t.TempDir())
			first := w.launch(t, inline(runtime, tc.source, depends(tc.dependencies)))
			require.Regexp(t, `shop/price: installing the dependencies in spec.source.inline.dependencies\n(?:.*\n)*`+
				`shop/price: done in \d+\.\d s: installing the dependencies in spec.source.inline.dependencies`, w.progress())
			require.Contains(t, w.did(), "installing the dependencies in spec.source.inline.dependencies")
			require.True(t, strings.HasSuffix(w.did(), "\nshop/price: "), "the progress must end: %s", w.did())
			require.Equal(t, tc.want, start(t, first).get(t))

			again := newFixture(t)
			again.launch(t, inline(runtime, tc.source+"\n", depends(tc.dependencies), func(fn *v1alpha2.Function) { fn.Name = "other" }))
			require.NotContains(t, again.progress(), "installing")
		})
	}
}

func TestIdentityOfALaunchDependsOnItsInputs(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	launch := func(change ...func(*v1alpha2.Function)) string {
		return w.launch(t, inline("nodejs22", "exports.main = () => 1", change...)).Identity
	}
	first := launch()
	require.Equal(t, first, launch())
	require.Equal(t, first, launch(func(fn *v1alpha2.Function) {
		fn.Spec.ScaleConfig = &v1alpha2.ScaleConfig{MaxReplicas: new(int32)}
	}))
	for name, change := range map[string]func(*v1alpha2.Function){
		"source":  func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Source += "0" },
		"runtime": func(fn *v1alpha2.Function) { fn.Spec.Runtime = "nodejs24" },
		"package": depends(`{"type": "commonjs"}`),
		"env":     func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} },
	} {
		require.NotEqual(t, first, launch(change), name)
	}
}

func TestEnvironmentEqualsThatOfAPod(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of this machine")
	w := newFixture(t)
	w.in.ConfigMaps = []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "prices"}, Data: map[string]string{"tax": "19"}}}
	w.in.Secrets = []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "keys"}, Data: map[string][]byte{"key": []byte("wrong")}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keys"}, Data: map[string][]byte{"key": []byte("secret $(TAX)")}},
	}
	selector := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	launch := w.launch(t, inline("nodejs22", "exports.main = () => JSON.stringify(process.env)", func(fn *v1alpha2.Function) {
		fn.Spec.Env = []corev1.EnvVar{
			{Name: "TAX", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: selector("prices"), Key: "tax"}}},
			{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: selector("keys"), Key: "key"}}},
			{Name: "NOT_THERE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: selector("gone"), Key: "key", Optional: new(true),
			}}},
			{Name: "PLAIN", Value: "$(TAX)% $$(TAX) $(UNKNOWN) $"},
			{Name: "NODE_ENV", Value: "development"},
		}
	}))
	require.NotContains(t, strings.Join(launch.Args, " "), "secret")
	var env map[string]string
	require.NoError(t, json.Unmarshal([]byte(start(t, launch).get(t)), &env))
	for name, want := range map[string]string{
		"FUNC_NAME": "price", "SERVICE_NAMESPACE": "shop", "FUNC_RUNTIME": "nodejs22", "PUBLISHER_PROXY_ADDRESS": w.in.PublisherAddress,
		"TAX": "19", "KEY": "secret $(TAX)", "PLAIN": "19% $(TAX) $(UNKNOWN) $", "NODE_ENV": "development",
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"),
	} {
		require.Equal(t, want, env[name], name)
	}
	require.NotContains(t, env, "NOT_THERE")
	require.NotContains(t, env, "AWS_SECRET_ACCESS_KEY")
}

func TestMountedSecretsLieBelowAFolderThatTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.in.Secrets = []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keys"}, StringData: map[string]string{"key": "abc", "../../up": "no"},
	}}
	fn := inline("nodejs22", "exports.main = () => require('fs').readFileSync(process.env.ROUSE_MOUNTS + '/etc/keys/key', 'utf8')",
		func(fn *v1alpha2.Function) {
			fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "keys", MountPath: "/etc/keys"}}
		})
	first := w.launch(t, fn)
	require.Equal(t, "abc", start(t, first).get(t))
	require.Equal(t, first, w.launch(t, fn))
	require.Equal(t, 1, strings.Count(w.progress(), "read them from $ROUSE_MOUNTS/etc/keys"))
	files, err := filepath.Glob(filepath.Join(w.in.State, "functions/shop/price/mounts/*/up"))
	require.NoError(t, err)
	require.Len(t, files, 1, "the files of keys must stay below the folder")

	w.in.Secrets[0].StringData["key"] = "def"
	changed := w.launch(t, fn)
	require.NotEqual(t, first.Identity, changed.Identity)
	require.Equal(t, "def", start(t, changed).get(t))
}

func TestBindingsLieBelowTheirRootAsInACluster(t *testing.T) {
	t.Parallel()
	for name, own := range map[string][]corev1.EnvVar{
		"the root that a mount implies": nil,
		"a root of the user's":          {{Name: "SERVICE_BINDING_ROOT", Value: "/bindings"}, {Name: "DB", Value: "$(SERVICE_BINDING_ROOT)/db"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.in.Secrets = []*corev1.Secret{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, StringData: map[string]string{"type": "postgresql"},
			}}
			fn := inline("nodejs22", `exports.main = () => require('fs').readFileSync(
				(process.env.DB || process.env.SERVICE_BINDING_ROOT + '/db') + '/type', 'utf8')`,
				func(fn *v1alpha2.Function) {
					fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "db", MountPath: "/bindings/db"}}
					fn.Spec.Env = own
				})
			require.Equal(t, "postgresql", start(t, w.launch(t, fn)).get(t))
		})
	}
}

func TestRuntimeOfAnotherVersionIsReportedOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for range 2 {
		w.launch(t, inline("nodejs26", "exports.main = () => 1"))
	}
	known, err := w.interpreter(t.Context(), inline("nodejs26", ""))
	require.NoError(t, err)
	want := 1
	if known.release() == "26" {
		want = 0
	}
	require.Equal(t, want, strings.Count(w.progress(), "runtime nodejs26 runs with Node.js "+known.version))
}

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
			ReferenceMissing, "shop/price.yaml:3: there is no Secret shop/s among the files; put it into shop/secrets.local.yaml, which is for this machine alone, or correct spec.env[KEY].valueFrom",
		},
		"a field of a pod": {
			refersTo(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}),
			ReferenceMissing, "there is no spec.nodeName without a pod",
		},
		"a Secret to mount": {
			func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "s", MountPath: "/a"}}
			},
			ReferenceMissing, "there is no Secret shop/s among the files; put it into shop/secrets.local.yaml, which is for this machine alone, or correct spec.secretMounts at /a",
		},
		"a malformed package.json": {depends("{"), "InvalidDependencies", "spec.source.inline.dependencies is not JSON"},
		"no such package": {
			depends(`{"dependencies": {"@rouse-private/nothing": "1.0.0"}}`), "PackageNotFound", "there is no package @rouse-private/nothing",
		},
		"an unknown runtime": {func(fn *v1alpha2.Function) { fn.Spec.Runtime = "ruby3" }, "InstallFailed", "there is no runtime ruby3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := newFixture(t).refused(t, inline("nodejs22", "exports.main = () => 1", tc.change))
			require.Equal(t, tc.reason, failed.Reason, failed.Message)
			require.Contains(t, failed.Message, tc.says)
		})
	}
}

func TestUnusableInterpreterIsReportedWithARemedy(t *testing.T) {
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
		"missing": {"nodejs22", func(o *Options) { o.Programs = map[string]string{"nodejs": gone} }, []string{"there is no Node.js at /no/such/node", "install Node.js 20.19"}},
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

func TestReadOnlyCacheIsReported(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a-file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	failed := newFixture(t, func(o *Options) { o.Cache = filepath.Join(file, "cache") }).refused(t, inline("nodejs22", "x"))
	require.Equal(t, CacheUnusable, failed.Reason)
	require.Contains(t, failed.Message, file)
	require.Contains(t, failed.Message, "XDG_CACHE_HOME")
}

const greets = `package handler

import (
	"io"
	"net/http"
)

func Handle(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }
`

func TestSourceIsCompiledOncePerSetOfInputs(t *testing.T) {
	t.Parallel()
	source := greets + "// " + t.TempDir() + "\n" // no other run of this test has compiled it
	w := newFixture(t)
	first := w.launch(t, inline("go126", source))
	require.Contains(t, w.progress(), "shop/price: compiling the source\n")
	require.Equal(t, "hello", start(t, first).get(t))

	again := newFixture(t)
	require.Equal(t, first.Path, again.launch(t, inline("go126", source)).Path)
	require.NotContains(t, again.progress(), "compiling")

	other := again.launch(t, inline("go126", source+"// changed\n"))
	require.NotEqual(t, first.Path, other.Path)
	require.NotEqual(t, first.Identity, other.Identity, "a replica has to be replaced")
}

func TestASourceThatDoesNotCompileNamesTheLineAndTheFunction(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"package handler\n\nfunc Handle(":                               "shop/price.yaml:3: handler.go:3:13: expected",
		"package handler\n\nfunc Main() {}\n":                           "shop/price.yaml:3: there is no func Handle in handler.go",
		greets + "\nvar _ = missing\n":                                  "handler.go:10:9: undefined: missing",
		"package handler\n\nfunc Handle(a, b int) {}\n":                 "handler.go: Handle is a func(a int, b int); write one of",
		"package handler\n\nimport _ \"example.com/x\"\n" + greets[16:]: "no module in spec.source.inline.dependencies provides example.com/x",
	} {
		failed := newFixture(t).refused(t, inline("go126", source))
		require.Equal(t, Reason(language.SourceInvalid), failed.Reason)
		require.Contains(t, failed.Message, want)
	}
}

func TestMissingDebuggerOfALanguageIsReported(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.in.Debug = true
	require.Contains(t, w.refused(t, inline("go126", greets)).Message, "local mode starts no debugger for Go; leave --debug away")
}

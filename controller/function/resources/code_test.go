package resources

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes/languages"
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

func TestCodeRoundTripsThroughThePodTemplate(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Code{
		"source in the environment":      {Image: "runtime:1", Source: "c291cmNl", Runtime: "nodejs22"},
		"packages installed by the pods": {Image: "runtime:1", Runtime: "nodejs22", Prepared: Prepared{Input: "price-prepare-1", GitSecret: "git"}},
		"a file that the pod writes": {
			Image: "kyma:1", Runtime: "python312", Kyma: true, Inline: &workload.Inline{Source: "print('$$ $(A)')", Dependencies: "a==1"},
		},
		"packages installed by Kyma's pods": {Image: "kyma:1", Runtime: "python312", Kyma: true, Prepared: Prepared{Input: "price-prepare-1"}},
		"source in the image":               {Image: "registry/shop-price@sha256:1", Runtime: "python314"},
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

func TestATerminatingPodFinishesItsRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env  []corev1.EnvVar
		want int64
	}{
		"30 seconds by default":              {want: 33},
		"a longer timeout of the handler":    {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "90.5"}}, want: 94},
		"a shorter one changes nothing":      {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "5"}}, want: 33},
		"a malformed timeout":                {env: []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "long"}}, want: 33},
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

func TestATerminatingPodServesUntilItLeavesTheService(t *testing.T) {
	t.Parallel()
	config, err := Deployment(function(), settings(), Workload{Code: code(function(), "s"), Replicas: ptr.To[int32](1)})
	require.NoError(t, err)
	pod := config.Spec.Template.Spec
	sleep := *pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	require.Positive(t, sleep)
	require.Greater(t, *pod.TerminationGracePeriodSeconds, sleep, "the grace period includes the sleep")
	require.Nil(t, pod.Containers[0].Lifecycle.PostStart, "the start must not be delayed")
}

// Init containers run scripts of packages.
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

func TestWhichContractAnImageFollows(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		override, annotation, runtime string
		want                          bool
	}{
		"the runtime's own image":                                {},
		"the annotation means nothing for that":                  {annotation: "kyma"},
		"another image is Kyma's":                                {override: "example.com/own:1", want: true},
		"so is one of a repository with a like name":             {override: "registry.example.com/rouse-runtime-nodejs22-gcc:1", want: true},
		"an image of a runtime's repository is ours":             {override: "registry.example.com/rouse-runtime-nodejs22:0"},
		"also by digest":                                         {override: "registry.example.com/rouse-runtime-nodejs22@sha256:1"},
		"also for another runtime":                               {override: "registry.example.com/rouse-runtime-python312"},
		"an image made from ours is declared as such":            {override: "example.com/own:1", annotation: "rouse"},
		"one of ours may be run by Kyma's contract":              {override: "registry.example.com/rouse-runtime-nodejs22:0", annotation: "kyma", want: true},
		"a port of the registry is no tag of another":            {override: "registry.example.com:5000/rouse-runtime-nodejs22", want: true},
		"a runtime that Kyma lacks does not follow its contract": {override: "example.com/own:1", annotation: "kyma", runtime: "go126"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := function()
			fn.Spec.RuntimeImageOverride = tc.override
			if tc.runtime != "" {
				fn.Spec.Runtime = v1alpha2.Runtime(tc.runtime)
			}
			if tc.annotation != "" {
				fn.Annotations = map[string]string{v1alpha2.AnnotationRuntimeContract: tc.annotation}
			}
			require.Equal(t, tc.want, FollowsKyma(fn, settings()))
		})
	}
}

func TestPodsOfKymasContractFitTheRestrictedLevel(t *testing.T) {
	t.Parallel()
	for _, runtime := range []v1alpha2.Runtime{v1alpha2.RuntimeNodeJS22, v1alpha2.RuntimePython312} {
		fn := function(kyma)
		config, err := Deployment(fn, settings(), Workload{Code: Code{Image: "kyma:1", Runtime: runtime, Kyma: true, Inline: &workload.Inline{}}})
		require.NoError(t, err)
		deployment, err := applyconfig.Of[appsv1.Deployment](config)
		require.NoError(t, err)
		pod := deployment.Spec.Template.Spec
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		require.Len(t, pod.Containers, 1)
		security := pod.Containers[0].SecurityContext
		require.True(t, ptr.Deref(security.RunAsNonRoot, false))
		require.True(t, ptr.Deref(security.ReadOnlyRootFilesystem, false))
		require.False(t, ptr.Deref(security.AllowPrivilegeEscalation, true))
		require.Equal(t, []corev1.Capability{"ALL"}, security.Capabilities.Drop)
	}
}

// trickyText contains characters that shells and Kubernetes expand.
const trickyText = `$$ $(FUNC_NAME) \n %s`

// kymaPod runs the command of a pod as a process, in a directory that stands for the root of the image.
func kymaPod(t *testing.T, root string, fn *v1alpha2.Function, inline *workload.Inline, extra ...string) *exec.Cmd {
	t.Helper()
	code := Code{Runtime: fn.Spec.Runtime, Kyma: true, Inline: inline}
	known, err := kymaOf(code)
	require.NoError(t, err)
	line := kymaCommand(known)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir = filepath.Join(root, known.FunctionDir)
	require.NoError(t, os.MkdirAll(cmd.Dir, 0o750))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	for _, variable := range workload.KymaEnvironment(fn, fn.Spec.Runtime, inline, workload.Addresses{}) {
		cmd.Env = append(cmd.Env, variable.Name+"="+strings.ReplaceAll(variable.Value, "$$", "$")) // like the kubelet
	}
	cmd.Env = append(cmd.Env, extra...)
	// All processes of a pod end with the first one. npm does not forward signals.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func copyServer(t *testing.T, name, dir string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata/kyma", name))
	require.NoError(t, err)
	write(t, filepath.Join(dir, name), string(content))
}

// nodeImage returns a root with a server for Node.js, and a package.
func nodeImage(t *testing.T, root string) *workload.Inline {
	t.Helper()
	app, greeting := filepath.Join(root, "usr/src/app"), filepath.Join(root, "greeting")
	write(t, filepath.Join(app, "package.json"), `{"scripts":{"start":"node server.mjs"}}`)
	copyServer(t, "server.mjs", app)
	write(t, filepath.Join(greeting, "package.json"), `{"name":"greeting","version":"1.0.0","main":"index.js"}`)
	write(t, filepath.Join(greeting, "index.js"), `module.exports = 'hello'`)
	return &workload.Inline{
		Source:       "module.exports = { main: () => String.raw`" + trickyText + "` + ' ' + require('greeting') }",
		Dependencies: fmt.Sprintf(`{"dependencies":{"greeting":%q}}`, "file:"+greeting),
	}
}

// pythonImage returns the same for Python. A wheel needs no network.
func pythonImage(t *testing.T, root string) *workload.Inline {
	t.Helper()
	copyServer(t, "server.py", root)
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for name, content := range map[string]string{
		"greeting.py":                     "TEXT = 'hello'\n",
		"greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
		"greeting-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"greeting-1.0.dist-info/RECORD":   "greeting.py,,\ngreeting-1.0.dist-info/METADATA,,\ngreeting-1.0.dist-info/WHEEL,,\ngreeting-1.0.dist-info/RECORD,,\n",
	} {
		file, err := archive.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(file, content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	path := filepath.Join(root, "greeting-1.0-py3-none-any.whl")
	write(t, path, packed.String())
	return &workload.Inline{
		Source:       "import greeting\ndef main(event, context):\n    return r'" + trickyText + "' + ' ' + greeting.TEXT",
		Dependencies: path,
	}
}

func TestThePodOfKymasContractWritesTheCodeAndStartsTheImagesServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fn    *v1alpha2.Function
		image func(t *testing.T, root string) *workload.Inline
	}{
		"Node.js": {function(kyma), nodeImage},
		"Python":  {function(kyma, python), pythonImage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			cmd := kymaPod(t, root, tc.fn, tc.image(t, root), "FUNCTION_PATH="+filepath.Join(root, "kubeless"))
			output, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer func() {
				require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
				_ = cmd.Wait() // fails because the process was killed
			}()
			port := ""
			lines := bufio.NewScanner(output)
			for port == "" && lines.Scan() {
				_, _ = fmt.Sscanf(lines.Text(), "listening %s", &port)
			}
			require.NotEmpty(t, port, "the server did not start")
			require.Equal(t, "OK", get(t, port, "/healthz"))
			require.Equal(t, trickyText+" hello", get(t, port, "/"), "the source arrives as it was written")
		})
	}
}

func get(t *testing.T, port, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func TestAnImageWithoutAServerReportsIt(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]*v1alpha2.Function{"Node.js": function(kyma), "Python": function(kyma, python)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := kymaPod(t, t.TempDir(), fn, &workload.Inline{Source: "x"}).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(output), "The image of spec.runtimeImageOverride has no server")
		})
	}
}

func TestImageBuiltOnARouseRuntimeSupportsKymasContractToo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	app := filepath.Join(root, "usr/src/app")
	write(t, filepath.Join(app, "package.json"), `{"scripts":{}}`)
	write(t, filepath.Join(app, "bundles/main.js"), "")
	write(t, filepath.Join(app, "server.js"), "console.log(process.env.HANDLER_PATH, process.env.FUNC_HANDLER_SOURCE, require(process.env.HANDLER_PATH))")
	output, err := kymaPod(t, root, function(kyma), &workload.Inline{Source: "module.exports = 42"}).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "./function/handler.js undefined 42\n")

	root = t.TempDir()
	write(t, filepath.Join(root, "usr/src/app/function_server/__init__.py"), "")
	write(t, filepath.Join(root, "usr/src/app/main.py"), "import os\nprint(os.environ.get('FUNC_HANDLER_SOURCE'), os.environ['FUNCTION_PATH'])")
	output, err = kymaPod(t, root, function(kyma, python), &workload.Inline{Source: "x"}).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "None /kubeless\n")
}

func TestCommandContainsNothingThatKubernetesExpands(t *testing.T) {
	t.Parallel()
	for _, each := range languages.All() {
		if each.Kyma == nil {
			continue
		}
		require.NotContains(t, each.Kyma.Script, "$(")
		require.NotContains(t, each.Kyma.Script, "$$")
	}
}

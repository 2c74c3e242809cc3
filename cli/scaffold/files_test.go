package scaffold

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

func exposed(host, gateway string) func(*Function) {
	return func(f *Function) { f.Trigger, f.Type, f.Source, f.Host, f.Gateway = TriggerHTTP, "", "", host, gateway }
}

func TestInvalidFunctionsAreRefusedWithTheRule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Function)
		want   string
	}{
		"a name with capitals":        {func(f *Function) { f.Name = "Thanks" }, `"Thanks" cannot be the name of a Function: take at most 63 lower-case letters`},
		"a name with a digit first":   {func(f *Function) { f.Name = "1st" }, "beginning with a letter"},
		"a path":                      {func(f *Function) { f.Name = "../thanks" }, "cannot be the name of a Function"},
		"no name":                     {func(f *Function) { f.Name = "" }, `"" cannot be the name of a Function`},
		"a long name":                 {func(f *Function) { f.Name = strings.Repeat("a", 64) }, "at most 63"},
		"a namespace with dots":       {func(f *Function) { f.Namespace = "a.b" }, `"a.b" cannot be the name of a namespace`},
		"an unknown runtime":          {func(f *Function) { f.Runtime = "ruby" }, `there is no runtime "ruby": take go, go126, nodejs, nodejs20`},
		"an unknown trigger":          {func(f *Function) { f.Trigger = "moon" }, `there is no trigger "moon": take http, event or cron`},
		"events without a type":       {func(f *Function) { f.Type = "" }, "needs --type and --source"},
		"events without a source":     {func(f *Function) { f.Source = "" }, "needs --type and --source"},
		"HTTP with a type":            {func(f *Function) { f.Trigger = TriggerHTTP }, "has no --type and no --source"},
		"a host for events":           {func(f *Function) { f.Host, f.Gateway = "thanks", defaultGateway }, "--expose is for a Function that is called over HTTP"},
		"a host with capitals":        {exposed("Thanks", defaultGateway), `--expose: "Thanks" is not a host: take a word such as thanks, or a whole name such as thanks.example.com`},
		"a host with a port":          {exposed("thanks.example.com:443", defaultGateway), "is not a host"},
		"a gateway of one word":       {exposed("thanks", "kyma-gateway"), `--gateway: "kyma-gateway" is not the namespace and the name of a gateway, such as kyma-system/kyma-gateway`},
		"a type of one segment":       {func(f *Function) { f.Type = "paid" }, "must have minimum 2 segments"},
		"a type of Kyma's own prefix": {func(f *Function) { f.Type = "sap.kyma.custom.a.b.c.v1" }, "must not have sap.kyma.custom as type prefix"},
		"a type of two lines":         {func(f *Function) { f.Type = "order.\npaid" }, "--type has a character that cannot be printed"},
		"a source with a bell":        {func(f *Function) { f.Source = "shop\a" }, "--source has a character that cannot be printed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Function{
				Name: "thanks", Namespace: "orders", Runtime: v1alpha2.RuntimeNodeJS22,
				Trigger: TriggerEvent, Type: "order.invoiced", Source: "invoicing",
			}
			require.NoError(t, f.Validate())
			tc.change(&f)
			require.ErrorContains(t, f.Validate(), tc.want)
			files, err := Files(f)
			require.Error(t, err)
			require.Empty(t, files)
		})
	}
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	err := Function{Name: "A", Namespace: "B", Runtime: "c", Trigger: "d"}.Validate()
	for _, part := range []string{`"A"`, `"B"`, `"c"`, `"d"`} {
		require.ErrorContains(t, err, part)
	}
}

// every returns a Function of each runtime and trigger, by the name of the test.
func every() map[string]Function {
	all := map[string]Function{}
	for _, runtime := range runtimes() {
		f := Function{Name: "thanks", Namespace: "orders", Runtime: runtime, Trigger: TriggerHTTP}
		all[string(runtime)+" over HTTP"] = f
		f.Host, f.Gateway = "thanks", defaultGateway
		all[string(runtime)+" at a host"] = f
		f.Host, f.Gateway = "", ""
		f.Dependencies = true
		all[string(runtime)+" with packages"] = f
		f.Trigger, f.Type, f.Source = TriggerEvent, "order.invoiced", "invoicing"
		all[string(runtime)+" by events with packages"] = f
		f.Dependencies = false
		all[string(runtime)+" by events"] = f
		f.Type, f.Source = `order's.v1: "paid" \o/`, "#1 shop"
		all[string(runtime)+" by events with odd names"] = f
	}
	return all
}

// write writes the files into a separate folder.
func write(t *testing.T, f Function) string {
	t.Helper()
	files, err := Files(f)
	require.NoError(t, err)
	folder := filepath.Join(t.TempDir(), f.Name)
	require.NoError(t, Write(folder, files))
	return folder
}

func TestGeneratedTestPasses(t *testing.T) {
	t.Parallel()
	for name, f := range every() {
		if f.Dependencies || f.Host != "" {
			continue // the handlers and tests are the same
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := write(t, f)
			out, err := runTests(t, f, folder)
			require.NoError(t, err, out)

			broken := filepath.Join(folder, pageOf(t, f).HandlerFile)
			handler, err := os.ReadFile(broken)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(broken, append(handler, "\nmain = None; module = None\n"...), 0o600))
			out, err = runTests(t, f, folder)
			require.Error(t, err, "the test has to fail with a handler that is broken: %s", out)
		})
	}
}

// runTests runs the command that init prints.
func runTests(t *testing.T, f Function, folder string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", pageOf(t, f).TestCommand)
	command.Dir = folder
	// Python does not recompile a handler changed within the same second.
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestKustomizePutsTheFilesIntoTheFunction(t *testing.T) {
	t.Parallel()
	for name, f := range every() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := write(t, f)
			objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
			require.NoError(t, err)

			for _, object := range objects.Resources() {
				text, err := object.AsYAML()
				require.NoError(t, err)
				switch object.GetKind() {
				case "Function":
					requireFunction(t, f, folder, text)
				case "Subscription":
					requireSubscription(t, f, text)
				case "APIRule":
					requireAPIRule(t, f, text)
				default:
					require.Fail(t, "this does not belong into a cluster", string(text))
				}
			}
			want := 1
			if f.Trigger == TriggerEvent || f.Host != "" {
				want = 2
			}
			require.Equal(t, want, objects.Size())
		})
	}
}

func requireFunction(t *testing.T, f Function, folder string, text []byte) {
	t.Helper()
	var fn v1alpha2.Function
	require.NoError(t, yaml.UnmarshalStrict(text, &fn))
	require.Equal(t, f.Name, fn.Name)
	require.Equal(t, f.Namespace, fn.Namespace)
	require.Equal(t, f.Runtime, fn.Spec.Runtime)
	require.Zero(t, *fn.Spec.ScaleConfig.MinReplicas)
	handler, err := os.ReadFile(filepath.Join(folder, pageOf(t, f).HandlerFile))
	require.NoError(t, err)
	require.Equal(t, string(handler), fn.Spec.Source.Inline.Source)
	if !f.Dependencies {
		require.Empty(t, fn.Spec.Source.Inline.Dependencies)
		return
	}
	dependencies, err := os.ReadFile(filepath.Join(folder, pageOf(t, f).DependenciesFile))
	require.NoError(t, err)
	require.Equal(t, string(dependencies), fn.Spec.Source.Inline.Dependencies)
}

// requireAPIRule validates an APIRule as in a cluster with the gateway and the Function's Service.
func requireAPIRule(t *testing.T, f Function, text []byte) {
	t.Helper()
	var rule v2.APIRule
	require.NoError(t, yaml.UnmarshalStrict(text, &rule))
	require.Equal(t, f.Name, rule.Name)
	require.Equal(t, f.Namespace, rule.Namespace)
	exposed := apirule.Decide([]*v2.APIRule{&rule}, &apirule.Objects{
		Gateways: map[types.NamespacedName]apirule.Gateway{{Namespace: "kyma-system", Name: "kyma-gateway"}: {Hosts: []string{"*.example.com"}}},
		Services: map[types.NamespacedName]apirule.ServiceInfo{
			{Namespace: f.Namespace, Name: f.Name}: {Selects: true, Wakes: true, Address: "10.0.0.1", Ports: []int32{80}},
		},
	})
	require.Len(t, exposed, 1)
	require.Empty(t, exposed[0].Problems)
	require.Equal(t, f.Name+".example.com", exposed[0].Host)
	require.Len(t, exposed[0].Rules, 1)
	require.True(t, *exposed[0].Rules[0].Spec.NoAuth)
}

func TestAnAPIServerAcceptsANewFunction(t *testing.T) {
	t.Parallel()
	env := controlPlane.Environment(t)
	for _, name := range []string{"nodejs22 at a host", "nodejs22 by events", "go126 over HTTP"} {
		f := every()[name]
		f.Namespace = env.Namespace(t)
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), write(t, f))
		require.NoError(t, err)
		for _, object := range objects.Resources() {
			text, err := object.AsYAML()
			require.NoError(t, err)
			strict := client.FieldValidation(metav1.FieldValidationStrict)
			require.NoError(t, env.Client.Create(t.Context(), envtest.Object(t, string(text)), strict), "%s: %s", name, text)
		}
	}
}

func requireSubscription(t *testing.T, f Function, text []byte) {
	t.Helper()
	var sub eventingv1alpha2.Subscription
	require.NoError(t, yaml.UnmarshalStrict(text, &sub))
	require.Equal(t, f.Name, sub.Name)
	require.Equal(t, f.Namespace, sub.Namespace)
	require.Equal(t, f.Source, sub.Spec.Source)
	require.Equal(t, []string{f.Type}, sub.Spec.Types)
	require.Equal(t, "http://thanks.orders.svc.cluster.local", sub.Spec.Sink)
}

// Several Functions share a folder, whose kustomization.yaml lists theirs.
func TestFunctionsAreBuiltTogether(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"thanks", "bonus"} {
		files, err := Files(Function{
			Name: name, Namespace: "orders", Runtime: v1alpha2.RuntimePython312, Trigger: TriggerEvent, Type: "a.b", Source: "c",
		})
		require.NoError(t, err)
		require.NoError(t, Write(filepath.Join(root, name), files))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, kustomizationFile), []byte("resources: [thanks, bonus]\n"), 0o600))

	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root)
	require.NoError(t, err)
	require.Equal(t, 4, objects.Size())
}

// kubectl includes an older kustomize.
func TestKubectlBuildsItToo(t *testing.T) {
	t.Parallel()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl on this machine")
	}
	folder := write(t, every()["python312 by events with packages"])
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", folder).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "def main(event, context):")
	require.Contains(t, string(out), "dependencies: |")
	require.NotContains(t, string(out), "ConfigMap")
}

// Local mode reports for a folder what a cluster would report for its objects.
func TestLocalModeAcceptsANewFolderWithoutProblems(t *testing.T) {
	t.Parallel()
	for name, f := range every() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := write(t, f)
			set, problems, err := manifest.Read(folder)
			require.NoError(t, err)
			if f.Runtime == v1alpha2.RuntimeNodeJS20 {
				problems = slices.DeleteFunc(problems, func(p manifest.Problem) bool { return p.Warning }) // deprecated runtime
			}
			if f.Host != "" {
				problems = slices.DeleteFunc(problems, func(p manifest.Problem) bool { return p.Warning }) // APIRules of hosts outside of localhost
			}
			require.Empty(t, problems)
			require.Len(t, set.Functions, 1)
			require.Equal(t, f.Trigger == TriggerEvent, len(set.Subscriptions) == 1)
			require.Empty(t, set.ConfigMaps)
			require.Contains(t, strings.Join(set.Files, "\n"), pageOf(t, f).HandlerFile, "it has to be watched")
		})
	}
}

func pageOf(t *testing.T, f Function) page {
	t.Helper()
	p, err := newPage(f)
	require.NoError(t, err)
	return p
}

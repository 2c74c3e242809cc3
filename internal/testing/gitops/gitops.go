package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Health is the health of an object as reported by two tools.
type Health struct {
	// Kstatus is Flux' result, Argo the result of Argo CD.
	Kstatus, Argo string
}

// RequireCurrent fails the test unless both tools report the object, as the API server serves it, as current. It
// returns Argo CD's message.
func RequireCurrent(t testing.TB, object runtime.Object) string {
	t.Helper()
	return requireHealth(t, Health{string(status.CurrentStatus), "Healthy"}, object)
}

// RequireInProgress fails the test unless both tools report the object as in progress. It returns Argo CD's message.
func RequireInProgress(t testing.TB, object runtime.Object) string {
	t.Helper()
	return requireHealth(t, Health{string(status.InProgressStatus), "Progressing"}, object)
}

// RequireFailed fails the test unless both tools report the object as failed. It returns Argo CD's message.
func RequireFailed(t testing.TB, object runtime.Object) string {
	t.Helper()
	return requireHealth(t, Health{string(status.FailedStatus), "Degraded"}, object)
}

func requireHealth(t testing.TB, want Health, object runtime.Object) string {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	got, message := HealthOf(t, &unstructured.Unstructured{Object: content})
	require.Equal(t, want, got, "%s; the object: %+v", message, content)
	return message
}

// HealthOf returns the health of an object of a kind with a script in docs/gitops.md, and Argo CD's message.
func HealthOf(t testing.TB, object *unstructured.Unstructured) (Health, string) {
	t.Helper()
	computed, err := status.Compute(object)
	require.NoError(t, err)
	argo, message := runScript(t, scriptOf(t), object.Object)
	return Health{Kstatus: string(computed.Status), Argo: argo}, message
}

const (
	// page is the page with the script, relative to the root of the repository.
	page = "docs/gitops.md"
	// customization is the prefix of the keys in Argo CD's ConfigMap.
	customization = "resource.customizations.health."
	// scriptTimeout is longer than Argo CD's own.
	scriptTimeout = time.Minute
)

// Kinds lists the kinds with a script, in Argo CD's notation.
func Kinds() []string {
	return []string{
		"serverless.kyma-project.io_Function", "eventing.kyma-project.io_Subscription", "gateway.kyma-project.io_APIRule",
		"operator.kyma-project.io_Serverless",
	}
}

// script is the one script of all kinds, read once.
var script = sync.OnceValues(readScript)

func scriptOf(t testing.TB) string {
	t.Helper()
	text, err := script()
	require.NoError(t, err)
	return text
}

func readScript() (string, error) {
	scripts, err := Scripts()
	return scripts[Kinds()[0]], err
}

// Scripts returns the scripts in the page's ConfigMap, by kind.
func Scripts() (map[string]string, error) {
	folder, err := root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, page))
	if err != nil {
		return nil, err
	}
	config := &corev1.ConfigMap{}
	for _, block := range Blocks(string(text)) {
		if strings.Contains(block, customization) {
			if err := yaml.UnmarshalStrict([]byte(block), config); err != nil {
				return nil, err
			}
		}
	}
	scripts := map[string]string{}
	for key, text := range config.Data {
		if kind, ok := strings.CutPrefix(key, customization); ok {
			scripts[kind] = text
		}
	}
	return scripts, nil
}

// Blocks returns the YAML blocks of a page.
func Blocks(text string) []string {
	var blocks []string
	for {
		_, rest, found := strings.Cut(text, "```yaml\n")
		if !found {
			return blocks
		}
		block, after, _ := strings.Cut(rest, "```")
		blocks, text = append(blocks, block), after
	}
}

// root returns the folder with go.mod above the test.
func root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil || folder == filepath.Dir(folder) {
			return folder, err
		}
		folder = filepath.Dir(folder)
	}
}

// runScript runs a health check as Argo CD does: without libraries for I/O, with the object in the variable obj.
func runScript(t testing.TB, text string, object map[string]any) (health, message string) {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		require.NoError(t, state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", luaValue(state, object))
	require.NoError(t, state.DoString(text))
	answer, ok := state.Get(-1).(*lua.LTable)
	require.True(t, ok, "it returns a %s", state.Get(-1).Type())
	return lua.LVAsString(answer.RawGetString("status")), lua.LVAsString(answer.RawGetString("message"))
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		list := state.CreateTable(len(v), 0)
		for _, item := range v {
			list.Append(luaValue(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(v))
		for key, item := range v {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}

// FieldManager is the field manager of Flux' kustomize-controller.
const FieldManager = client.FieldOwner("kustomize-controller")

// Commit holds the objects of one revision as they are written in Git.
type Commit []*unstructured.Unstructured

// NewCommit parses manifests into a namespace.
func NewCommit(t testing.TB, namespace string, manifests ...string) Commit {
	t.Helper()
	var c Commit
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), object))
		object.SetNamespace(namespace)
		c = append(c, object)
	}
	return c
}

// Apply applies the objects as kustomize-controller does for a new revision.
func (c Commit) Apply(ctx context.Context, to client.Client) error {
	for _, object := range c {
		if _, err := apply(ctx, to, object); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, to client.Client, object *unstructured.Unstructured, options ...client.ApplyOption) (*unstructured.Unstructured, error) {
	applied := object.DeepCopy()
	options = append(options, FieldManager, client.ForceOwnership)
	if err := to.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), options...); err != nil {
		return nil, fmt.Errorf("apply %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}

// Drift returns the differences between the cluster and the revision, empty if there are none: like
// kustomize-controller, it compares the live objects with the results of a dry run, ignoring the status and fields that
// only the API server writes. Unlike kustomize-controller it compares all metadata.
func (c Commit) Drift(ctx context.Context, to client.Client) (string, error) {
	var all strings.Builder
	for _, object := range c {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := to.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
			return "", fmt.Errorf("get %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		dry, err := apply(ctx, to, object, client.DryRunAll)
		if err != nil {
			return "", err
		}
		all.WriteString(cmp.Diff(lasting(live), lasting(dry)))
	}
	return all.String(), nil
}

// lasting returns an object without its status and the fields that change with it.
func lasting(object *unstructured.Unstructured) map[string]any {
	kept := object.DeepCopy()
	unstructured.RemoveNestedField(kept.Object, "status")
	kept.SetManagedFields(nil)
	kept.SetResourceVersion("")
	return kept.Object
}

// RequireNoDrift applies the commit the given number of times, at intervals, while meanwhile makes the controllers
// write. It fails the test if a dry run finds a difference, or the generation of a spec changes.
func (c Commit) RequireNoDrift(t testing.TB, to client.Client, times int, every time.Duration, meanwhile func(round int)) {
	t.Helper()
	before := c.read(t, to, generation)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for round := range times {
		drift, err := c.Drift(t.Context(), to)
		require.NoError(t, err)
		require.Empty(t, drift, "live (-), and as applied (+)")
		require.NoError(t, c.Apply(t.Context(), to))
		meanwhile(round)
		<-ticker.C
	}
	require.Equal(t, before, c.read(t, to, generation), "a spec was changed")
}

// RequireQuiet applies the commit the given number of times, at intervals, and fails the test if the API server or a
// controller writes an object in the meantime. It first waits for changes in progress.
func (c Commit) RequireQuiet(t testing.TB, to client.Client, times int, every time.Duration) {
	t.Helper()
	for end := time.Now().Add(quietTimeout); ; {
		before := c.read(t, to, version)
		c.RequireNoDrift(t, to, times, every, func(int) {})
		after := c.read(t, to, version)
		if slices.Equal(before, after) {
			return
		}
		if time.Now().After(end) {
			require.Equal(t, before, after, "somebody goes on writing")
		}
	}
}

// quietTimeout bounds the time until statuses stop changing.
const quietTimeout = 2 * time.Minute

func generation(live *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s: generation %d", live.GetKind(), live.GetName(), live.GetGeneration())
}

func version(live *unstructured.Unstructured) string {
	return generation(live) + ", resourceVersion " + live.GetResourceVersion()
}

// read describes each object.
func (c Commit) read(t testing.TB, from client.Client, describe func(*unstructured.Unstructured) string) []string {
	t.Helper()
	var all []string
	for _, object := range c {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		require.NoError(t, from.Get(t.Context(), client.ObjectKeyFromObject(object), live))
		all = append(all, describe(live))
	}
	return all
}

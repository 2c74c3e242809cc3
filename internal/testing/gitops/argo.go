package gitops

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	// page is where the script stands, from the root of the repository.
	page = "docs/gitops.md"
	// customization begins the keys of Argo CD's ConfigMap.
	customization = "resource.customizations.health."
	// scriptTimeout is longer than Argo CD's own.
	scriptTimeout = time.Minute
)

// Kinds are those with a script, as Argo CD writes them.
func Kinds() []string {
	return []string{
		"serverless.kyma-project.io_Function", "eventing.kyma-project.io_Subscription", "gateway.kyma-project.io_APIRule",
		"operator.kyma-project.io_Serverless",
	}
}

// script reads the one script of all kinds once.
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

// Scripts are those in the ConfigMap of the page, by kind.
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

// Blocks are the YAML blocks of a page.
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

// root is the folder with go.mod above the test.
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

// runScript runs a health check as Argo CD does: without the libraries that reach out, the object in the variable obj.
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

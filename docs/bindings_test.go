package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The handlers of the page read each format of Secret that it describes.
func TestTheHandlersForBindingsReadEachFormat(t *testing.T) {
	t.Parallel()
	const others = `{"name":"label","format":"text"},{"name":"tags","format":"json"}`
	formats := map[string]struct {
		files map[string]string
		want  map[string]any
	}{
		"a key for each credential": {
			files: map[string]string{
				"uri": "https://db", "ports": "[1,2]", "label": "db", "tags": `["sql"]`,
				".metadata": `{"metaDataProperties":[` + others + `],"credentialProperties":[{"name":"uri","format":"text"},{"name":"ports","format":"json"}]}`,
			},
			want: map[string]any{"uri": "https://db", "ports": []any{1.0, 2.0}, "label": "db", "tags": []any{"sql"}},
		},
		"secretKey": {
			files: map[string]string{
				"credentials": `{"uri":"https://db","ports":[1,2]}`, "label": "db", "tags": `["sql"]`,
				".metadata": `{"metaDataProperties":[` + others + `],"credentialProperties":[{"name":"credentials","format":"json","container":true}]}`,
			},
			want: map[string]any{"uri": "https://db", "ports": []any{1.0, 2.0}, "label": "db", "tags": []any{"sql"}},
		},
		"secretRootKey": {
			files: map[string]string{"all": `{"uri":"https://db","tags":"[\"sql\"]"}`},
			want:  map[string]any{"all": `{"uri":"https://db","tags":"[\"sql\"]"}`},
		},
		"servicebinding.io": {
			files: map[string]string{"type": "postgresql", "uri": "https://db"},
			want:  map[string]any{"type": "postgresql", "uri": "https://db"},
		},
	}
	page, err := os.ReadFile("bindings.md")
	require.NoError(t, err)
	for language, run := range map[string][]string{
		"js":     {"node", "-e", block(t, string(page), "js") + "\nconsole.log(JSON.stringify(binding('orders-db')))"},
		"python": {"python3", "-c", block(t, string(page), "python") + "\nprint(json.dumps(binding('orders-db')))"},
	} {
		for name, format := range formats {
			t.Run(language+"/"+name, func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				// As the kubelet lays it out: links to a folder that it replaces.
				folder := filepath.Join(root, "orders-db")
				require.NoError(t, os.MkdirAll(filepath.Join(folder, "..1"), 0o755))
				require.NoError(t, os.Symlink("..1", filepath.Join(folder, "..data")))
				for key, value := range format.files {
					require.NoError(t, os.WriteFile(filepath.Join(folder, "..1", key), []byte(value), 0o600))
					require.NoError(t, os.Symlink(filepath.Join("..data", key), filepath.Join(folder, key)))
				}
				command := exec.CommandContext(t.Context(), run[0], run[1:]...)
				command.Env = append(os.Environ(), "SERVICE_BINDING_ROOT="+root)
				out, err := command.CombinedOutput()
				require.NoError(t, err, "%s", out)
				got := map[string]any{}
				require.NoError(t, json.Unmarshal(out, &got), "%s", out)
				require.Equal(t, format.want, got)
			})
		}
	}
}

// block is the first block of code in a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, code, found := strings.Cut(page, "```"+language+"\n")
	require.True(t, found)
	code, _, found = strings.Cut(code, "```")
	require.True(t, found)
	return code
}

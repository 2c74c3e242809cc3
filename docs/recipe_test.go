package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instructions lists those of a Dockerfile's last stage, by name.
func instructions(text string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "FROM":
			found = map[string][]string{"FROM": {value}}
		case name != "" && name == strings.ToUpper(name) && !strings.HasPrefix(name, "#"):
			found[name] = append(found[name], strings.TrimSpace(value))
		}
	}
	return found
}

// The recipe for a custom image must not change what the runtimes' Dockerfiles and the test cluster's images agree on.
func TestTheRecipeForACustomImageMatchesTheRuntimes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("functions.md")
	require.NoError(t, err)
	_, recipe, found := strings.Cut(string(page), "```dockerfile\n")
	require.True(t, found)
	recipe, _, _ = strings.Cut(recipe, "```")
	own := instructions(recipe)
	require.Equal(t, []string{"${RUNTIME}"}, own["FROM"])
	for _, kept := range []string{"ENTRYPOINT", "CMD", "WORKDIR", "ENV", "EXPOSE"} {
		require.NotContains(t, own, kept)
	}
	for _, language := range []string{"nodejs", "python"} {
		dockerfile, err := os.ReadFile(filepath.Join("..", "runtimes", language, "Dockerfile"))
		require.NoError(t, err)
		base := instructions(string(dockerfile))
		require.Contains(t, string(dockerfile), "-slim", "the recipe installs with apt-get")
		require.Equal(t, base["USER"][0], own["USER"][len(own["USER"])-1], "the server runs as the runtime's user again")

		var image struct {
			Entrypoint    []string
			Workdir, User string
		}
		content, err := os.ReadFile(filepath.Join("..", "runtimes", language, "image.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(content, &image))
		var entrypoint []string
		require.NoError(t, json.Unmarshal([]byte(base["ENTRYPOINT"][0]), &entrypoint))
		require.Equal(t, image.Entrypoint, entrypoint)
		require.Equal(t, image.Workdir, base["WORKDIR"][0])
		require.Equal(t, image.User, base["USER"][0])
	}
}

package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDockerfileBuildsTheSameBinaries(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(text), strings.Join(commands(), " ")+"\n")
}

func TestEveryCommandButThatOfPeopleIsInTheImage(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob(filepath.Join("..", "..", "..", "cmd", "*"))
	require.NoError(t, err)
	var found []string
	for _, folder := range folders {
		if name := filepath.Base(folder); name != "rouse" {
			found = append(found, "./cmd/"+name)
		}
	}
	require.Equal(t, commands(), found)
}

package settingswatch

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/kube/watch"
)

func TestAContentIsUsedOrSaysTheNextStep(t *testing.T) {
	t.Parallel()
	content := func(key, text string) watch.Content {
		return watch.Content{Found: true, Data: map[string]string{key: text}}
	}
	f := &file{name: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-config"}, key: "function-config.yaml"}
	inForce := ""
	f.use = func(text string) ([]string, error) {
		if text == "typo" {
			return nil, errors.New("function-config.yaml: unknown field")
		}
		if text == inForce {
			return nil, nil
		}
		inForce = text
		return []string{"it is " + text}, nil
	}
	for _, step := range []struct {
		name    string
		content watch.Content
		want    outcome
	}{
		{"missing at the start", watch.Content{}, outcome{
			problem: "ConfigMap rouse-system/rouse-config does not exist: create it with the key function-config.yaml. The settings of the command line are in force",
		}},
		{"still", watch.Content{}, outcome{}},
		{"made without its key", content("config.yaml", "a"), outcome{
			problem: "ConfigMap rouse-system/rouse-config has no key function-config.yaml, but config.yaml: add it. The settings of the command line are in force",
		}},
		{"good", content("function-config.yaml", "a"), outcome{changes: []string{"it is a"}, first: true}},
		{"as it was", content("function-config.yaml", "a"), outcome{}},
		{"changed", content("function-config.yaml", "b"), outcome{changes: []string{"it is b"}}},
		{"a typo", content("function-config.yaml", "typo"), outcome{
			problem: "function-config.yaml: unknown field: correct it with kubectl edit configmap --namespace rouse-system rouse-config. The last good settings stay in force",
		}},
		{"deleted", watch.Content{}, outcome{
			problem: "ConfigMap rouse-system/rouse-config does not exist: create it with the key function-config.yaml. The last good settings stay in force",
		}},
		{"as before the typo", content("function-config.yaml", "b"), outcome{changes: []string{"The file is good again"}}},
	} {
		require.Equal(t, step.want, f.take(step.content), step.name)
		require.Equal(t, step.want.problem != "" || step.name == "still", f.problem != "", step.name)
	}
}

func TestOptionsNameConfigMaps(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": true, "rouse-config": true, "rouse-system/rouse-config": true, "a/b/c": false, "/a": false, "A": false, "a/": false,
	} {
		o := Options{ConfigMap: text}
		require.Equal(t, ok, o.Validate() == nil, text)
		o = Options{LogConfigMap: text}
		require.Equal(t, ok, o.Validate() == nil, text)
	}
	require.ErrorContains(t, (&Options{ConfigMap: "A"}).Validate(), `--config-map "A": must be a name, or namespace/name`)
	name, err := nameOf("rouse-system/rouse-config")
	require.NoError(t, err)
	require.Equal(t, types.NamespacedName{Namespace: "rouse-system", Name: "rouse-config"}, name)
	_, err = nameOf("rouse-config")
	require.ErrorContains(t, err, "outside of a pod name it as namespace/rouse-config")
}

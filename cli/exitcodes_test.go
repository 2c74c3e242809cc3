package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

const (
	sample = `{"specversion":"1.0","id":"1","source":"shop","type":"order.received"}`
	old    = `{"apiVersion":"gateway.kyma-project.io/v1beta1","kind":"APIRule","spec":{}}`
	inline = `{"apiVersion":"serverless.kyma-project.io/v1alpha1","kind":"Function","metadata":{"name":"a"},"spec":{"source":"b"}}`
	dirOf  = "DIR"  // stands for a folder of the test
	fileOf = "FILE" // stands for a file with an event
)

func TestEveryVerbEndsWithTheCodeThatIsDocumented(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	directory := t.TempDir()
	file := filepath.Join(directory, "event.json")
	require.NoError(t, os.WriteFile(file, []byte(sample), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "none.json"), []byte(`{}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "fn.yaml"), []byte("a: ["), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "old.yaml"), []byte(old), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "function.yaml"), []byte(inline), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "without-git.yaml"), []byte(strings.Replace(inline, `"b"`, `"b","type":"git"`, 1)), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(directory, "there"), 0o700))
	for line, want := range map[string]exit.Code{
		"":                           exit.OK,
		"nonsense":                   exit.Usage,
		"help":                       exit.OK,
		"help publish":               exit.OK,
		"help dlq list":              exit.OK,
		"help exit-codes":            exit.OK,
		"help nonsense":              exit.Usage,
		"version":                    exit.OK,
		"version twice":              exit.Usage,
		"version --nonsense":         exit.Usage,
		"completion bash":            exit.OK,
		"completion":                 exit.OK,
		"completion bash twice":      exit.Usage,
		"completion nonsense":        exit.Usage,
		"init":                       exit.Usage,
		"init Not/A_Name":            exit.Usage,
		"init x --runtime nonsense":  exit.Usage,
		"init there --directory DIR": exit.Failed,
		"init fresh --directory DIR": exit.OK,

		"migrate":                      exit.OK,
		"migrate function":             exit.Usage,
		"migrate plan":                 exit.Usage, // it is for a cluster
		"migrate apply twice":          exit.Usage,
		"migrate status --nonsense":    exit.Usage,
		"migrate back --context none":  exit.Unreachable,
		"migrate apirule":              exit.OK,
		"migrate apirule FILE":         exit.OK,
		"migrate apirule no/such":      exit.Usage,
		"migrate apirule DIR/fn.yaml":  exit.Usage,
		"migrate apirule FILE -o DIR":  exit.Failed,
		"migrate apirule DIR/old.yaml": exit.Failed,
		"migrate apirule --nonsense":   exit.Usage,

		"convert":                         exit.Usage,
		"convert FILE":                    exit.Usage,
		"convert -f FILE":                 exit.OK,
		"convert -f DIR/function.yaml":    exit.OK,
		"convert -f no/such":              exit.Usage,
		"convert -f DIR/there":            exit.Usage,
		"convert -f DIR/fn.yaml":          exit.Usage,
		"convert -f DIR/without-git.yaml": exit.Failed,
		"convert -f DIR/old.yaml":         exit.Failed,
		"convert -f FILE -o DIR":          exit.Failed,
		"convert --nonsense":              exit.Usage,

		"dev DIR twice":                                   exit.Usage,
		"dev DIR --once":                                  exit.Usage,
		"dev DIR --port 70000":                            exit.Usage,
		"dev DIR --nonsense":                              exit.Usage,
		"dev no/such":                                     exit.Usage,
		"dev DIR --publish no/such":                       exit.Usage,
		"dev DIR --publish DIR/none.json":                 exit.Usage,
		"dev DIR --once --publish FILE --state DIR/state": exit.Failed,

		"publish --type order.received --source shop":        exit.OK,
		"publish --type order..received --source shop":       exit.Refused,
		"publish --type order.received":                      exit.Usage,
		"publish -f no/such":                                 exit.Usage,
		"publish --type a.b --source s --dir no/such":        exit.Unreachable,
		"publish --type a.b --source s --context no-such":    exit.Unreachable,
		"publish --type a.b --source s --kubeconfig no/such": exit.Unreachable,

		"invoke pricing":               exit.OK,
		"invoke pricing --path /no":    exit.Refused,
		"invoke broken":                exit.Failed,
		"invoke nope":                  exit.NotFound,
		"invoke":                       exit.Usage,
		"invoke pricing --header no":   exit.Usage,
		"invoke pricing --dir no/such": exit.Unreachable,

		"logs pricing":               exit.OK,
		"logs nope":                  exit.NotFound,
		"logs":                       exit.OK,
		"logs pricing --dir no/such": exit.Unreachable,

		"get":                           exit.OK,
		"get functions":                 exit.OK,
		"get subscriptions -n orders":   exit.OK,
		"get nonsense":                  exit.Usage,
		"describe":                      exit.Usage,
		"describe function pricing":     exit.OK,
		"describe function/nope":        exit.NotFound,
		"describe fn x --context no":    exit.Unreachable,
		"deploy DIR":                    exit.Usage,
		"deploy DIR twice":              exit.Usage,
		"deploy no/such --context no":   exit.Unreachable,
		"deploy --dry-run=client":       exit.Usage,
		"diff DIR":                      exit.Usage,
		"diff DIR --context no":         exit.Unreachable,
		"delete DIR":                    exit.Usage,
		"delete DIR --context no":       exit.Unreachable,
		"pause":                         exit.Usage,
		"pause subscription pricing":    exit.Usage,
		"resume":                        exit.Usage,
		"resume function a --context x": exit.Unreachable,
		"rollback":                      exit.Usage,
		"rollback pricing":              exit.Usage,
		"rollback pricing --context no": exit.Unreachable,

		"functions":               exit.OK,
		"functions pricing":       exit.OK,
		"functions nothing":       exit.NotFound,
		"functions pricing -A":    exit.Usage,
		"functions pricing extra": exit.Usage,
		"functions -o nonsense":   exit.Usage,
		"functions --dir no/such": exit.Unreachable,
		"functions --dir DIR":     exit.Unreachable,

		"events":                                     exit.OK,
		"events nonsense":                            exit.Usage,
		"events tail --follow=false":                 exit.OK,
		"events tail --kind nonsense":                exit.Usage,
		"events tail --limit -1":                     exit.Usage,
		"events tail --function nope --follow=false": exit.OK,
		"events tail --dir no/such":                  exit.Unreachable,

		"trace nope":               exit.NotFound,
		"trace":                    exit.Usage,
		"trace nope --dir no/such": exit.Unreachable,

		"dlq":                          exit.OK,
		"dlq nonsense":                 exit.Usage,
		"dlq list":                     exit.OK,
		"dlq list --limit 0":           exit.Usage,
		"dlq list --dir no/such":       exit.Unreachable,
		"dlq show 7":                   exit.NotFound,
		"dlq show x":                   exit.Usage,
		"dlq show":                     exit.Usage,
		"dlq redrive 7":                exit.NotFound,
		"dlq redrive":                  exit.Usage,
		"dlq redrive --all":            exit.Usage,
		"dlq redrive --all --yes":      exit.OK,
		"dlq redrive 7 --dir no/such":  exit.Unreachable,
		"dlq purge 7":                  exit.NotFound,
		"dlq purge --all 7":            exit.Usage,
		"dlq purge --all --yes":        exit.OK,
		"dlq purge 7 --dir no/such":    exit.Unreachable,
		"dlq purge --all -y --dir DIR": exit.Unreachable,
	} {
		t.Run(line, func(t *testing.T) { //nolint:paralleltest // they share one fixture
			args := strings.Fields(strings.NewReplacer(dirOf, directory, fileOf, file).Replace(line))
			elsewhere := strings.Contains(line, "--dir ") || strings.Contains(line, "--context") || strings.Contains(line, "--kubeconfig")
			if asks(line) && !elsewhere {
				args = append(args, "--dir", w.directory)
			}
			got := run(t, "", args...)
			require.Equal(t, want, exit.Code(got.code), "%s%s", got.out, got.err)
			if want != exit.OK && !strings.Contains(line, "--once --publish") {
				require.Regexp(t, `(?m)^rouse: `, got.err)
			}
		})
	}
}

// asks reports whether a command line connects to a running Rouse.
func asks(line string) bool {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "publish", "invoke", "logs", "functions", "trace", "describe":
		return true
	case "events", "dlq", "get":
		return rest != ""
	}
	return false
}

func TestTheDocumentedCodesAreTheseAndNoOthers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/cli.md")
	require.NoError(t, err)
	_, codes, found := strings.Cut(string(page), "## Exit codes")
	require.True(t, found)
	codes, _, _ = strings.Cut(codes, "\n## ")
	help := run(t, "", "help", "exit-codes").out
	for code := exit.OK; code <= exit.Refused; code++ {
		require.Contains(t, codes, "\n| "+string(rune('0'+code))+" | ")
		require.Contains(t, help, "\n  "+string(rune('0'+code))+"  ")
	}
	require.NotContains(t, codes, "\n| 6 | ")
	require.NotContains(t, help, "\n  6  ")
}

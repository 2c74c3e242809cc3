package scaffold

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/schedule"
)

// execute runs `rouse init` with the arguments.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestInitListsItsFilesAndTheNextSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := execute(t, "thanks", "--runtime", "python", "--type", "order.invoiced", "--source", "invoicing", "-n", "orders",
		"--directory", dir)
	require.NoError(t, err)
	folder := filepath.Join(dir, "thanks")
	require.Equal(t, folder+`
  .gitignore            keeps .env and *.local.yaml out of Git
  .vscode/launch.json   for the debugger of VS Code
  README.md             how to go on
  function.yaml         the Function
  handler.py            the handler
  kustomization.yaml    puts the handler into the Function
  rouse_testing.py      makes events for the test, and records what is emitted
  subscription.yaml     which events it gets
  test_handler.py       its test: python3 -m unittest

Next:
  (cd `+folder+` && python3 -m unittest)
  rouse dev `+folder+`
  rouse publish --type order.invoiced --source invoicing --data '{"id": "1"}'
  kubectl apply -k `+folder+"\n", out)
	text, err := os.ReadFile(filepath.Join(folder, "function.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "runtime: python312")
}

func TestInitWritesAnHTTPFunctionByDefault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := execute(t, "hello", "--directory", dir)
	require.NoError(t, err)
	require.Contains(t, out, `rouse invoke hello --namespace default --data '{"name": "Ada"}'`)
	text, err := os.ReadFile(filepath.Join(dir, "hello", "function.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "runtime: nodejs22")
	require.NoFileExists(t, filepath.Join(dir, "hello", "subscription.yaml"))
}

func TestInitWritesAnAPIRuleForAnExposedFunction(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args          []string
		host, gateway string
	}{
		"at its own name":  {[]string{"--expose"}, "hello", "kyma-system/kyma-gateway"},
		"at a host":        {[]string{"--trigger", "http", "--expose=hi.example.com"}, "hi.example.com", "kyma-system/kyma-gateway"},
		"by a gateway":     {[]string{"--expose=hi", "--gateway", "edge/public"}, "hi", "edge/public"},
		"at a host of all": {[]string{"--expose=*.example.com"}, `'*.example.com'`, "kyma-system/kyma-gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, err := execute(t, append(tc.args, "hello", "--directory", dir)...)
			require.NoError(t, err)
			require.Contains(t, out, "apirule.yaml          the host at which it is exposed\n")
			require.Contains(t, out, "kubectl get apirule hello --namespace default # until its state is Ready\n")
			text, err := os.ReadFile(filepath.Join(dir, "hello", "apirule.yaml"))
			require.NoError(t, err)
			require.Contains(t, string(text), "  hosts:\n    - "+tc.host+"\n  gateway: "+tc.gateway+"\n")
			require.Contains(t, string(text), "# jwt:")
		})
	}
}

func TestInitWritesAScheduleThatAClusterTakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := execute(t, "nightly", "--cron", "0 2 * * *", "--time-zone", "Europe/Berlin", "-n", "reports", "--directory", dir)
	require.NoError(t, err)
	require.Contains(t, out, "schedule.yaml         when its events are due\n")
	require.Contains(t, out, "rouse schedules run reports/nightly\n")
	text, err := os.ReadFile(filepath.Join(dir, "nightly", "schedule.yaml"))
	require.NoError(t, err)
	s := &rousev1alpha1.Schedule{}
	require.NoError(t, yaml.UnmarshalStrict(text, s))
	plan, err := schedule.New(s)
	require.NoError(t, err)
	require.Equal(t, 1, plan.PerMinute())
	require.Equal(t, []string{"Europe/Berlin", "nightly.due.v1", "reports"}, []string{s.Spec.TimeZone, s.Spec.Event.Type, s.Spec.Event.Source})
	subscription, err := os.ReadFile(filepath.Join(dir, "nightly", "subscription.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(subscription), "source: reports\n  types:\n    - nightly.due.v1\n")

	_, err = execute(t, "hourly", "--trigger", "cron", "--directory", dir)
	require.NoError(t, err)
	for want, args := range map[string][]string{
		`--cron is "0 0 30 2 *": no such day exists`: {"never", "--cron", "0 0 30 2 *"},
		`--time-zone is "Mars"`:                      {"mars", "--time-zone", "Mars"},
		"has no --cron and no --time-zone":           {"hello", "--trigger", "http", "--cron", "@daily"},
		"are for --trigger cron":                     {"hello", "--trigger", "event", "--type", "a.v1", "--source", "b", "--cron", "@daily"},
	} {
		_, err := execute(t, append(args, "--directory", dir)...)
		require.ErrorContains(t, err, want)
	}
}

func TestInitAdvisesToAddTheFunctionToTheKustomization(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := filepath.Join(dir, "kustomization.yaml")
	require.NoError(t, os.WriteFile(list, []byte("resources: []\n"), 0o600))
	out, err := execute(t, "hello", "--directory", dir)
	require.NoError(t, err)
	require.Contains(t, out, `add "- hello" to the resources of `+list)
	require.Contains(t, out, "rouse dev "+dir+"\n")
}

func TestInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := execute(t, "hello", "--directory", dir)
	require.NoError(t, err)
	handler := filepath.Join(dir, "hello", "handler.js")
	require.NoError(t, os.WriteFile(handler, []byte("mine"), 0o600))

	out, err := execute(t, "hello", "--runtime", "python", "--directory", dir)
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, "take another name or --directory")
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	require.Empty(t, out)
	text, err := os.ReadFile(handler)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoFileExists(t, filepath.Join(dir, "hello", "handler.py"))
}

func TestAWrongCommandLineIsAUsageErrorAndWritesNothing(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no name":                 {},
		"two names":               {"a", "b"},
		"a bad name":              {"Bad_Name"},
		"a bad runtime":           {"hello", "--runtime", "ruby"},
		"a type alone":            {"hello", "--type", "order.paid"},
		"an event without a type": {"hello", "--trigger", "event"},
		"an event outside":        {"hello", "--type", "a.b", "--source", "c", "--expose"},
		"a bad host":              {"hello", "--expose=Hello"},
	} {
		dir := t.TempDir()
		_, err := execute(t, append(args, "--directory", dir)...)
		require.Equal(t, exit.Usage, exit.CodeOf(err), name)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, name)
	}
}

func TestUnfinishedInitIsRemoved(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "hello")
	err := Write(folder, []File{{Name: "a"}, {Name: "a/b"}})
	require.Error(t, err)
	require.NoDirExists(t, folder)
}

package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

const (
	head  = "apiVersion: serverless.kyma-project.io/v1alpha1\n"
	good  = head + "kind: Function\nmetadata: {name: price}\nspec: {runtime: nodejs22, source: code}\n"
	inGit = head + "kind: Function\nmetadata: {name: price}\nspec: {runtime: nodejs22, source: repo, type: git, baseDir: /, reference: main}\n"
	repo  = head + "kind: GitRepository\nmetadata: {name: repo}\nspec: {url: \"https://example.com/a.git\"}\n"
	other = "kind: Namespace\n"
)

// golden compares the text with a file of testdata. UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := "testdata/" + file
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// execute runs `rouse convert` with the arguments.
func execute(t *testing.T, in string, args ...string) (out, errs string, err error) {
	t.Helper()
	return executeCommand(t, NewCommand(), in, args...)
}

func executeCommand(t *testing.T, cmd *cobra.Command, in string, args ...string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestFunctionsOfAFileAreConvertedAndTheRestPasses(t *testing.T) {
	t.Parallel()
	out, errs, err := execute(t, "", "-f", "testdata/functions/in.yaml")
	require.EqualError(t, err, "2 of the objects cannot be converted: correct them as listed")
	require.Equal(t, exit.Failed, exit.CodeOf(err))
	golden(t, "functions/out.yaml", out)
	golden(t, "functions/report.txt", errs)

	again, errs, err := execute(t, out, "-f", "-")
	require.NoError(t, err)
	require.Equal(t, out, again, "a converted file must pass unchanged")
	require.Contains(t, errs, "Functions written as v1alpha2: 0, left out: 0;")
}

func TestManifestsWithoutOldFunctionsPassByteForByte(t *testing.T) {
	t.Parallel()
	const text = "# first\r\napiVersion: v1\r\nkind: ConfigMap\r\ndata:\n  a: |\n   ---x\n---\nkind: List\nitems:\n- {kind: Secret}\n" +
		"---\napiVersion: serverless.kyma-project.io/v1alpha2\nkind: Function\nspec: {} # no comment is lost\n" +
		"---\napiVersion: example.com/v1alpha1\nkind: Function\n"
	out, _, err := execute(t, text, "-f", "-")
	require.NoError(t, err)
	require.Equal(t, text, out)
}

func TestGitRepositoriesAreFoundInOtherFilesAndInFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(inGit), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.yml"), []byte(repo), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("a: ["), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "c.yaml"), 0o700))
	for name, args := range map[string][]string{
		"a folder": {"-f", dir},
		"files":    {"-f", filepath.Join(dir, "a.yaml"), "-f", filepath.Join(dir, "b.yml")},
	} {
		out, errs, err := execute(t, "", args...)
		require.NoError(t, err, name+errs)
		require.Contains(t, out, "url: https://example.com/a.git", name)
		require.NotContains(t, out, "kind: GitRepository", name)
		require.Contains(t, errs, "GitRepositories no longer needed: 1", name)
	}
}

func TestObjectThatCannotBeConvertedIsReportedWithTheRemedy(t *testing.T) {
	t.Parallel()
	list := "kind: List\napiVersion: v1\nitems:\n" + "- " + strings.ReplaceAll(strings.TrimSpace(inGit), "\n", "\n  ") + "\n"
	for name, tc := range map[string]struct{ in, want string }{
		"a GitRepository that is missing":      {inGit, "the input: Function price: spec.source: GitRepository repo is missing, which has the URL: add its manifest"},
		"the same in a list":                   {list, "the input: Function price: spec.source: GitRepository repo is missing"},
		"a GitRepository of another namespace": {inGit + "---\n" + strings.Replace(repo, "{name: repo}", "{name: repo, namespace: b}", 1), "GitRepository repo is missing"},
		"a duplicate GitRepository":            {inGit + "---\n" + repo + "---\n" + repo, "GitRepository repo: it is defined twice: remove one of them"},
		"a GitRepository without a URL":        {strings.Split(repo, "spec:")[0], "GitRepository repo: spec.url: it is empty: set the URL"},
		"an unknown type":                      {strings.Replace(inGit, "type: git", "type: svn", 1), `spec.type: there is no type "svn": write git`},
		"no folder in the repository":          {strings.Replace(inGit, "baseDir: /, ", "", 1) + "---\n" + repo, "BaseDir is required and cannot be empty"},
		"an unknown runtime":                   {strings.Replace(good, "nodejs22", "cobol", 1), `spec.runtime: Unsupported value: "cobol"`},
		"malformed dependencies":               {strings.Replace(good, "source: code", "source: code, deps: lodash", 1), "the controller refuses what it would become: spec.source.inline.dependencies"},
		"more at least than at most":           {strings.Replace(good, "source: code", "source: code, minReplicas: 3, maxReplicas: 1", 1), "minReplicas should be less than or equal maxReplicas"},
		"a spec of another form":               {strings.Replace(good, "source: code", "source: [1]", 1), "Function price: it cannot be decoded: "},
		"an object that is too large":          {strings.Replace(good, "source: code", "source: "+strings.Repeat("a", maxObject), 1), "more than the 3145728 of the largest object"},
		"mounts that are malformed JSON":       {strings.Replace(good, "{name: price}", "{name: price, annotations: {serverless.kyma-project.io/v1alpha1SecretMounts: a}}", 1), "it is no list of mounts in JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, err := execute(t, other+"---\n"+tc.in, "-f", "-")
			require.Equal(t, exit.Failed, exit.CodeOf(err), errs)
			require.Contains(t, errs, tc.want)
			require.Equal(t, other, strings.SplitAfter(out, other)[0], "the rest passes")
		})
	}
}

func TestConvertReadsABoundedInput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("\n"), MaxInput/2+1), 0o600))
	_, _, err := execute(t, "", "-f", path, "-f", path)
	require.ErrorContains(t, err, "the files are larger than 64 MiB together: convert them in parts")
	require.Equal(t, exit.Usage, exit.CodeOf(err))
}

func TestConvertConvertsFunctionsAndAPIRulesInOneRun(t *testing.T) {
	t.Parallel()
	out, errs, err := execute(t, good+"---\n"+oldAPIRule+"---\n"+other, "-f", "-")
	require.NoError(t, err)
	require.Contains(t, out, "apiVersion: serverless.kyma-project.io/v1alpha2\nkind: Function\n")
	require.Contains(t, out, "---\napiVersion: gateway.kyma-project.io/v2\nkind: APIRule\n")
	require.True(t, strings.HasSuffix(out, "---\n"+other), out)
	require.Contains(t, errs, "Functions written as v1alpha2: 1, left out: 0; APIRules written as v2: 1, left out: 0; "+
		"GitRepositories no longer needed: 0; other objects, unchanged: 1\n")
}

func TestConvertWritesEachFileIntoAFolder(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "converted")
	require.NoError(t, os.WriteFile(filepath.Join(from, "a.yaml"), []byte(good), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(from, "b.yaml"), []byte(oldAPIRule), 0o600))
	out, _, err := execute(t, "", "-f", from, "-o", to)
	require.NoError(t, err)
	require.Empty(t, out)
	for name, want := range map[string]string{"a.yaml": "serverless.kyma-project.io/v1alpha2", "b.yaml": "gateway.kyma-project.io/v2"} {
		text, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.Contains(t, string(text), "apiVersion: "+want)
	}
}

func FuzzManifests(f *testing.F) {
	for _, file := range []string{"testdata/functions/in.yaml", "testdata/apirules/in.yaml"} {
		content, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(content))
	}
	f.Add(good)
	f.Add(inGit + "---\n" + repo)
	f.Add("--- a\n---\n")
	f.Fuzz(func(t *testing.T, content string) {
		result, err := Manifests(t.Context(), []File{{"a.yaml", []byte(content)}}, isOld)
		if err != nil {
			return
		}
		again, err := Manifests(t.Context(), result.Files, isOld)
		require.NoError(t, err)
		require.Equal(t, string(result.Files[0].Content), string(again.Files[0].Content))
	})
}

package deploy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/cli/exit"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	read := &unstructured.Unstructured{}
	require.NoError(t, read.UnmarshalJSON(content))
	return read
}

func TestStateFollowsTheConditionsOfTheNewestGeneration(t *testing.T) {
	t.Parallel()
	const fn = "apiVersion: serverless.kyma-project.io/v1alpha2\nkind: Function\nmetadata: {name: a, generation: 2}\n"
	for name, tc := range map[string]struct{ object, state, message string }{
		"a ConfigMap":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", Ready, ""},
		"a new Function": {fn + "status: {observedGeneration: -1}", Waiting, "its controller has not looked at it yet"},
		"a Function that runs": {
			fn + "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True', reason: A, message: it runs}]}", Ready, "",
		},
		"a Function that ran before it was changed": {
			fn + "status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True', reason: A, message: it runs}]}",
			Waiting, "its controller has not looked at it yet",
		},
		"a Function that is built": {
			fn + "status: {observedGeneration: 2, conditions: [{type: Ready, status: Unknown, reason: JobRunning, message: it is built}]}", Waiting, "it is built",
		},
		"a Function that lacks a Secret": {
			fn + "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'False', reason: A, message: Secret db}]}", Waiting, "Secret db",
		},
		"a Function for which somebody has to act": {
			fn + "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'False'}, {type: Stalled, status: 'True', message: it does not load}]}",
			Failed, "it does not load",
		},
	} {
		state, message := State(object(t, tc.object))
		require.Equal(t, []string{tc.state, tc.message}, []string{state, message}, name)
	}
}

func TestDiffOfASecretShowsWhichValuesDifferAndNone(t *testing.T) {
	t.Parallel()
	const secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  annotations: {kubectl.kubernetes.io/last-applied-configuration: 'stringData: aaaa'}\n"
	live := object(t, secret+"data: {same: aaaa, other: bbbb, gone: cccc}")
	next := object(t, secret+"data: {same: aaaa, other: dddd, new: eeee}")
	text, err := diff(Ref{Kind: kindSecret, Namespace: "shop", Name: "db"}, live, next)
	require.NoError(t, err)
	for _, line := range []string{"-  gone: '***'\n", "+  new: '***'\n", "-  other: '*** (before)'\n", "+  other: '*** (after)'\n", "   same: '***'\n"} {
		require.Contains(t, text, line)
	}
	deleted, err := diff(Ref{Kind: kindSecret, Namespace: "shop", Name: "db"}, live, nil)
	require.NoError(t, err)
	for _, value := range []string{"aaaa", "bbbb", "cccc", "dddd", "eeee"} {
		require.NotContains(t, text+deleted, value)
	}
	require.Contains(t, deleted, "-kind: Secret\n")
}

func TestTheIdentityOfAFolderIsALabelOfItsPathOrItsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/"
	one, err := Source{Directory: dir}.id()
	require.NoError(t, err)
	require.Regexp(t, `^[0-9A-Za-z-]+-[0-9a-f]{10}$`, one)
	same, err := Source{Directory: dir + "."}.id()
	require.NoError(t, err)
	require.Equal(t, one, same)
	other, err := Source{Directory: t.TempDir()}.id()
	require.NoError(t, err)
	require.NotEqual(t, one, other)
	named, err := Source{Directory: dir, Name: "shop"}.id()
	require.NoError(t, err)
	require.Equal(t, "shop", named)
	for _, wrong := range []Source{{Directory: dir, Name: "a b"}, {Directory: dir, Name: strings.Repeat("a", 64)}, {Directory: dir + "none"}} {
		_, err := wrong.id()
		require.Equal(t, exit.Usage, exit.CodeOf(err), wrong)
	}
	require.Equal(t, "folder", labelled("äöü"))
	require.Equal(t, "my-orders", labelled("my orders!"))
}

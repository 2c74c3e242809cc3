package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variablesOf returns the variables of the Functions of a set, by the name of the Function.
func variablesOf(set Set) map[string]map[string]string {
	found := map[string]map[string]string{}
	for _, fn := range set.Functions {
		found[fn.Name] = map[string]string{}
		for _, variable := range fn.Spec.Env {
			found[fn.Name][variable.Name] = variable.Value
		}
	}
	return found
}

func TestVariablesOfDotenvAreGivenToTheFunctionsOfItsFolder(t *testing.T) {
	t.Parallel()
	own := strings.Replace(named("own"), "  source:\n", "  env: [{name: RATE, value: own}, {name: URL, value: http://$(HOST)}]\n  source:\n", 1)
	set, problems := read(t, write(t, map[string]string{
		envFile: "RATE=root\nHOST=root\n", "fn.yaml": price, "own.yaml": own,
		"tax/" + envFile: "RATE=tax\n", "tax/fn.yaml": named("tax"), "tax/deep/fn.yaml": named("deep"),
	}))
	require.Empty(t, problems)
	require.Equal(t, map[string]map[string]string{
		"price": {"RATE": "root", "HOST": "root"},
		"own":   {"RATE": "own", "HOST": "root", "URL": "http://$(HOST)"},
		"tax":   {"RATE": "tax", "HOST": "root"},
		"deep":  {"RATE": "tax", "HOST": "root"},
	}, variablesOf(set))
	for _, fn := range set.Functions {
		if fn.Name == "own" {
			require.Equal(t, "HOST", fn.Spec.Env[0].Name, "variables of spec.env may refer to those of the file")
		}
	}
}

func TestDotenvAndLocalManifestsAreReadBesideAKustomization(t *testing.T) {
	t.Parallel()
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\nstringData: {a: b}\n"
	set, problems := read(t, write(t, map[string]string{
		"kustomization.yaml": "resources: [fn.yaml]\n", "fn.yaml": price, "other.yaml": named("other"), envFile: "A=1\n",
		"secrets.local.yaml": strings.Replace(secret, "NAME", "beside", 1), "below/more.local.yml": strings.Replace(secret, "NAME", "below", 1),
	}))
	require.Empty(t, problems)
	require.Equal(t, map[string]map[string]string{"price": {"A": "1"}}, variablesOf(set))
	require.Len(t, set.Secrets, 2)
}

func TestLinesOfDotenvAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"A=b": "b", "export A=b": "b", " A = b ": "b", "A=": "", "A=b=c": "b=c", "A=b # c": "b", "A=#": "", "A=b#c": "b#c",
		`A="b # c" # d`: "b # c", `A='$(B) ${C}'`: "$$(B) $${C}", `A="it's"`: "it's", "A=it's": "it's", "A=b c": "b c",
	} {
		variable, problem := parseVariable(strings.TrimSpace(line))
		require.Empty(t, problem, line)
		require.Equal(t, "A", variable.Name, line)
		require.Equal(t, want, variable.Value, line)
	}
}

func TestProblemsOfDotenvNameVariablesAndNeverValues(t *testing.T) {
	t.Parallel()
	set, problems := read(t, write(t, map[string]string{
		"fn.yaml": price, envFile: "\xef\xbb\xbf# hush\r\nhush\r\nA=1\r\n\r\nB=\"hush\r\n1 C=hush\nFUNC_PORT=hush\nD='hush'hush\nA=2\n",
	}))
	require.Equal(t, []string{
		"warning: .env:2: is no NAME=VALUE: the line is left out",
		"warning: .env:5: the value of B does not end with the quote that it begins with: the line is left out",
		"warning: .env:6: is no NAME=VALUE: the line is left out",
		"warning: .env:7: FUNC_PORT is reserved for the runtime: the line is left out",
		"warning: .env:8: the value of D does not end with the quote that it begins with: the line is left out",
	}, problems)
	require.NotContains(t, fmt.Sprint(problems), "hush")
	require.Equal(t, map[string]map[string]string{"price": {"A": "2"}}, variablesOf(set))
}

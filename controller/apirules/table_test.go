package apirules

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/apirule"
)

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func exposed(name, host string) apirule.Exposure {
	return apirule.Exposure{APIRule: key(name), Host: host}
}

// loads is the report of a gateway that has loaded those.
func loads(t *testing.T, all ...apirule.Exposure) apirule.Report {
	t.Helper()
	report := apirule.Report{APIRules: map[string]apirule.Loaded{}}
	for i := range all {
		fingerprint, err := all[i].Fingerprint()
		require.NoError(t, err)
		report.APIRules[all[i].APIRule.String()] = apirule.Loaded{Fingerprint: fingerprint}
	}
	return report
}

func TestTheTableNamesTheAPIRulesThatStandOtherwise(t *testing.T) {
	t.Parallel()
	stand := newTable(func(e *apirule.Exposure) bool { return e.Host != "" })
	decide := func(all ...apirule.Exposure) []types.NamespacedName {
		changed, err := stand.decide(all)
		require.NoError(t, err)
		return changed
	}
	a, b := exposed("a", "a.example.com"), exposed("b", "b.example.com")
	require.Empty(t, decide(a, b), "nothing is said before the gateways were asked")
	select {
	case <-stand.complete:
		t.Fatal("the table is not complete")
	default:
	}
	both := map[string]apirule.Report{"10.0.0.1": loads(t, a, b), "10.0.0.2": loads(t, a)}
	require.ElementsMatch(t, []types.NamespacedName{key("a"), key("b")}, stand.report(both))
	<-stand.complete
	require.True(t, stand.waits())
	known, ok := stand.of(key("b"))
	require.True(t, ok)
	require.Equal(t, []string{"10.0.0.2"}, known.behind)
	require.Equal(t, 2, known.gateways)
	require.Empty(t, stand.report(both))

	both["10.0.0.2"] = loads(t, a, b)
	require.Equal(t, []types.NamespacedName{key("b")}, stand.report(both))
	require.False(t, stand.waits())
	require.Empty(t, stand.report(map[string]apirule.Report{"10.0.0.2": loads(t, a, b)}), "one gateway less changes no status")

	require.Equal(t, []string{"shop"}, stand.routedNamespaces())
	a.Host = ""
	require.Equal(t, []types.NamespacedName{key("a")}, decide(a, b))
	require.Equal(t, []types.NamespacedName{key("b")}, decide(a), "one that is gone has changed")
	require.False(t, stand.isRouted("shop"))
	_, ok = stand.of(key("b"))
	require.False(t, ok)
	require.ElementsMatch(t, []types.NamespacedName{key("a")}, stand.report(map[string]apirule.Report{}), "now there is no gateway")
}

func TestProblemsOfGatewaysAreSaidOnceAndInOrder(t *testing.T) {
	t.Parallel()
	a := exposed("a", "a.example.com")
	first := apirule.LoadedProblem{Rule: 0, Attribute: ".spec.rules[0].jwt", Message: "no keys"}
	second := apirule.LoadedProblem{Rule: 10, Attribute: ".spec.rules[10].jwt", Message: "no keys"}
	with := func(problems ...apirule.LoadedProblem) apirule.Report {
		report := loads(t, a)
		loaded := report.APIRules["shop/a"]
		loaded.Problems = problems
		report.APIRules["shop/a"] = loaded
		return report
	}
	fingerprint, err := a.Fingerprint()
	require.NoError(t, err)
	outdated := with(apirule.LoadedProblem{Message: "of what was written before"})
	outdated.APIRules["shop/a"] = apirule.Loaded{Fingerprint: "other", Problems: outdated.APIRules["shop/a"].Problems}
	s := standingOf(&a, fingerprint, map[string]apirule.Report{
		"10.0.0.1": with(second, first), "10.0.0.2": with(first), "10.0.0.3": outdated,
	})
	require.Equal(t, apirule.Problems{
		{Attribute: ".spec.rules[0].jwt", Message: "no keys", Closes: apirule.RuleAt(0)},
		{Attribute: ".spec.rules[10].jwt", Message: "no keys", Closes: apirule.RuleAt(10)},
	}, s.problems)
	require.Equal(t, []string{"10.0.0.3"}, s.behind)
}

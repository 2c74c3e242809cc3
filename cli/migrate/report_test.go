package migrate

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/migration"
)

func TestAPlanIsPrintedByItsParts(t *testing.T) {
	t.Parallel()
	s := moved()
	s.Release.Runs = false
	s.APIRules = []APIRule{{Object: named("APIRule", "r"), Host: "h.example.com", Ready: true, Rest: []Object{named("VirtualService", "v\x1b")}}}
	s.Relics = []Relic{{named("Secret", "serverless-registry-config"), "stays"}}
	var out bytes.Buffer
	require.NoError(t, Decide(s).Print(&out))
	require.Equal(t, `first: no controller of Rouse is ready in namespace rouse-system: install Rouse, or name its namespace with --rouse-namespace

APIRules
  you:    point the DNS records of h.example.com to the gateways of Rouse, wait until their TTL has passed, and add --hosts-moved
  change: VirtualService shop/v� is deleted, waiting for the DNS of h.example.com to point to Rouse, confirmed by --hosts-moved
  differs: calls inside the cluster to a Service that has an APIRule are not refused any more: use a NetworkPolicy where its pods must not be called

Secrets, rights, dashboards and alerts
  differs: Secret shop/serverless-registry-config stays

test: functions=0 subscriptions=0 apirules=1 consumers=0 pending=0 changes=1
`, out.String())
}

func TestAStatusSaysHowFarAMoveIs(t *testing.T) {
	t.Parallel()
	began, ended := time.Unix(0, 0).UTC(), time.Unix(60, 0).UTC()
	for want, tc := range map[string]struct {
		order  migration.Order
		change func(*Survey)
	}{
		"migration: not begun\n": {},
		"migration: under way, begun 1970-01-01T00:00:00Z\n  left: APIRule shop/r is released from Kyma's finalizer\n": {
			migration.Order{Direction: migration.ToRouse, Began: began}, func(s *Survey) { s.APIRules = []APIRule{{Object: named("APIRule", "r"), Finalizer: true}} },
		},
		"migration: done, begun 1970-01-01T00:00:00Z, ended 1970-01-01T00:01:00Z\n": {
			migration.Order{Direction: migration.ToRouse, Began: began, Ended: &ended}, nil,
		},
		"migration: handed back to Kyma, begun 1970-01-01T00:00:00Z, ended 1970-01-01T00:01:00Z\n" +
			"  you:  Schedule shop/daily exists only in Rouse: delete it\n": {
			migration.Order{Direction: migration.ToKyma, Began: began, Ended: &ended}, func(s *Survey) {
				s.OnlyOurs = []Difference{{named("Schedule", "daily"), "exists only in Rouse: delete it"}}
			},
		},
	} {
		s := moved()
		s.Order = tc.order
		if tc.change != nil {
			tc.change(s)
		}
		var out bytes.Buffer
		require.NoError(t, s.Status().Print(&out))
		require.Equal(t, want, out.String())
	}
}

func TestObjectsOfIstioAreFoundByBothLabelsOfKyma(t *testing.T) {
	t.Parallel()
	require.Equal(t, "shop/price", ruleOf(map[string]string{labelRuleName: "price", labelRuleNamespace: "shop"}))
	require.Equal(t, "shop/price.v1", ruleOf(map[string]string{labelRuleOlder: "price.v1.shop"}))
	require.Empty(t, ruleOf(map[string]string{labelRuleOlder: "price"}))
}

func TestKymaKnowsTheRuntimesOfItsCRD(t *testing.T) {
	t.Parallel()
	for runtime, want := range map[v1alpha2.Runtime]bool{
		v1alpha2.RuntimeNodeJS20: true, v1alpha2.RuntimeNodeJS22: true, v1alpha2.RuntimeNodeJS24: true, v1alpha2.RuntimePython312: true,
		v1alpha2.RuntimeNodeJS26: false, v1alpha2.RuntimePython314: false, v1alpha2.RuntimeGo126: false, "other": false,
	} {
		require.Equal(t, want, isOfKyma(runtime), runtime)
	}
}

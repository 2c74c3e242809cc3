package apirule

import (
	"testing"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

func TestAFingerprintTellsExposuresApart(t *testing.T) {
	t.Parallel()
	fingerprint := func(cluster *Objects, changes ...func(*v2.APIRule)) string {
		text, err := Decide([]*v2.APIRule{rule("price", 1, "price.example.com", changes...)}, cluster)[0].Fingerprint()
		require.NoError(t, err)
		require.Len(t, text, 32)
		return text
	}
	plain := fingerprint(surroundings())
	require.Equal(t, plain, fingerprint(surroundings()))
	require.Equal(t, plain, fingerprint(surroundings(), func(r *v2.APIRule) {
		r.Annotations, r.Status = map[string]string{"seen": "by caches that keep it"}, v2.APIRuleStatus{State: v2.StateReady}
	}), "only what is served counts")
	seen := map[string]string{plain: "the plain one"}
	for name, other := range map[string]string{
		"the host":      fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.Hosts[0] = "other" }),
		"a header":      fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.Rules[0].Request = &v2.Request{Headers: map[string]string{"a": "b"}} }),
		"the timeout":   fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.Timeout = new(v2.Timeout(1)) }),
		"CORS":          fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.CORSPolicy = &v2.CORSPolicy{} }),
		"the address":   fingerprint(surroundings(func(c *Objects) { s := c.Services[price]; s.Address = "10.0.0.9"; c.Services[price] = s })),
		"a closed rule": fingerprint(surroundings(func(c *Objects) { delete(c.Services, price) })),
		"a Function":    fingerprint(surroundings(func(c *Objects) { s := c.Services[price]; s.Function = true; c.Services[price] = s })),
		"a new object":  fingerprint(surroundings(), func(r *v2.APIRule) { r.UID = "other" }),
	} {
		require.NotContains(t, seen, other, name)
		seen[other] = name
	}
}

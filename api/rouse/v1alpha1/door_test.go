package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// applyDoor makes a Door with a spec in YAML, at a host.
func applyDoor(t *testing.T, namespace, spec string) error {
	t.Helper()
	object := envtest.Object(t, "apiVersion: rouse.run/v1alpha1\nkind: Door\nmetadata: {generateName: d-, namespace: "+namespace+"}\nspec: {gateway: kyma-system/kyma-gateway, "+hostOf(spec)+spec+"}")
	return cluster.Environment(t).Client.Create(t.Context(), object)
}

// hostOf is the host of a spec that has none.
func hostOf(spec string) string {
	if strings.HasPrefix(spec, "host:") {
		return ""
	}
	return "host: hooks, "
}

func TestADoorThatCannotBeIsRefusedByItsSchema(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	const certificates = `clientCertificates: {ca: x, subjects: [commerce]}`
	for name, tc := range map[string]struct{ spec, message string }{
		"nothing that it takes":       {`key: {secretName: k}`, "set exactly one of webhook, cloudEvents and application"},
		"two that it takes":           {`cloudEvents: {}, webhook: {scheme: GitHub, secretName: k}`, "set exactly one of webhook, cloudEvents and application"},
		"nobody who may send":         {`cloudEvents: {}`, "set exactly one of clientCertificates, jwt and key"},
		"a webhook with a key":        {`webhook: {scheme: GitHub, secretName: k}, key: {secretName: k}`, "set exactly one of clientCertificates, jwt and key"},
		"an application with a key":   {`application: {}, key: {secretName: k}`, "application needs clientCertificates"},
		"an application with a path":  {`application: {}, path: /x, ` + certificates, "application has paths of its own"},
		"many hosts":                  {`host: "*.example.com", webhook: {scheme: GitHub, secretName: k}`, "spec.host"},
		"a scheme":                    {`webhook: {scheme: SNS, secretName: k}`, "spec.webhook.scheme: Unsupported value"},
		"no Secret":                   {`webhook: {scheme: GitHub}`, "spec.webhook.secretName: Required value"},
		"an HMAC that is not told":    {`webhook: {scheme: HMAC, secretName: k}`, "the scheme HMAC needs hmac"},
		"an HMAC of another scheme":   {`webhook: {scheme: GitHub, secretName: k, hmac: {header: x}}`, "the scheme HMAC needs hmac"},
		"Twilio without its URL":      {`webhook: {scheme: Twilio, secretName: k}`, "the scheme Twilio needs url"},
		"a pattern in the path":       {`webhook: {scheme: GitHub, secretName: k}, path: "/{**}"`, "spec.path"},
		"a fingerprint":               {`cloudEvents: {}, clientCertificates: {ca: x, subjects: [c], revoked: ["00"]}`, "revoked"},
		"a token without an audience": {`cloudEvents: {}, jwt: {issuer: i, jwksUri: u, audiences: []}`, "audiences"},
		"no requests":                 {`webhook: {scheme: GitHub, secretName: k}, requestsPerSecond: 100000`, "spec.requestsPerSecond"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := applyDoor(t, namespace, tc.spec)
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, tc.message)
		})
	}
}

// One object that does not decode would make the list of all unreadable, for all namespaces.
func TestNoDoorThatTheAPIServerAcceptsFailsToDecode(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	accepted := 0
	for _, value := range []string{`""`, `"0"`, `"5m"`, `"99999999h"`, `1`, `1.5`, `true`, `null`, `[]`, `{}`, `"AQI"`} {
		for _, spec := range []string{
			`webhook: {scheme: GitHub, secretName: k, tolerance: ` + value + `}`, `webhook: {scheme: GitHub, secretName: k, event: ` + value + `}`,
			`webhook: {scheme: GitHub, secretName: k}, requestsPerSecond: ` + value, `webhook: {scheme: GitHub, secretName: k}, types: ` + value,
			`cloudEvents: ` + value + `, key: {secretName: k}`, `application: ` + value + `, clientCertificates: {ca: x, subjects: [c]}`,
		} {
			if applyDoor(t, namespace, spec) == nil {
				accepted++
			}
		}
	}
	require.Positive(t, accepted)
	require.NoError(t, environment.Client.List(t.Context(), &v1alpha1.DoorList{}))
}

package dev

import (
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// githubVector is what @octokit/webhooks 14.2.0 has signed with githubSecret.
const (
	githubSecret = "s3cret-of-github"
	githubBody   = `{"action":"opened"}`
	githubSigned = "sha256=73e804bb9a4bdbb09348a629c84b0711c308e72fe8b8422ca8d22726e7ebddba"
)

const githubDoor = `---
apiVersion: rouse.run/v1alpha1
kind: Door
metadata: {name: github, namespace: orders}
spec:
  gateway: kyma-system/kyma-gateway
  host: hooks
  path: /github
  source: shop
  webhook:
    scheme: GitHub
    secretName: github
    event: {type: "'order.received'", data: "{'id': data.action}"}
`

func TestADoorOfTheFolderTakesASignedWebhook(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("got"))+githubDoor)
	write(t, directory, "secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: github, namespace: orders}\nstringData: {current: "+githubSecret+"}\n")
	_, text, err := net.SplitHostPort(loopback.Address(t))
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	w := run(t, directory, func(o *Options) { o.APIRulesPort = port })
	await(t, "the Door is shown", func() bool {
		return regexp.MustCompile(`door +orders/github +http://hooks\.localhost:` + text + `/github|door +github.*http://hooks\.localhost:` + text + `/github`).MatchString(w.out.String())
	})
	send := func(signature string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+text+"/github", strings.NewReader(githubBody))
		require.NoError(t, err)
		request.Host = "hooks.localhost:" + text
		for name, value := range map[string]string{
			"Content-Type": "application/json", "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": "d1", "X-Hub-Signature-256": signature,
		} {
			request.Header.Set(name, value)
		}
		response, err := loopback.Default.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	await(t, "the delivery is stored", func() bool { return send(githubSigned) == http.StatusNoContent })
	require.Equal(t, http.StatusNoContent, send(githubSigned), "repeated")
	require.Equal(t, http.StatusUnauthorized, send(strings.ReplaceAll(githubSigned, "73", "37")))
	await(t, "the Function got it", func() bool { return strings.Contains(w.printed(t, "greeter"), "got opened") })
	require.Equal(t, 1, strings.Count(w.printed(t, "greeter"), "got opened"))
}

func TestADoorThatCannotBeIsShownWithItsLine(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("got"))+githubDoor)
	w := run(t, directory)
	await(t, "the missing Secret is shown", func() bool { return strings.Contains(w.out.String(), "Secret github") })
	write(t, directory, "secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: github, namespace: orders}\nstringData: {current: "+githubSecret+"}\n")
	write(t, directory, "fn.yaml", greeter(prints("got"))+strings.ReplaceAll(githubDoor, "data.action", "body.action"))
	await(t, "the expression is shown", func() bool { return strings.Contains(w.out.String(), "spec.webhook.event.data") })
}

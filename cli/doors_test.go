package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

const githubDoor = `apiVersion: rouse.run/v1alpha1
kind: Door
metadata: {name: github, namespace: shop}
spec:
  gateway: kyma-system/kyma-gateway
  host: hooks
  webhook:
    scheme: GitHub
    secretName: github
    event: {subject: "data.action", drop: "header['x-github-event'] == 'ping'"}
`

const githubSecret = `---
apiVersion: v1
kind: Secret
metadata: {name: github, namespace: shop}
stringData: {current: s3cret-of-github}
`

const githubRequest = "POST /github\nX-GitHub-Event: pull_request\nX-GitHub-Delivery: d1\nContent-Type: application/json\nContent-Length: 99\n" +
	"X-Hub-Signature-256: sha256=73e804bb9a4bdbb09348a629c84b0711c308e72fe8b8422ca8d22726e7ebddba\n\n" + `{"action":"opened"}`

// tryDoor runs rouse doors test on files with contents.
func tryDoor(t *testing.T, doors, request string, args ...string) (code exit.Code, out, notes string) {
	t.Helper()
	dir := t.TempDir()
	door, sent := filepath.Join(dir, "door.yaml"), filepath.Join(dir, "request.http")
	require.NoError(t, os.WriteFile(door, []byte(doors), 0o600))
	require.NoError(t, os.WriteFile(sent, []byte(request), 0o600))
	got := run(t, "", append([]string{"doors", "test", door, "--request", sent}, args...)...)
	return exit.Code(got.code), got.out, got.err
}

func TestARequestIsShownAsTheEventThatItBecomes(t *testing.T) {
	t.Parallel()
	code, out, _ := tryDoor(t, githubDoor+githubSecret, githubRequest)
	require.Equal(t, exit.OK, code)
	require.Contains(t, out, "type             github.pull_request\nsubject          opened\n")
	require.Contains(t, out, `{"action":"opened"}`)
	code, out, _ = tryDoor(t, githubDoor+githubSecret, githubRequest, "-o", "json")
	require.Equal(t, exit.OK, code)
	require.Contains(t, out, `"id":"d1"`)
}

func TestARequestThatBecomesNoEventSaysWhy(t *testing.T) {
	t.Parallel()
	code, _, notes := tryDoor(t, githubDoor+githubSecret, githubRequest+" ")
	require.Equal(t, exit.Refused, code)
	require.Contains(t, notes, "the signature is not by the Door's keys over this body")
	code, _, notes = tryDoor(t, githubDoor, githubRequest)
	require.Equal(t, exit.OK, code)
	require.Contains(t, notes, "no Secret github: the sender is not verified")
	code, out, _ := tryDoor(t, githubDoor, "POST /github\nX-GitHub-Event: ping\n\n{}")
	require.Equal(t, exit.OK, code)
	require.Contains(t, out, "no event: spec.webhook.event.drop is true")
	code, _, notes = tryDoor(t, githubDoor, "nonsense")
	require.Equal(t, exit.Refused, code)
	require.Contains(t, notes, "is no request")
	code, _, _ = tryDoor(t, "kind: ConfigMap\n", githubRequest)
	require.Equal(t, exit.Refused, code)
}

//go:build e2e

package features

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

// ticketsIn copies samples/tickets for a namespace and the gateway of the tests.
func ticketsIn(t *testing.T, namespace string) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "tickets")
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join("..", "..", "samples", "tickets"))))
	require.NoError(t, os.Remove(filepath.Join(folder, "namespace.yaml")))
	own := strings.NewReplacer("namespace: tickets", "namespace: "+namespace, ".tickets.svc", "."+namespace+".svc",
		"kyma-system/kyma-gateway", framework.OwnGateway, "host: desk", "host: "+namespace)
	manifests, err := filepath.Glob(filepath.Join(folder, "*", "function.yaml"))
	require.NoError(t, err)
	for _, path := range append(manifests, filepath.Join(folder, "door.yaml")) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(own.Replace(string(text))), 0o600))
	}
	return folder
}

// standardWebhook signs a body as Standard Webhooks do.
func standardWebhook(key []byte, id, body string) http.Header {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return http.Header{
		"Content-Type": {"application/json"}, "Webhook-Id": {id}, "Webhook-Timestamp": {at},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}
}

// The app of samples/tickets is deployed by one command, and a webhook goes through its Functions in three languages to the page.
func TestAnAppOfSeveralLanguagesIsDeployedAndFollowsAWebhookToItsPage(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	webhookKey, linkKey := []byte("a key of the help desk, 32 bytes"), "a key of links"
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace,
		framework.Secret("desk", nil, map[string]string{"current": "whsec_" + base64.StdEncoding.EncodeToString(webhookKey)})+
			"---\n"+framework.Secret("links", nil, map[string]string{"key": linkKey})))
	rouse := cliIn(t, namespace)
	folder := ticketsIn(t, namespace)
	out := rouse(0, "deploy", folder, "--timeout", "10m")
	for _, function := range []string{"triage", "notifier", "deadlines", "status"} {
		require.Regexp(t, `function/`+function+` +created +ready`, out)
	}
	require.Empty(t, rouse(0, "diff", folder))

	sender := newOutside(t, cluster, namespace+"."+framework.OwnDomain, nil)
	open := func(ticket, customer string) {
		t.Helper()
		body := fmt.Sprintf(`{"type": "ticket.opened", "data": {"id": %q, "product": "shop", "title": "The checkout is down", "customer": %q, `+
			`"opened": "2026-11-27T15:30:00Z"}}`, ticket, customer)
		status, text := sender.post(t, "/tickets", standardWebhook(webhookKey, "msg-"+ticket, body), body)
		require.Equal(t, http.StatusNoContent, status, text)
	}
	command := commandIn(t, namespace)
	good, bad := namespace+"-good", namespace+"-bad"
	open(good, "ada@example.com")
	open(bad, "bob")
	page := func(ticket string, parts ...string) {
		t.Helper()
		mac := hmac.New(sha256.New, []byte(linkKey))
		_, _ = mac.Write([]byte(ticket))
		link := "/tickets/" + ticket + "?key=" + hex.EncodeToString(mac.Sum(nil))[:32]
		require.NoError(t, framework.Await(t.Context(), 4*time.Minute, "the page of "+ticket, func(ctx context.Context) (bool, error) {
			text, err := command.Run(ctx, "invoke", "status", "--path", link)
			for _, part := range parts {
				if err == nil && !strings.Contains(string(text), part) {
					err = fmt.Errorf("there is no %q in %s", part, text)
				}
			}
			return err == nil, err
		}))
	}
	page(good, "Ticket "+good+": in work", "commerce, urgent", "2026-11-27T19:30:00Z", "The customer was told")
	page(bad, "Ticket "+bad+": refused", "the customer has no address")
	require.Contains(t, rouse(0, "dlq", "list", "--subscription", "notifier"), bad+".triaged")
	rouse(0, "dlq", "purge", "--all", "--yes")
}

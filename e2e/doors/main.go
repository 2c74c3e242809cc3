// Command doors has each provider's own library sign requests and send them to Doors on the local cluster, where a Function that sleeps
// wakes and reports the events. It prints how many were stored, recognised as repeats, and refused because they were changed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	eventType = "signed.v1"
	settled   = 3 * time.Minute
)

// provider is one whose library signs.
type provider struct {
	Scheme string `json:"scheme"`
	Path   string `json:"path"`
	Secret string `json:"secret"`
	URL    string `json:"url,omitempty"` // that it signs
}

// answers are the statuses of a request, of the same once more, and of one whose body is another.
type answers struct{ First, Again, Changed int }

func main() { framework.Main("doors", run) }

func run(ctx context.Context) (err error) {
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "doors")
	if err != nil {
		return err
	}
	defer end()
	defer func() {
		if err != nil {
			cluster.Dump(context.WithoutCancel(ctx), os.Stderr, namespace)
		}
	}()
	providers := signing(namespace)
	fmt.Println("installing the providers' libraries, and opening Doors for a Function that sleeps ...")
	signers := filepath.Join("e2e", "doors", "signers")
	if out, err := exec.CommandContext(ctx, "npm", "ci", "--prefix", signers, "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
		return fmt.Errorf("install the libraries: %w: %s", err, out)
	}
	if err := prepare(ctx, cluster, namespace, providers); err != nil {
		return err
	}
	said, err := send(ctx, cluster, signers, namespace, providers)
	if err != nil {
		return err
	}
	return judge(ctx, cluster, namespace, providers, said)
}

func signing(namespace string) []provider {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	return []provider{
		{"GitHub", "/github", "a secret of GitHub", ""},
		{"GitLab", "/gitlab", key, ""},
		{"StandardWebhooks", "/standard", key, ""},
		{"Stripe", "/stripe", "whsec_of_stripe", ""},
		{"Twilio", "/twilio", "a token of Twilio", "https://" + host(namespace) + "/twilio"},
	}
}

func host(namespace string) string { return namespace + "." + framework.OwnDomain }

func prepare(ctx context.Context, cluster *framework.Cluster, namespace string, providers []provider) error {
	if err := cluster.StartLedger(ctx, namespace); err != nil {
		return err
	}
	function := framework.Function{Name: "signed", Max: 1, Asleep: true, Runtime: "nodejs22", Annotations: framework.Fast(), Source: framework.ReportingHandler("")}
	subscription := framework.Subscription{Name: "signed", Namespace: namespace, Type: eventType, Sink: "signed"}
	manifest := []string{function.YAML(), subscription.YAML()}
	for _, each := range providers {
		name := strings.ToLower(each.Scheme)
		url := ""
		if each.URL != "" {
			url = fmt.Sprintf("url: %q, ", each.URL)
		}
		manifest = append(manifest, framework.Secret(name, nil, map[string]string{"current": each.Secret}), fmt.Sprintf(`
apiVersion: rouse.run/v1alpha1
kind: Door
metadata: {name: %[1]s}
spec:
  gateway: %[2]s
  host: %[3]s
  path: %[4]s
  source: %[5]s
  webhook: {scheme: %[6]s, secretName: %[1]s, %[7]sevent: {type: "'%[8]s'", data: "{'key': '%[9]s-%[1]s'}"}}
`, name, framework.OwnGateway, namespace, each.Path, framework.Source, each.Scheme, url, eventType, namespace))
	}
	if err := cluster.ApplyYAML(ctx, namespace, strings.Join(manifest, "---\n")); err != nil {
		return err
	}
	if err := cluster.AwaitCondition(ctx, namespace, framework.FunctionGVK, function.Name, "Running", "True", settled); err != nil {
		return err
	}
	for _, each := range providers {
		kind := schema.GroupVersionKind{Group: "rouse.run", Version: "v1alpha1", Kind: "Door"}
		if err := cluster.AwaitCondition(ctx, namespace, kind, strings.ToLower(each.Scheme), "Ready", "True", settled); err != nil {
			return err
		}
	}
	return cluster.AwaitReplicas(ctx, namespace, function.Name, 0, settled)
}

// send has the libraries sign and send.
func send(ctx context.Context, cluster *framework.Cluster, signers, namespace string, providers []provider) (map[string]answers, error) {
	gateways, err := cluster.PodsOf(ctx, "gateway")
	if err != nil {
		return nil, err
	}
	port, err := cluster.Forward(ctx, &gateways[0], 8080)
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(map[string]any{"address": fmt.Sprintf("http://127.0.0.1:%d", port), "host": host(namespace), "doors": providers})
	if err != nil {
		return nil, fmt.Errorf("order the requests: %w", err)
	}
	command := exec.CommandContext(ctx, "node", filepath.Join(signers, "sign.mjs"))
	command.Stdin, command.Stderr = bytes.NewReader(order), os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("sign and send: %w", err)
	}
	var said map[string]answers
	if err := json.Unmarshal(out, &said); err != nil {
		return nil, fmt.Errorf("read the answers: %w", err)
	}
	return said, nil
}

func judge(ctx context.Context, cluster *framework.Cluster, namespace string, providers []provider, said map[string]answers) error {
	var keys []string
	for _, each := range providers {
		if got := said[each.Scheme]; got != (answers{http.StatusNoContent, http.StatusNoContent, http.StatusUnauthorized}) {
			return fmt.Errorf("%s: a request was answered with %d, the same once more with %d, one that was changed with %d", each.Scheme, got.First, got.Again, got.Changed)
		}
		keys = append(keys, namespace+"-"+strings.ToLower(each.Scheme))
	}
	entries, err := cluster.AwaitLedger(ctx, namespace, keys, settled)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if entries[key].Count != 1 {
			return fmt.Errorf("the event of %s came %d times", key, entries[key].Count)
		}
	}
	fmt.Printf("doors ok: providers=%[1]d stored=%[1]d repeated=%[1]d refused=%[1]d\n", len(providers))
	return nil
}

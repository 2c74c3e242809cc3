package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

// ofVictim is the placeholder of the victim's namespace in requests.
const ofVictim = "VICTIM"

// adminAttacks use all permissions in the attacker's namespace, and access to the admin API.
func adminAttacks() []attack {
	const letters, get, post = "/v1/deadletters", http.MethodGet, http.MethodPost
	return []attack{
		{"list another's dead letters", asTenant(get, letters+"?namespace="+ofVictim, "", "may not list")},
		{"list everybody's dead letters", asTenant(get, letters, "", "may not list")},
		{"read another's dead letter", asTenant(get, letters+"/1?namespace="+ofVictim, "", "may not get")},
		{"read a dead letter by its number alone", asTenant(get, letters+"/1", "", "may not get")},
		{"purge another's dead letters", asTenant(post, letters+"/purge", `{"namespace":"`+ofVictim+`"}`, "may not delete")},
		{"purge everybody's dead letters", asTenant(post, letters+"/purge", `{"all":true}`, "may not delete")},
		{"purge a dead letter by its number alone", asTenant(post, letters+"/purge", `{"sequence":1}`, "may not delete")},
		{"redrive another's dead letters", asTenant(post, letters+"/redrive", `{"namespace":"`+ofVictim+`"}`, "may not create")},
		{"follow another's events", asTenant(get, "/v1/events?follow=true&namespace="+ofVictim, "", "may not watch")},
		{"follow everybody's events", asTenant(get, "/v1/events?follow=true", "", "may not watch")},
		{"see what waits for another's Subscriptions", asTenant(get, "/v1/subscriptions?namespace="+ofVictim, "", "may not list")},
		{"list another's delayed events", asTenant(get, "/v1/delayed?namespace="+ofVictim, "", "may not list")},
		{"cancel another's delayed event", asTenant(post, "/v1/delayed/cancel", `{"namespace":"`+ofVictim+`","id":"1"}`, "may not delete")},
		{"list another's Schedules", asTenant(get, "/v1/schedules?namespace="+ofVictim, "", "may not list")},
		{"run another's Schedule", asTenant(post, "/v1/schedules/run", `{"namespace":"`+ofVictim+`","name":"nightly"}`, "may not create")},
		{"use a publisher's token for dead letters", publishersToken},
		{"use a made up token for dead letters", forgedToken},
	}
}

// asTenant requests the victim's data as the attacker, who may request its own.
func asTenant(method, path, body, refusal string) func(context.Context, *stage) (string, error) {
	return func(ctx context.Context, s *stage) (string, error) {
		token, err := s.cluster.Tenant(ctx, s.attacker, "admin")
		if err != nil {
			return "", err
		}
		if err := s.awaitOwnRight(ctx, token); err != nil {
			return "", err
		}
		named := strings.NewReplacer(ofVictim, s.victim)
		status, answer, err := s.askAdmin(ctx, method, named.Replace(path), named.Replace(body), token)
		if err == nil && (status != http.StatusForbidden || !strings.Contains(answer, refusal)) {
			err = succeeded("the admin API answers %d %q", status, answer)
		}
		return "the eventbridge: " + answer, err
	}
}

// awaitOwnRight waits until the attacker's role is effective, without which a rejection would prove nothing.
func (s *stage) awaitOwnRight(ctx context.Context, token string) error {
	return framework.Await(ctx, exposed, "the attacker's own right", func(ctx context.Context) (bool, error) {
		status, answer, err := s.askAdmin(ctx, http.MethodGet, "/v1/deadletters?namespace="+s.attacker, "", token)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, answer)
		}
		return err == nil, err
	})
}

// publishersToken uses a tenant's token that is only for events.
func publishersToken(ctx context.Context, s *stage) (string, error) {
	token, err := s.cluster.Tenant(ctx, s.attacker, "admin", "rouse-eventbridge")
	if err != nil {
		return "", err
	}
	return s.unauthenticated(ctx, token)
}

func forgedToken(ctx context.Context, s *stage) (string, error) {
	return s.unauthenticated(ctx, "e30.eyJhdWQiOiJyb3VzZS1hZG1pbiIsInN1YiI6InN5c3RlbTphZG1pbiJ9.c2ln")
}

func (s *stage) unauthenticated(ctx context.Context, token string) (string, error) {
	status, answer, err := s.askAdmin(ctx, http.MethodGet, "/v1/deadletters?namespace="+s.attacker, "", token)
	if err == nil && status != http.StatusUnauthorized {
		err = succeeded("the admin API answers %d %q", status, answer)
	}
	return "the eventbridge: " + answer, err
}

// askAdmin sends one request to the admin API, and returns the error in the response.
func (s *stage) askAdmin(ctx context.Context, method, path, body, token string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, exposed) // an accepted stream would have no end
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.admin+path, strings.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("ask the admin API: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("ask the admin API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	const longest = 4 << 10
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return 0, "", fmt.Errorf("read the admin API's answer: %w", err)
	}
	var said struct{ Error string }
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = string(text)
	}
	return response.StatusCode, said.Error, nil
}

func controllerAttacks() []attack {
	return []attack{
		{"ask the controller's own ports by a registry Secret", registryAt("127.0.0.1:9090")},
		{"ask the metadata service by a registry Secret", registryAt("169.254.169.254")},
		{"read an internal server's answer by a registry Secret", registryAt("")},
		{"starve everybody's builds by labelled Jobs", fakeJobs},
	}
}

// registryAt configures a server that is not a registry, and waits for the condition to report it. Empty: a web server
// inside the cluster, whose responses the tenant must not read.
func registryAt(address string) func(context.Context, *stage) (string, error) {
	return func(ctx context.Context, s *stage) (string, error) {
		if address == "" {
			address = s.sources.Host()
		}
		secret := framework.Secret("serverless-registry-config", map[string]string{"serverless.kyma-project.io/remote-registry": "config"},
			map[string]string{"registryAddress": address, "insecure": "true", "username": "me", "password": "mine"})
		function := framework.Function{
			Name: "strange", Runtime: nodeJS, Dependencies: `{"dependencies":{"is-number":"6.0.0"}}`, Source: "module.exports.main = () => 1",
		}
		if err := s.cluster.ApplyYAML(ctx, s.attacker, secret+"---\n"+function.YAML()); err != nil {
			return "", err
		}
		var message string
		err := framework.Await(ctx, built, "a word about the registry "+address, func(ctx context.Context) (bool, error) {
			conditions, err := s.cluster.Conditions(ctx, s.attacker, framework.FunctionGVK, "strange")
			condition := conditions["BuildReady"]
			message = condition.Message
			named := strings.Contains(message, "registry") && strings.Contains(message, strings.Split(address, ":")[0])
			return condition.Status != "True" && named, err
		})
		for _, word := range []string{"<html", "lighttpd", "promhttp", "go_goroutines", "<h1"} {
			if strings.Contains(message, word) {
				return "", succeeded("the condition says %q", message)
			}
		}
		if deleteErr := s.cluster.DeleteSecret(ctx, s.attacker, "serverless-registry-config"); err == nil {
			err = deleteErr
		}
		return "the controller: " + message, err
	}
}

// fakeJobs creates as many Jobs as allowed, in the form of the controller's own. They are suspended, so they never end.
func fakeJobs(ctx context.Context, s *stage) (string, error) {
	const forged = 20
	function, err := s.cluster.Function(ctx, s.attacker, "own")
	if err != nil {
		return "", err
	}
	var manifest strings.Builder
	for n := range forged {
		fmt.Fprintf(&manifest, `---
apiVersion: batch/v1
kind: Job
metadata:
  name: own-build-%010d
  labels:
    serverless.kyma-project.io/managed-by: function-controller
    serverless.kyma-project.io/resource: job
    serverless.kyma-project.io/function-name: forged-%d
    serverless.kyma-project.io/uuid: %s
  ownerReferences:
    - {apiVersion: serverless.kyma-project.io/v1alpha2, kind: Function, name: own, uid: %s, controller: true}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: forged
          image: registry.example.com/nothing:1
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, n, n, function.GetUID(), function.GetUID())
	}
	if err := s.cluster.ApplyYAML(ctx, s.attacker, manifest.String()); err != nil {
		return "", err
	}
	waits := framework.Function{
		Name: "waits", Runtime: nodeJS, Dependencies: `{"dependencies":{"is-number":"5.0.0"}}`, Source: "module.exports.main = () => 'built'",
	}
	began := time.Now()
	if err := s.cluster.ApplyYAML(ctx, s.victim, waits.YAML()); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitAnswer(ctx, s.victim, "waits", "built", built); err != nil {
		return "", succeeded("nothing is built any more: %v", err)
	}
	return fmt.Sprintf("the queue: another's build was done after %s", time.Since(began).Round(time.Second)), nil
}

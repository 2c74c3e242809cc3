package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

func controllerAttacks() []attack {
	return []attack{
		{"ask the controller's own ports by a registry Secret", registryAt("127.0.0.1:9090")},
		{"ask the metadata service by a registry Secret", registryAt("169.254.169.254")},
		{"read an internal server's answer by a registry Secret", registryAt("")},
		{"starve everybody's builds by labelled Jobs", fakeJobs},
	}
}

// registryAt names a server that is no registry, and waits for the condition to report it. Empty: a web server inside the
// cluster, whose answers the tenant must not read.
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

// fakeJobs are as many as could be, in the forms of the controller's own. They are suspended, so they never end.
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

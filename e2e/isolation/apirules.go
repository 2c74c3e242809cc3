package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	exposed = time.Minute // how long an APIRule may take to be served, or refused
	// entrancePort is where gateways take requests to the hosts of APIRules.
	entrancePort = 8080
)

func apiRuleAttacks() []attack {
	return []attack{
		{"lead an APIRule to another's Function", ruleToAnother},
		{"take another's host by an APIRule", hostOfAnother},
		{"take another's host by an APIRule for its whole domain", domainOfAnother},
	}
}

// ruleToAnother exposes the victim's Function at a host of the attacker's.
func ruleToAnother(ctx context.Context, s *stage) (string, error) {
	host := "stolen-" + s.attacker
	if err := s.cluster.ApplyYAML(ctx, s.attacker, apiRule("stolen", host, s.victim, "prod-price")); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitState(ctx, s.attacker, "stolen", "Error", "does not allow it", exposed); err != nil {
		return "", err
	}
	status, answer, err := s.ask(ctx, host+"."+framework.OwnDomain)
	if err == nil && (status != http.StatusServiceUnavailable || strings.Contains(answer, "confidential")) {
		err = succeeded("the rule answers %d %q", status, answer)
	}
	return fmt.Sprintf("the gateway: %d %s", status, strings.TrimSpace(answer)), err
}

// hostOfAnother is a later APIRule for the host of the victim's.
func hostOfAnother(ctx context.Context, s *stage) (string, error) {
	host, err := s.exposeVictim(ctx)
	if err != nil {
		return "", err
	}
	if err := s.cluster.ApplyYAML(ctx, s.attacker, apiRule("taken", host, s.attacker, "own")); err != nil {
		return "", err
	}
	const refusal = "Host is occupied by another APIRule"
	if err := s.cluster.AwaitState(ctx, s.attacker, "taken", "Error", refusal, exposed); err != nil {
		return "", err
	}
	return "the controller: " + refusal, s.requireVictimAt(ctx, host)
}

// domainOfAnother has a wildcard in which the victim's host lies.
func domainOfAnother(ctx context.Context, s *stage) (string, error) {
	host, err := s.exposeVictim(ctx)
	if err != nil {
		return "", err
	}
	if err := s.cluster.ApplyYAML(ctx, s.attacker, apiRule("all", "'*."+framework.OwnDomain+"'", s.attacker, "own")); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitState(ctx, s.attacker, "all", "Ready", "", exposed); err != nil {
		return "", err
	}
	return "the gateway: the most specific host answers", s.requireVictimAt(ctx, host)
}

// exposeVictim lets everyone call the victim's Function, and returns at which host.
func (s *stage) exposeVictim(ctx context.Context) (host string, err error) {
	host = "price-" + s.victim
	if err := s.cluster.ApplyYAML(ctx, s.victim, apiRule("price", host, s.victim, "prod-price")); err != nil {
		return "", err
	}
	return host, s.cluster.AwaitState(ctx, s.victim, "price", "Ready", "", exposed)
}

func (s *stage) requireVictimAt(ctx context.Context, host string) error {
	status, answer, err := s.ask(ctx, host+"."+framework.OwnDomain)
	if err == nil && !strings.Contains(answer, "confidential") {
		err = succeeded("the victim's host answers %d %q", status, answer)
	}
	return err
}

// ask calls a host at a gateway, as a client from outside does.
func (s *stage) ask(ctx context.Context, host string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, exposed)
	defer cancel()
	pods, err := s.cluster.PodsOf(ctx, "gateway")
	if err != nil {
		return 0, "", err
	}
	port, err := s.cluster.Forward(ctx, &pods[0], entrancePort)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), http.NoBody)
	if err != nil {
		return 0, "", fmt.Errorf("make a request: %w", err)
	}
	request.Host = host
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("ask %s: %w", host, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return 0, "", fmt.Errorf("read the answer of %s: %w", host, err)
	}
	return response.StatusCode, string(text), nil
}

func apiRule(name, host, namespace, service string) string {
	return fmt.Sprintf(`apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata: {name: %s}
spec:
  gateway: %s
  hosts: [%s]
  service: {name: %s, namespace: %s, port: 80}
  rules: [{path: /*, methods: [GET], noAuth: true}]
`, name, framework.OwnGateway, host, service, namespace)
}

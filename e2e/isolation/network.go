package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// delivered is the timeout for delivering an event to a Function that is awake.
const delivered = time.Minute

// sliceAttacks use the permission to write EndpointSlices in the attacker's namespace. All contain the pod of the
// victim's Function.
func sliceAttacks() []attack {
	return []attack{
		{"lead a gateway to another's pod by an EndpointSlice of a Function", sliceOfFunction},
		{"lead an APIRule to another's pod by a Service and an EndpointSlice", sliceOfService},
		{"have events delivered to another's pod by an EndpointSlice", sliceOfSink},
	}
}

// sliceOfFunction adds the victim's pod to those of the attacker's own Function.
func sliceOfFunction(ctx context.Context, s *stage) (refusal string, err error) {
	remove, err := s.forgeSlice(ctx, "own")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	host := "slice-" + s.attacker
	if err := s.cluster.ApplyYAML(ctx, s.attacker, apiRule("slice", host, s.attacker, "own")); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitState(ctx, s.attacker, "slice", "Ready", "", exposed); err != nil {
		return "", err
	}
	for range 10 { // pods are picked round-robin
		status, answer, err := s.ask(ctx, host+"."+framework.OwnDomain)
		switch {
		case err != nil:
			return "", err
		case strings.Contains(answer, "confidential"):
			return "", succeeded("the attacker's host answers %d %q", status, answer)
		case answer != "mine":
			return "", fmt.Errorf("the attacker's own pod does not answer, but %d %q", status, answer)
		}
	}
	return "the gateway: the attacker's own pod answers", nil
}

// sliceOfService adds the victim's pod to a Service without pods of its own.
func sliceOfService(ctx context.Context, s *stage) (refusal string, err error) {
	remove, err := s.forgeSlice(ctx, "lure")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	host := "lure-" + s.attacker
	manifest := lure("lure", "selector: {app: nobody}") + "---\n" + apiRule("lure", host, s.attacker, "lure")
	if err := s.cluster.ApplyYAML(ctx, s.attacker, manifest); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitState(ctx, s.attacker, "lure", "Ready", "", exposed); err != nil {
		return "", err
	}
	status, answer, err := s.ask(ctx, host+"."+framework.OwnDomain)
	if err == nil && (status != http.StatusServiceUnavailable || strings.Contains(answer, "confidential")) {
		err = succeeded("the attacker's host answers %d %q", status, answer)
	}
	return fmt.Sprintf("the gateway: %d %s", status, strings.TrimSpace(answer)), err
}

// sliceOfSink publishes an event that matches two Subscriptions: one for the victim's pod, and one for the attacker's
// own.
func sliceOfSink(ctx context.Context, s *stage) (refusal string, err error) {
	const service, stolen, own, eventType = "lured", "stolen", "own", "isolation.slice.v1"
	remove, err := s.forgeSlice(ctx, service)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	wants := func(name, sink string) string {
		return framework.Subscription{Name: name, Namespace: s.attacker, Type: eventType, Sink: sink}.YAML()
	}
	manifest := strings.Join([]string{lure(service, "type: ClusterIP"), wants(stolen, service), wants(own, "own")}, "---\n")
	if err := s.cluster.ApplyYAML(ctx, s.attacker, manifest); err != nil {
		return "", err
	}
	for _, name := range []string{stolen, own} {
		if err := s.cluster.AwaitSubscribed(ctx, s.attacker, name); err != nil {
			return "", err
		}
	}
	if err := s.cluster.Publish(ctx, framework.Event{ID: "slice-" + s.attacker, Type: eventType, Data: "lure"}); err != nil {
		return "", err
	}
	pending := func(ctx context.Context, name string) (uint64, error) {
		balance, err := s.cluster.Balance(ctx, s.attacker, name)
		return balance.Pending, err
	}
	err = framework.Await(ctx, delivered, "the event at the attacker's own Function", func(ctx context.Context) (bool, error) {
		n, err := pending(ctx, own)
		return n == 0, err
	})
	if err != nil {
		return "", err
	}
	n, err := pending(ctx, stolen)
	if err == nil && n == 0 {
		err = succeeded("the victim's pod received the event")
	}
	return "the eventbridge: the event waits for a pod of the Service's namespace", err
}

// forgeSlice adds the victim's pod to a Service of the attacker's. Kubernetes ignores slices with another manager.
func (s *stage) forgeSlice(ctx context.Context, service string) (remove func() error, err error) {
	pods := &corev1.PodList{}
	if err := s.cluster.List(ctx, pods, client.InNamespace(s.victim), client.MatchingLabels{framework.FunctionLabel: "prod-price"}); err != nil {
		return nil, fmt.Errorf("find the victim's pod: %w", err)
	}
	if len(pods.Items) == 0 || pods.Items[0].Status.PodIP == "" {
		return nil, errors.New("the victim has no pod")
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.attacker, Name: "forged-" + service, Labels: map[string]string{
			discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "isolation",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{pods.Items[0].Status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		}},
	}
	if err := s.cluster.Create(ctx, slice); err != nil {
		return nil, fmt.Errorf("forge a slice of Service %s: %w", service, err)
	}
	return func() error { return client.IgnoreNotFound(s.cluster.Delete(context.WithoutCancel(ctx), slice)) }, nil
}

// lure returns a Service that selects no pods.
func lure(name, selects string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s}
spec:
  %s
  ports: [{name: http, port: 80, targetPort: 8080}]
`, name, selects)
}

const (
	exposed = time.Minute // timeout for an APIRule to be served or rejected
	// entrancePort is the gateways' port for hosts of APIRules.
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

// hostOfAnother creates a later APIRule for the victim's host.
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

// domainOfAnother creates an APIRule with a wildcard that covers the victim's host.
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

// exposeVictim exposes the victim's Function publicly, and returns its host.
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

// ask requests a host at a gateway, like an external client.
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

package main

import (
	"context"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/e2e/framework"
)

func standInAttacks() []attack {
	return []attack{
		{"load code into another's stand-in, with a guessed key and with what its pod shows", loadIntoStandIn},
		{"take room for stand-ins without the operator", askForStandIns},
	}
}

// loadIntoStandIn sends the victim's stand-in a Function of the attacker's. The digest of the key is in the pod's environment.
func loadIntoStandIn(ctx context.Context, s *stage) (refusal string, err error) {
	if err := s.cluster.AskForStandIns(ctx, s.victim, nodeJS+"=1"); err != nil {
		return "", err
	}
	waiting, err := s.cluster.AwaitStandIns(ctx, s.victim, 1)
	if err != nil {
		return "", err
	}
	caller, err := s.cluster.StartCaller(ctx, s.attacker)
	if err != nil {
		return "", err
	}
	url := "http://" + waiting[0].Status.PodIP + ":8080/.well-known/rouse/stand-in"
	for _, key := range append([]string{"guessed", ""}, valuesOf(waiting[0].Spec.Containers[0].Env)...) {
		answers, err := caller.Do(ctx, framework.Call{
			URL: url, Method: http.MethodPost, Body: fmt.Sprintf(`{"key": %q, "environment": {"FUNC_NAME": "mine"}}`, key),
		})
		if err != nil {
			return "", err
		}
		if answers[0].Status != http.StatusForbidden {
			return "", succeeded("the stand-in answered %d %q", answers[0].Status, answers[0].Text)
		}
		refusal = fmt.Sprintf("the stand-in: %d %s", answers[0].Status, answers[0].Text)
	}
	return refusal, s.cluster.AskForStandIns(ctx, s.victim, "")
}

func valuesOf(env []corev1.EnvVar) []string {
	var values []string
	for _, variable := range env {
		values = append(values, variable.Value)
	}
	return values
}

// askForStandIns asks whether an administrator of the attacker's namespace may annotate it.
func askForStandIns(ctx context.Context, s *stage) (refusal string, err error) {
	if _, err := s.cluster.Tenant(ctx, s.attacker, "admin"); err != nil {
		return "", err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + s.attacker + ":" + framework.TenantAccount,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: s.attacker, Verb: "patch", Resource: "namespaces", Name: s.attacker,
		},
	}}
	if err := s.cluster.Create(ctx, review); err != nil {
		return "", err
	}
	if review.Status.Allowed {
		return "", succeeded("a tenant may annotate its namespace: %s", review.Status.Reason)
	}
	return "Kubernetes: a tenant may not change its Namespace", nil
}

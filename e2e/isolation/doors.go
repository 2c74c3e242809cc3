package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	doorService = "rouse-doors"
	doorName    = "orders"
)

var doorKind = schema.GroupVersionKind{Group: "rouse.run", Version: "v1alpha1", Kind: "Door"}

func doorAttacks() []attack {
	return []attack{
		{"take the host of another's Door", takeDoor},
		{"send to another's Door past the gateways, with a forged certificate", bypassGateways},
		{"read the keys of all Doors", readDoorKeys},
		{"fill the Secret with the keys of all Doors", fillDoorKeys},
	}
}

// doorAt is a Door whose senders know a key.
func doorAt(name, host, secret, key string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %[3]s}
stringData: {current: %[4]q}
---
apiVersion: rouse.run/v1alpha1
kind: Door
metadata: {name: %[1]s}
spec: {gateway: %[5]s, host: %[2]s, cloudEvents: {}, key: {secretName: %[3]s}}
`, name, host, secret, key, framework.OwnGateway)
}

func (s *stage) awaitDoor(ctx context.Context, namespace, name, reason string) (message string, err error) {
	err = framework.Await(ctx, 2*time.Minute, "Door "+name+" to be "+reason, func(ctx context.Context) (bool, error) {
		conditions, err := s.cluster.Conditions(ctx, namespace, doorKind, name)
		if err != nil {
			return false, err
		}
		ready := conditions["Ready"]
		message = ready.Message
		if ready.Reason != reason {
			return false, fmt.Errorf("is %s: %s", ready.Reason, ready.Message)
		}
		return true, nil
	})
	return message, err
}

func takeDoor(ctx context.Context, s *stage) (string, error) {
	host := "orders-" + s.victim
	if err := s.cluster.ApplyYAML(ctx, s.victim, doorAt(doorName, host, "door-key", "of the victim")); err != nil {
		return "", err
	}
	if _, err := s.awaitDoor(ctx, s.victim, doorName, "Open"); err != nil {
		return "", err
	}
	if err := s.cluster.ApplyYAML(ctx, s.attacker, doorAt(doorName, host, "door-key", "of the attacker")); err != nil {
		return "", err
	}
	message, err := s.awaitDoor(ctx, s.attacker, doorName, "NotExposed")
	if err != nil {
		return "", err
	}
	if err := s.cluster.ApplyYAML(ctx, s.attacker, apiRule("door", host, s.attacker, "own")); err != nil {
		return "", err
	}
	return "the controller: " + message, s.cluster.AwaitState(ctx, s.attacker, "door", "Error", "Host is occupied by another Door of namespace "+s.victim, exposed)
}

// bypassGateways knows everything but a gateway's token.
func bypassGateways(ctx context.Context, s *stage) (string, error) {
	token, err := s.cluster.Tenant(ctx, s.attacker, "admin", "rouse-doors")
	if err != nil {
		return "", err
	}
	var answer string
	for _, given := range []string{"", "guess", token} {
		header := http.Header{
			"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Type": {"stolen.v1"}, "Ce-Source": {doorName},
			"Rouse-Door": {s.victim + "/" + doorName}, "Rouse-Door-Sender": {"127.0.0.1"}, "Rouse-Client-Certificate": {"AAAA"}, "Rouse-Door-Token": {given},
		}
		status, text, err := s.cluster.Request(ctx, http.MethodPost, framework.System, doorService, "", header, []byte(`{}`))
		if err != nil {
			return "", err
		}
		if status != http.StatusNotFound {
			return "", succeeded("the eventbridge answers %d %q", status, text)
		}
		answer = text
	}
	return "the eventbridge: " + strings.TrimSpace(answer), nil
}

func readDoorKeys(ctx context.Context, s *stage) (string, error) {
	token, err := s.cluster.Tenant(ctx, s.attacker, "admin")
	if err != nil {
		return "", err
	}
	config := rest.AnonymousClientConfig(s.cluster.Config)
	config.BearerToken = token
	tenant, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("make a client of the tenant: %w", err)
	}
	_, err = tenant.CoreV1().Secrets(framework.System).Get(ctx, doorService, metav1.GetOptions{})
	if err == nil {
		return "", succeeded("the tenant reads Secret %s", doorService)
	}
	if !apierrors.IsForbidden(err) {
		return "", err
	}
	return "the API server: " + err.Error(), nil
}

// fillDoorKeys asks for more room than the Secret has, with as many Doors and as long keys as there may be.
func fillDoorKeys(ctx context.Context, s *stage) (string, error) {
	const doors, longest = 60, 4096
	manifest := framework.Secret("long", nil, map[string]string{"current": strings.Repeat("x", longest), "previous": strings.Repeat("y", longest)})
	var all strings.Builder
	all.WriteString(manifest)
	for i := range doors {
		fmt.Fprintf(&all, "---\napiVersion: rouse.run/v1alpha1\nkind: Door\nmetadata: {name: fill-%02d}\nspec: {gateway: %s, host: fill-%s, path: /%02d, cloudEvents: {}, key: {secretName: long}}\n",
			i, framework.OwnGateway, s.attacker, i)
	}
	if err := s.cluster.ApplyYAML(ctx, s.attacker, all.String()); err != nil {
		return "", err
	}
	message, err := s.awaitDoor(ctx, s.attacker, fmt.Sprintf("fill-%02d", doors-1), "ShareExceeded")
	if err != nil {
		return "", err
	}
	if err := s.cluster.ApplyYAML(ctx, s.victim, doorAt("second", "second-"+s.victim, "second-key", "of the victim")); err != nil {
		return "", err
	}
	if _, err := s.awaitDoor(ctx, s.victim, "second", "Open"); err != nil {
		return "", succeeded("the victim's Door has no room for its key: %v", err)
	}
	ring := &corev1.Secret{}
	if err := s.cluster.Get(ctx, client.ObjectKey{Namespace: framework.System, Name: doorService}, ring); err != nil {
		return "", err
	}
	return fmt.Sprintf("the controller: %s (%d keys)", message, len(ring.Data)), nil
}

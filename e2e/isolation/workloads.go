package main

import (
	"context"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

func workloadAttacks() []attack {
	return []attack{{"put another's workload to sleep by a Service of one's own", putToSleep}}
}

// putToSleep names a Deployment that only the victim has, alone and with the victim's namespace.
func putToSleep(ctx context.Context, s *stage) (refusal string, err error) {
	const name = "worker"
	service := func(target string) string {
		return `
apiVersion: v1
kind: Service
metadata: {name: ` + name + `, annotations: {rouse.run/scale-target: "` + target + `"}}
spec: {selector: {app: worker}, ports: [{port: 80}]}
`
	}
	if err := s.cluster.ApplyYAML(ctx, s.victim, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: `+name+`}
spec:
  paused: true
  replicas: 1
  selector: {matchLabels: {app: worker}}
  template: {metadata: {labels: {app: worker}}, spec: {containers: [{name: worker, image: none}]}}
`); err != nil {
		return "", err
	}
	for target, want := range map[string]string{
		"deployment/" + name:                  "does not exist in namespace " + s.attacker,
		"deployment/" + s.victim + "/" + name: "must be deployment/NAME",
	} {
		if err := s.cluster.ApplyYAML(ctx, s.attacker, service(target)); err != nil {
			return "", err
		}
		err := framework.Await(ctx, time.Minute, "the controller to report "+want, func(ctx context.Context) (bool, error) {
			refusal, err = noteAbout(ctx, s, name, want)
			return refusal != "", err
		})
		if err != nil {
			return "", err
		}
	}
	for _, namespace := range []string{s.attacker, s.victim} {
		scaled := &metav1.PartialObjectMetadataList{}
		scaled.SetGroupVersionKind(framework.ScaledObjectGVK)
		if err := s.cluster.List(ctx, scaled, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		for i := range scaled.Items {
			if scaled.Items[i].Name == name {
				return "", succeeded("ScaledObject %s/%s was made", namespace, name)
			}
		}
	}
	return refusal, nil
}

// noteAbout returns the note of an Event about the attacker's Service that has a text, empty if there is none.
func noteAbout(ctx context.Context, s *stage, service, text string) (string, error) {
	events := &eventsv1.EventList{}
	if err := s.cluster.List(ctx, events, client.InNamespace(s.attacker)); err != nil {
		return "", err
	}
	for _, event := range events.Items {
		if event.Regarding.Kind == "Service" && event.Regarding.Name == service && strings.Contains(event.Note, text) {
			return event.Note, nil
		}
	}
	return "", nil
}

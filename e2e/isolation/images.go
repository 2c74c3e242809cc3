package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

func keyOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func imageAttacks() []attack {
	return []attack{
		{"get another's private packages by a Function whose joined name is the same", sameName},
		{"run an image by pushing it under the tag of a build", pushTag},
		{"run another's image by naming it in one's own status", forgeStatus},
	}
}

// sameName asks for what the victim built, without the password.
func sameName(ctx context.Context, s *stage) (string, error) {
	function := framework.Function{Name: "price", Runtime: nodeJS, Dependencies: privateDependencies, Source: privateSource}
	npmrc := framework.Secret("serverless-package-registry-config", nil, map[string]string{".npmrc": s.sources.NPMRCWithoutPassword()})
	if err := s.cluster.ApplyYAML(ctx, s.attacker, npmrc+"---\n"+function.YAML()); err != nil {
		return "", err
	}
	refusal, err := s.refusal(ctx, s.attacker, "price")
	if answer, unanswered := s.cluster.Answer(ctx, s.attacker, "price"); unanswered == nil {
		return "", succeeded("it answers %q", answer)
	}
	if err == nil && !strings.Contains(refusal, "refuses access") {
		err = fmt.Errorf("the build failed for another reason: %s", refusal)
	}
	return "a build of its own: the package registry refuses access", err
}

// pushTag is the attack of a client with the push credentials of the namespace itself.
func pushTag(ctx context.Context, s *stage) (string, error) {
	account, err := s.login(ctx, s.victim, "prod-price")
	if err != nil {
		return "", err
	}
	tag, err := s.status(ctx, s.victim, "prod-price", "build", "tag")
	if err != nil {
		return "", err
	}
	repository, digest := split(s.victimImage)
	path := "/v2/" + repository + "/manifests/"
	_, manifest, err := s.registry.do(ctx, account, http.MethodGet, path+digest, nil)
	if err != nil {
		return "", err
	}
	evil := []byte(strings.Replace(string(manifest), "{", `{"annotations":{"evil":"yes"},`, 1))
	if status, answer, err := s.registry.do(ctx, account, http.MethodPut, path+tag, evil); err != nil || status != http.StatusCreated {
		return "", fmt.Errorf("push: %d %s %w", status, answer, err)
	}
	restart := map[string]string{"rouse.run/check-git": "attack"}
	if err := s.cluster.Annotate(ctx, s.victim, "prod-price", restart); err != nil {
		return "", err
	}
	if err := s.deletePods(ctx, s.victim, "prod-price"); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitAnswer(ctx, s.victim, "prod-price", "confidential", built); err != nil {
		return "", err
	}
	return "the recorded digest: " + digest[:19], s.requireImage(ctx, digest)
}

// deletePods has the kubelet start them again.
func (s *stage) deletePods(ctx context.Context, namespace, function string) error {
	return s.cluster.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{framework.FunctionLabel: function})
}

// requireImage makes sure that the pods of the victim run the digest and no other.
func (s *stage) requireImage(ctx context.Context, digest string) error {
	pods := &corev1.PodList{}
	if err := s.cluster.List(ctx, pods, client.InNamespace(s.victim), client.MatchingLabels{framework.FunctionLabel: "prod-price"}); err != nil {
		return err
	}
	for i := range pods.Items {
		for _, container := range pods.Items[i].Spec.Containers {
			if !strings.HasSuffix(container.Image, "@"+digest) {
				return succeeded("pod %s runs %s", pods.Items[i].Name, container.Image)
			}
		}
	}
	return nil
}

// forgeStatus is of a tenant who may write the status of Functions. The image has to be of the Function's own
// repository, or its pods do not run it.
func forgeStatus(ctx context.Context, s *stage) (string, error) {
	function, err := s.cluster.Function(ctx, s.attacker, "own")
	if err != nil {
		return "", err
	}
	own, err := s.imageOf(ctx, s.attacker, "own")
	if err != nil {
		return "", err
	}
	patch := fmt.Appendf(nil, `{"status": {"build": {"image": %q}}}`, s.victimImage)
	if err := s.cluster.Status().Patch(ctx, function, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return "", err
	}
	err = framework.Await(ctx, 30*time.Second, "the status to be true again", func(ctx context.Context) (bool, error) {
		image, err := s.imageOf(ctx, s.attacker, "own")
		return image == own, err
	})
	if err != nil {
		return "", succeeded("%v", err)
	}
	return "the controller, which built it again and wrote the truth", nil
}

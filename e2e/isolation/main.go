// Command isolation plays attacks of a tenant, or of the author of a package or a repository, on another tenant and on
// the installation, on the cluster that KUBECONFIG names. It prints the defence against each, and fails when an attack
// succeeds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
)

// attack returns the defence that stopped it, or an error: errSucceeded, or one that prevented the attempt.
type attack struct {
	name string
	play func(ctx context.Context, s *stage) (refusal string, err error)
}

var errSucceeded = errors.New("THE ATTACK SUCCEEDED")

func succeeded(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSucceeded, fmt.Sprintf(format, args...))
}

func main() { framework.Main("isolation", run) }

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	fmt.Println("setting up two tenants, and waiting for what the victim builds ...")
	s, err := newStage(ctx, cluster)
	if err != nil {
		return errors.Join(err, s.end(ctx))
	}
	attacks := allAttacks()
	refused, failure := playAll(ctx, s, attacks)
	if failure != nil {
		for _, namespace := range []string{s.victim, s.attacker} {
			cluster.Dump(context.WithoutCancel(ctx), os.Stdout, namespace)
		}
	}
	if err := errors.Join(failure, s.end(ctx)); err != nil {
		return err
	}
	fmt.Printf("isolation ok: attacks=%d refused=%d\n", len(attacks), refused)
	return nil
}

func playAll(ctx context.Context, s *stage, attacks []attack) (refused int, failure error) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ATTACK\tREFUSED BY")
	for _, each := range attacks {
		refusal, err := each.play(ctx, s)
		if err != nil {
			failure = errors.Join(failure, fmt.Errorf("%s: %w", each.name, err))
			refusal = "-  " + err.Error()
		} else {
			refused++
		}
		_, _ = fmt.Fprintf(table, "%s\t%.140s\n", each.name, refusal)
	}
	_ = table.Flush()
	return refused, failure
}

func allAttacks() []attack {
	return slices.Concat(imageAttacks(), registryAttacks(), buildAttacks(), controllerAttacks(), apiRuleAttacks(), sliceAttacks(), standInAttacks(), workloadAttacks(), scheduleAttacks(), doorAttacks(), adminAttacks())
}

// built is the timeout for a build and the start of its pod.
const built = 2 * time.Minute

const nodeJS = "nodejs22"

// privateSource is the source of the victim's Function, which uses a package that needs a password.
const (
	privateSource       = "module.exports.main = () => require('@shop/greeting')"
	privateDependencies = `{"dependencies":{"@shop/greeting":"1.0.0"}}`
)

// stage contains two tenants. Namespace and Function of the victim and of the attacker are equal when joined by a
// hyphen: x and prod-price, x-prod and price.
type stage struct {
	cluster          *framework.Cluster
	victim, attacker string
	sources          *sources.Server
	registry         *registry
	admin            string // the URL of an admin API
	// victimImage is the image of the victim's Function.
	victimImage string
}

func newStage(ctx context.Context, cluster *framework.Cluster) (s *stage, err error) {
	s = &stage{cluster: cluster}
	if s.victim, err = cluster.CreateNamespace(ctx, "isolation"); err != nil {
		return s, err
	}
	s.attacker = s.victim + "-prod"
	namespace := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`, s.attacker)
	if err := cluster.ApplyYAML(ctx, "", namespace); err != nil {
		return s, err
	}
	if s.sources, err = sources.Start(ctx, cluster, s.victim); err != nil {
		return s, err
	}
	if err := s.sources.PublishNPM(ctx, "greeting", map[string]string{"index.js": "module.exports = 'confidential'"}); err != nil {
		return s, err
	}
	victim := framework.Function{Name: "prod-price", Runtime: nodeJS, Dependencies: privateDependencies, Source: privateSource}
	if err := cluster.ApplyYAML(ctx, s.victim, s.packageSecret()+"---\n"+victim.YAML()); err != nil {
		return s, err
	}
	if err := cluster.AwaitAnswer(ctx, s.victim, "prod-price", "confidential", built); err != nil {
		return s, err
	}
	if s.victimImage, err = s.imageOf(ctx, s.victim, "prod-price"); err != nil {
		return s, err
	}
	// The attacker has an account of its own, like every tenant with a Function.
	own := framework.Function{
		Name: "own", Runtime: nodeJS, Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`, Source: "module.exports.main = () => 'mine'",
	}
	if err := cluster.ApplyYAML(ctx, s.attacker, own.YAML()); err != nil {
		return s, err
	}
	if err := cluster.AwaitAnswer(ctx, s.attacker, "own", "mine", built); err != nil {
		return s, err
	}
	if s.registry, err = openRegistry(ctx, cluster); err != nil {
		return s, err
	}
	admins, err := cluster.AdminAPIs(ctx)
	if err != nil {
		return s, err
	}
	s.admin = admins[0]
	return s, nil
}

func (s *stage) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	var problems []error
	for _, namespace := range []string{s.attacker, s.victim} {
		if namespace != "" {
			problems = append(problems, s.cluster.DeleteNamespace(ctx, namespace))
		}
	}
	return errors.Join(problems...)
}

// packageSecret returns the Secret with the password of the private packages.
func (s *stage) packageSecret() string {
	return framework.Secret("serverless-package-registry-config", nil, map[string]string{".npmrc": s.sources.NPMRC(), "pip.conf": s.sources.PipConf()})
}

// imageOf returns the image that was built for a Function.
func (s *stage) imageOf(ctx context.Context, namespace, name string) (string, error) {
	return s.status(ctx, namespace, name, "build", "image")
}

func (s *stage) status(ctx context.Context, namespace, name string, path ...string) (string, error) {
	function, err := s.cluster.Function(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	value, _, err := unstructured.NestedString(function.Object, append([]string{"status"}, path...)...)
	if err == nil && value == "" {
		err = fmt.Errorf("the status of %s/%s has no %s", namespace, name, strings.Join(path, "."))
	}
	return value, err
}

// login is the account for pulling a Function's images.
type login struct{ Username, Password string }

func (s *stage) login(ctx context.Context, namespace, function string) (login, error) {
	secret := &corev1.Secret{}
	if err := s.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "rouse-registry-" + function}, secret); err != nil {
		return login{}, err
	}
	var config struct{ Auths map[string]login }
	if err := json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config); err != nil {
		return login{}, err
	}
	for _, found := range config.Auths {
		return found, nil
	}
	return login{}, fmt.Errorf("%s/%s has no account", namespace, secret.Name)
}

// refusal returns the condition BuildReady of a Function that does not get its image.
func (s *stage) refusal(ctx context.Context, namespace, function string) (string, error) {
	got, err := s.cluster.AwaitMessage(ctx, namespace, function, "BuildReady", "False", built)
	return got.Message, err
}

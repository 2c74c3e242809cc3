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
	"github.com/rouse-run/rouse/e2e/framework/sources"
)

// loot lists files that scripts of packages look for, in their own container and in the others.
const loot = `["/rouse/registry/config.json", "/rouse/registry/..data/config.json", "/rouse/git/username", "/rouse/git/password", "/rouse/git/key",
	"/var/run/secrets/kubernetes.io/serviceaccount/token"]`

// The scripts store what they find in the package, so that the Function can return it, and a link to files that they
// cannot read.
const (
	evilPostinstall = `const fs = require('node:fs');
const found = [];
for (const path of ` + loot + `) { try { fs.readFileSync(path); found.push(path); } catch {} }
for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
  try { if (/PASSWORD|TOKEN|_auth/i.test(fs.readFileSync('/proc/' + pid + '/environ', 'utf8'))) found.push('environ of ' + pid); } catch {}
  for (const path of ` + loot + `) { try { fs.readFileSync('/proc/' + pid + '/root' + path); found.push(pid + path); } catch {} }
}
fs.writeFileSync('found.json', JSON.stringify(found));
fs.symlinkSync('/rouse/registry/config.json', 'link');
try { fs.linkSync('/rouse/registry/config.json', 'hard'); } catch {}
`
	evilHandler = `const fs = require('node:fs');
const dir = require('node:path').dirname(require.resolve('@shop/evil'));
module.exports.main = () => {
  const found = JSON.parse(fs.readFileSync(dir + '/found.json'));
  for (const name of ['link', 'hard']) { try { fs.readFileSync(dir + '/' + name); found.push(name); } catch {} }
  return 'found: ' + found.join(' ');
}`
	evilSetup = `import json, os
from setuptools import setup
found = []
for path in ` + loot + `:
    try:
        open(path).read()
        found.append(path)
    except OSError:
        pass
os.makedirs("evil_loot", exist_ok=True)
open("evil_loot/__init__.py", "w").write("FOUND = " + json.dumps(found))
setup(name="evil-loot", version="1.0.0", packages=["evil_loot"])
`
)

func buildAttacks() []attack {
	return []attack{
		{"read credentials in the postinstall of an npm package", evilNPM},
		{"read credentials in the setup.py of a Python package", evilPython},
		{"have main of package.json quoted from outside of the source", quoted("main", nodeJS, map[string]string{
			"package.json": `{"main": "../../packages/.npmrc"}`,
		})},
		{"have a linked handler quoted from outside of the source", quoted("link", nodeJS, map[string]string{
			"handler.js": sources.Link("../../packages/.npmrc"),
		})},
		{"have an absolute link quoted", quoted("absolute", nodeJS, map[string]string{"handler.js": sources.Link("/rouse/packages/.npmrc")})},
		{"have requirements quote the settings of pip", quoted("requirements", "python312", map[string]string{
			"handler.py": "def main(event, context):\n    return 1\n", "requirements.txt": "-r /rouse/packages/pip.conf\n",
		})},
	}
}

// evilNPM is built with the victim's Secrets, which the author of a package tries to steal.
func evilNPM(ctx context.Context, s *stage) (string, error) {
	err := s.sources.PublishNPM(ctx, "evil", map[string]string{"index.js": "", sources.InstallScript: evilPostinstall})
	if err != nil {
		return "", err
	}
	return s.findNothing(ctx, framework.Function{
		Name: "evil-npm", Runtime: nodeJS, Dependencies: `{"dependencies":{"@shop/evil":"1.0.0"}}`, Source: evilHandler,
	})
}

func evilPython(ctx context.Context, s *stage) (string, error) {
	if err := s.sources.PublishSource(ctx, "evil_loot", evilSetup); err != nil {
		return "", err
	}
	return s.findNothing(ctx, framework.Function{
		Name: "evil-python", Runtime: "python312", Dependencies: "evil-loot==1.0.0\n",
		Source: "import evil_loot\ndef main(event, context):\n    return 'found: ' + ' '.join(evil_loot.FOUND)\n",
	})
}

func (s *stage) findNothing(ctx context.Context, function framework.Function) (string, error) {
	if err := s.cluster.ApplyYAML(ctx, s.victim, function.YAML()); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitCondition(ctx, s.victim, framework.FunctionGVK, function.Name, "BuildReady", "True", built); err != nil {
		return "", err
	}
	if err := s.cluster.AwaitAnswer(ctx, s.victim, function.Name, "found: ", built); err != nil {
		if answer, _ := s.cluster.Answer(ctx, s.victim, function.Name); strings.HasPrefix(answer, "found: ") {
			return "", succeeded("%s", answer)
		}
		return "", err
	}
	return "its container, which has none", nil
}

// quoted builds a repository that refers the builder to the password of the package registry.
func quoted(name, runtime string, files map[string]string) func(context.Context, *stage) (string, error) {
	return func(ctx context.Context, s *stage) (string, error) {
		repository, err := s.sources.Repository(ctx, name, false)
		if err != nil {
			return "", err
		}
		if _, err := repository.Commit(ctx, "main", files); err != nil {
			return "", err
		}
		function := framework.Function{
			Name: "quoted-" + name, Runtime: runtime, Git: &framework.Git{URL: repository.HTTP(), Reference: "main", BaseDir: "/"},
		}
		if err := s.cluster.ApplyYAML(ctx, s.victim, function.YAML()); err != nil {
			return "", err
		}
		refusal, err := s.refusal(ctx, s.victim, function.Name)
		if err != nil {
			return "", err
		}
		for _, secret := range s.secrets() {
			if strings.Contains(refusal, secret) {
				return "", succeeded("the condition says %q", refusal)
			}
		}
		_, reason, _ := strings.Cut(refusal, "failed: ")
		return "the builder: " + strings.ReplaceAll(reason, "\n", " "), nil
	}
}

// secrets returns the encodings of the password.
func (s *stage) secrets() []string {
	_, encoded, _ := strings.Cut(s.sources.NPMRC(), "_auth=")
	return []string{sources.Password, strings.TrimSpace(encoded)}
}

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

// sameName requests the victim's build, without the password.
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

// pushTag uses the push credentials of the namespace itself.
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

// deletePods makes Kubernetes replace the pods.
func (s *stage) deletePods(ctx context.Context, namespace, function string) error {
	return s.cluster.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{framework.FunctionLabel: function})
}

// requireImage checks that all pods of the victim run the digest.
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

// forgeStatus acts as a tenant who may write the status of Functions. The image has to be in the Function's own
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

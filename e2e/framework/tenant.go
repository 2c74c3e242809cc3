package framework

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminPort is the port of the bridges' admin API.
const adminPort = 9091

// TenantAccount is the ServiceAccount of a tenant.
const TenantAccount = "tenant"

// Tenant creates a user of a namespace as a ServiceAccount, with one of Kubernetes' roles there, and returns a token.
// Without audiences the token is for the API server.
func (c *Cluster) Tenant(ctx context.Context, namespace, role string, audiences ...string) (token string, err error) {
	const name = TenantAccount
	manifest := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": %q}}
---
{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "%[1]s-%[2]s"},
 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %[2]q},
 "subjects": [{"kind": "ServiceAccount", "name": %[1]q, "namespace": %[3]q}]}
`, name, role, namespace)
	if err := c.ApplyYAML(ctx, namespace, manifest); err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	made, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make a token of %s/%s: %w", namespace, name, err)
	}
	return made.Status.Token, nil
}

// WriteKubeconfig writes a kubeconfig that logs in with a token into a folder.
func (c *Cluster) WriteKubeconfig(folder, namespace, token string) (path string, err error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData, CertificateAuthority: c.Config.CAFile}
	config.AuthInfos["e2e"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e", Namespace: namespace}
	config.CurrentContext = "e2e"
	path = filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return path, nil
}

// AdminAPIs returns the URLs of all bridges' admin APIs on loopback until ctx ends, as a tenant without permissions in
// the system's namespace would reach them through an Ingress.
func (c *Cluster) AdminAPIs(ctx context.Context) (urls []string, err error) {
	pods, err := c.PodsOf(ctx, "eventbridge")
	if err != nil {
		return nil, err
	}
	for i := range pods {
		port, err := c.Forward(ctx, &pods[i], adminPort)
		if err != nil {
			return nil, fmt.Errorf("reach an admin API: %w", err)
		}
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", port))
	}
	return urls, nil
}

// bindingRuntime is the folder of the runtime of servicebinding.io, relative to the features.
const bindingRuntime = "../bindings"

// BindingRuntime is a runtime of servicebinding.io for one namespace.
type BindingRuntime struct {
	// Hooked is true when the API server reaches its webhook.
	Hooked bool
}

// StartBindingRuntime compiles the runtime into a folder and runs it until ctx ends. With webhook it also projects at
// admission, if the API server can reach this machine.
func (c *Cluster) StartBindingRuntime(ctx context.Context, folder, namespace string, webhook bool) (*BindingRuntime, error) {
	program := filepath.Join(folder, "bindings")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = bindingRuntime
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the runtime: %w: %s", err, out)
	}
	args := []string{"-namespace", namespace}
	if webhook {
		args = append(args, "-webhook")
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Stderr = bindingRuntime, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 15 * time.Second
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("read the runtime's output: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the runtime: %w", err)
	}
	runtime, lines := &BindingRuntime{}, bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Println(namespace, lines.Text())
		if strings.Contains(lines.Text(), "webhook reached: true") {
			runtime.Hooked = true
		}
		if strings.Contains(lines.Text(), "bindings: ready") {
			go func() {
				for lines.Scan() {
					fmt.Println(namespace, lines.Text())
				}
				_ = command.Wait()
			}()
			return runtime, nil
		}
	}
	return nil, fmt.Errorf("the runtime ended: %w", command.Wait())
}

const issuerName = "issuer"

// Issuer signs tokens, and its Function publishes the key to verify them.
type Issuer struct {
	// URI is the URL of the key.
	URI string
	key ed25519.PrivateKey
}

// StartIssuer creates an Issuer in a namespace, and waits until its Function runs.
func (c *Cluster) StartIssuer(ctx context.Context, namespace string) (*Issuer, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	keys := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","use":"sig","alg":"EdDSA","kid":"e2e","x":%q}]}`,
		base64.RawURLEncoding.EncodeToString(public))
	source := "module.exports.main = function () { return " + keys + " }"
	if err := c.ApplyYAML(ctx, namespace, Function{Name: issuerName, Runtime: nodeRuntime, Source: source}.YAML()); err != nil {
		return nil, err
	}
	uri := fmt.Sprintf("http://%s.%s.svc.cluster.local/keys", issuerName, namespace)
	return &Issuer{URI: uri, key: private}, c.AwaitCondition(ctx, namespace, FunctionGVK, issuerName, "Running", "True", 2*time.Minute)
}

// Token returns a token that is valid for an hour, with the URI as issuer, for a subject with scopes.
func (i *Issuer) Token(subject string, scopes ...string) (string, error) {
	header, err := json.Marshal(map[string]any{"alg": "EdDSA", "kid": "e2e", "typ": "JWT"})
	if err != nil {
		return "", fmt.Errorf("encode a token's header: %w", err)
	}
	claims, err := json.Marshal(map[string]any{
		"iss": i.URI, "sub": subject, "scp": scopes, "exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("encode a token's claims: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(header) + "." + encode(claims)
	return signed + "." + encode(ed25519.Sign(i.key, []byte(signed))), nil
}

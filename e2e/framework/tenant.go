package framework

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminPort is where bridges serve the admin API.
const adminPort = 9091

// Tenant makes a user of a namespace by a ServiceAccount, with one of Kubernetes' roles there, and returns a token. Without audiences
// that is one for the API server.
func (c *Cluster) Tenant(ctx context.Context, namespace, role string, audiences ...string) (token string, err error) {
	const name = "tenant"
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

// WriteKubeconfig writes one into a folder that logs in with a token.
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

// AdminAPIs are the URLs of all bridges' admin APIs on loopback until ctx ends: as a tenant without rights in the system's namespace
// gets at them by an Ingress.
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

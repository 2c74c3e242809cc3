package target

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/daemon"
)

const (
	// adminAccount is the ServiceAccount of the chart that may do all.
	adminAccount = "rouse-admin"
	// tokenSeconds is the least that an API server grants.
	tokenSeconds = 600
)

func serviceAccountsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
}

// login is the token that the admin API gets: that of the kubeconfig. A client certificate cannot be sent to anybody but the API
// server, and an impersonation is no property of a token: then, and where the user names a ServiceAccount, it is a token of one,
// which is good for the admin API alone.
func (c *cluster) login(ctx context.Context) (string, error) {
	if c.options.ServiceAccount != "" {
		return c.accountToken(ctx, c.options.ServiceAccount)
	}
	if c.config.Impersonate.UserName == "" {
		token, err := tokenOf(ctx, c.config)
		if err != nil {
			return "", exit.Errorf(exit.Unreachable, "log in to %s: %w", c.name, err)
		}
		if token != "" {
			return token, nil
		}
	}
	return c.accountToken(ctx, c.options.RouseNamespace+"/"+adminAccount)
}

// tokenOf is the token by which a kubeconfig logs in, empty if it does by other means. What finds it out is what puts it into requests:
// a token, a file of one, a program, or another plugin.
func tokenOf(ctx context.Context, config *rest.Config) (string, error) {
	wrapped, err := rest.HTTPWrappersForConfig(config, unsent{})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://unasked.invalid/", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := wrapped.RoundTrip(request)
	if err != nil {
		return "", withoutURL(err)
	}
	_ = response.Body.Close()
	token, _ := daemon.Bearer(response.Request)
	return token, nil
}

// unsent answers with the request as it would have been sent.
type unsent struct{}

// RoundTrip implements http.RoundTripper.
func (unsent) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r,
	}, nil
}

// accountToken makes a token of a ServiceAccount, namespace/name.
func (c *cluster) accountToken(ctx context.Context, account string) (string, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", exit.Errorf(exit.Usage, "--service-account %q: use NAMESPACE/NAME", account)
	}
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"audiences": []any{identity.Audience}, "expirationSeconds": int64(tokenSeconds)},
	}}
	answer, err := c.objects.Resource(serviceAccountsResource()).Namespace(namespace).Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", c.explainLogin(err, namespace, name)
	}
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err != nil || token == "" {
		return "", fmt.Errorf("make a token of ServiceAccount %s: the answer has none", account)
	}
	return token, nil
}

func (c *cluster) explainLogin(err error, namespace, name string) error {
	const remedy = "name a ServiceAccount of yours with --service-account NAMESPACE/NAME, or use a kubeconfig that logs in with a token"
	why := ""
	if c.options.ServiceAccount == "" {
		why = "your kubeconfig has no token that the admin API could be shown, and "
	}
	switch {
	case apierrors.IsForbidden(err):
		return exit.Errorf(exit.Unreachable, "%syou may not create serviceaccounts/token for %s/%s in %s: %s; "+
			"kubectl auth can-i create serviceaccounts/%s --subresource=token -n %s says whether you may",
			why, namespace, name, c.name, remedy, name, namespace)
	case apierrors.IsNotFound(err):
		return exit.Errorf(exit.Unreachable, "%sthere is no ServiceAccount %s/%s in %s: %s", why, namespace, name, c.name, remedy)
	}
	return c.explain(err, "create", "serviceaccounts/token", namespace)
}

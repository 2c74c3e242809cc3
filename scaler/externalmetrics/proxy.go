package externalmetrics

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// The ConfigMap in which kube-apiserver publishes how its proxy identifies itself.
const (
	authenticationNamespace = metav1.NamespaceSystem
	authenticationConfigMap = "extension-apiserver-authentication"
	authorityKey            = "requestheader-client-ca-file"
	namesKey                = "requestheader-allowed-names"
)

// proxy knows by which certificates kube-apiserver's proxy identifies itself.
type proxy struct {
	names     *headerrequest.RequestHeaderAuthRequestController
	authority *dynamiccertificates.ConfigMapCAController
	verifier  authenticator.Request
}

func newProxy(client kubernetes.Interface) (*proxy, error) {
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"kube-apiserver's proxy", authenticationNamespace, authenticationConfigMap, authorityKey, client)
	if err != nil {
		return nil, fmt.Errorf("follow ConfigMap %s/%s: %w", authenticationNamespace, authenticationConfigMap, err)
	}
	names := headerrequest.NewRequestHeaderAuthRequestController(
		authenticationConfigMap, authenticationNamespace, client, "requestheader-username-headers", "requestheader-uid-headers",
		"requestheader-group-headers", "requestheader-extra-headers-prefix", namesKey)
	passed := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, true, nil })
	verifier := x509request.NewDynamicCAVerifier(authority.VerifyOptions, passed, headerrequest.StringSliceProviderFunc(names.AllowedClientNames))
	return &proxy{names, authority, verifier}, nil
}

// follow keeps that current until ctx ends. Nobody is the proxy before. The names come before the authority: without names, each certificate
// of the authority would do.
func (p *proxy) follow(ctx context.Context) error {
	if err := p.names.RunOnce(ctx); err != nil {
		return fmt.Errorf("read ConfigMap %s/%s, for which the role extension-apiserver-authentication-reader is needed: %w",
			authenticationNamespace, authenticationConfigMap, err)
	}
	go p.names.Run(ctx, 1)
	p.authority.Run(ctx, 1)
	return nil
}

// only passes requests of the proxy on.
func (p *proxy) only(next http.Handler, log logr.Logger) http.Handler {
	h := &handler{log: log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, passed, err := p.verifier.AuthenticateRequest(r)
		if err != nil || !passed {
			reason := "no certificate of the authority in ConfigMap " + authenticationNamespace + "/" + authenticationConfigMap
			if err != nil {
				reason = err.Error()
			}
			log.V(1).Info("request refused", "remote", r.RemoteAddr, "reason", reason)
			h.refuse(w, apierrors.NewUnauthorized("only kube-apiserver's proxy gets an answer: ask by the API server of the cluster"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

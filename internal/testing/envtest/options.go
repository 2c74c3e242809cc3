package envtest

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// Option changes what a Cluster has.
type Option func(*options)

type options struct {
	keda        bool
	gatewayAPI  bool
	addToScheme []func(*runtime.Scheme) error

	apiServerFlags, etcdFlags map[string]string
}

// WithKEDA also installs the CRD of KEDA's ScaledObject.
func WithKEDA() Option {
	return func(o *options) { o.keda = true }
}

// WithGatewayAPI also installs the CRDs of Gateway API's Gateways, HTTPRoutes and ReferenceGrants.
func WithGatewayAPI() Option {
	return func(o *options) { o.gatewayAPI = true }
}

// WithScheme teaches the client more types. It knows those of Kubernetes, of
// apiextensions.k8s.io and of this project.
func WithScheme(add func(*runtime.Scheme) error) Option {
	return func(o *options) { o.addToScheme = append(o.addToScheme, add) }
}

// WithFlags sets flags of kube-apiserver and etcd, by their names without dashes, in place of envtest's.
func WithFlags(apiServer, etcd map[string]string) Option {
	return func(o *options) { o.apiServerFlags, o.etcdFlags = apiServer, etcd }
}

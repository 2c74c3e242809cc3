// Package envoygateway installs Envoy Gateway from the chart of its own Go module, with the CRDs of Gateway API's: a
// GatewayClass, and the Gateway that Kyma's APIRules name. The proxy is the Envoy of component.Envoy, so that no image comes
// from a registry.
package envoygateway

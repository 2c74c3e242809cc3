// Package gateway shows on a real cluster how requests come from outside, through an implementation of Gateway API, to what
// APIRules expose. Build tag e2e; KUBECONFIG names the cluster, which needs the Gateway kyma-system/kyma-gateway. Run it with
// "make e2e-gateway".
package gateway

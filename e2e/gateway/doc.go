// Package gateway tests on a real cluster how external requests reach the Services that APIRules expose, through an
// implementation of Gateway API. Build tag e2e; KUBECONFIG names the cluster, which needs the Gateway
// kyma-system/kyma-gateway. Run it with "make e2e-gateway".
package gateway

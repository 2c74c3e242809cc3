// Package serverless shows on a real cluster how a Serverless brings the Function controller, changes its settings while Functions
// serve, has it repaired, and takes it away. Build tag e2e; KUBECONFIG names the cluster. Run it with "make e2e-serverless".
package serverless

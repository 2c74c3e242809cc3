// Package serverless tests on a real cluster that a Serverless installs the Function controller, changes its settings
// while Functions serve, repairs it, and removes it. Build tag e2e; KUBECONFIG names the cluster. Run it with "make
// e2e-serverless".
package serverless

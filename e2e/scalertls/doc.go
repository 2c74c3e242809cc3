// Package scalertls tests on a real cluster that KEDA asks the scaler over mutual TLS, that nobody else does, and that
// certificates rotate while streams go on. Build tag e2e; KUBECONFIG names the cluster. Run it with "make e2e-tls".
package scalertls

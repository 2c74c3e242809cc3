// Package fips tests on a real cluster that a release in FIPS 140-3's modes builds Functions, wakes them by events, and
// rejects unsupported configurations. Build tag e2e; KUBECONFIG names the cluster. Run it with "make e2e-fips".
package fips

// Package migrate tests on a real cluster that Functions, Subscriptions, APIRules and publishers move from Kyma to Rouse and back with
// "rouse migrate", while Functions and hosts are called, 2,000 events wait and others are published at Kyma's address: no event is lost
// and no request fails. The command is killed after each change and started again. Kyma's objects are laid out as Kyma leaves them; the
// pods of its Functions are those of the release, which serve the same contract, and proxies stand for its publisher and for Istio's
// gateway. Build tag e2e; KUBECONFIG names the cluster. Run it with "make e2e-migrate".
package migrate

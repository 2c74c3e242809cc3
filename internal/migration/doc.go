// Package migration is what `rouse migrate` asks the controller for, in a ConfigMap of the release's namespace: the controller alone may
// make and delete consumers in NATS. It is pure.
package migration

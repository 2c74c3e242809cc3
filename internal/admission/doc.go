// Package admission validates Functions and Subscriptions beyond the rules of their CRDs.
//
// It owns these rules and their messages, so that a cluster and local mode report the same errors, and guarantees to be
// pure. It does not check whether other objects exist, such as the Service of a sink.
package admission

// Package admission validates Functions and Subscriptions beyond the rules of their CRDs.
//
// It owns these rules and their words, so that a cluster and local mode refuse the same with the same text, and
// guarantees to be pure. Whether something else exists, such as the Service of a sink, is not its question.
package admission

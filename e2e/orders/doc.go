// Package orders tests that samples/orders, and samples/shop around it, behave as their README describes, in any
// environment: it uses a running Rouse only through the command rouse, so that the same test runs in local mode and on
// a cluster.
//
// It requires existing Functions, and leaves no dead letter and no awake Function behind.
package orders

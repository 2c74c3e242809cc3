// Package keyring hands the contents of tenants' Secrets to the bridges: the keys that Doors verify by, and those by which
// Subscriptions sign.
//
// It guarantees:
//   - bridges get the keys current and previous of Secrets that Doors and Subscriptions name in their own namespace, in one Secret of
//     the installation, and nothing else;
//   - what a namespace may take of it is bounded by what it leaves to others;
//   - keys whose object is gone, or needs none any more, are taken out.
package keyring

// Package migrate owns `rouse migrate`: manifests of resources whose version is no longer served, written in the one that is.
//
// It guarantees that
//   - what it does not convert passes byte for byte, in its place and order;
//   - an APIRule of which anything cannot be written is left out as a whole and reported, with each attribute;
//   - what it writes, the API server and the controller accept, as far as that can be known without a cluster;
//   - it never overwrites a file.
package migrate

// Package ports listens on the activator ports of all Functions, and is one listener to the server.
//
// It guarantees:
//   - a connection belongs to the Function that had its port when it was accepted, see [Of];
//   - a port that cannot be opened is reported and tried again with the next set, and closes no other;
//   - connections outlive the port at which they came.
package ports

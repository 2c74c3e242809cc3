// Package clusterhome is the dashboard's home for a cluster.
//
//	package dashboard --> Home --> cli/target --> API server, bridges, pods
//
// It owns what the pages show of a cluster, how old that may be, and the requests to bridges and Functions. Who the user is decides the
// caller, by the connection that it gives.
//
// Guarantees:
//   - Everything is read and changed by the connection of the home, with its rights and no others.
//   - All pages of a home share what the API server and the bridges have answered, for two seconds.
//   - A bridge that does not answer is a problem in the state. What can be read without it is shown.
package clusterhome

// Package alias keeps the endpoints of a Service that leads to the bridges from another namespace: Kyma's address for publishers. A
// selector selects no pods of another namespace, and no APIRule and no service mesh leads to a name in the DNS (ExternalName).
//
// It guarantees:
//   - the alias has the endpoints of the Service that it stands for, with their conditions, at the ports that it declares;
//   - an object of its name that somebody else owns stays as it is;
//   - it writes only slices of its own, which go with the alias.
package alias

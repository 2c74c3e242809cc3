// Package registryproxy stands before the chart's registry and decides who may do what in it.
//
// The registry itself knows one kind of user, who may do everything. Its pod shows only this proxy to the network. It
// guarantees that
//   - the controller's account may do everything, and each tenant's (see internal/registry) reads and writes the
//     repositories of its own Functions, deletes nothing and lists no repositories;
//   - copies of the runtimes' images, below rouse-base, can be read by all tenants, and added, but never changed: the tag of
//     a copy ends with the digest of its manifest, and another manifest is refused;
//   - layers are mounted from nowhere that the account may not read;
//   - a request that the distribution specification does not know is refused, as is one whose path could be read in two
//     ways;
//   - what an account sends is bounded in bytes by hour and in requests at a time, and unknown callers send nothing.
//
// What is allowed is a pure function of account and request (Decide). Nothing is kept but what was sent lately.
package registryproxy

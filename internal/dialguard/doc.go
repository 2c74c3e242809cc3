// Package dialguard connects to hosts that a tenant has named, from a network position that is not the tenant's.
//
// Guarantees:
//   - An address is judged when it is dialled: no name, no redirect and no URL in an answer leads around it.
//   - Loopback, link-local, multicast, reserved and cloud metadata addresses are refused, also where an IPv6 address
//     carries them. So are the networks that the operator denies. Other private addresses are not: Git servers and
//     registries within the cluster or the company are what tenants use.
//   - A proxy of the environment may be anywhere, but is asked for no such address. What a name that is unknown here
//     means to the proxy is the proxy's to guard.
//   - What is refused is an ErrDenied, which says neither the address nor what a name stands for.
package dialguard

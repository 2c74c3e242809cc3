// Package dialguard connects to hosts that a tenant chose, from a network position that is not the tenant's.
//
// Guarantees:
//   - An address is checked when it is dialled: no name, redirect or URL in a response bypasses the check.
//   - Loopback, link-local, multicast, reserved and cloud metadata addresses are refused, also where an IPv6 address
//     contains them, and so are the networks that the operator denies. Other private addresses are allowed: tenants use Git servers and
//     registries within the cluster or the company.
//   - A proxy of the environment may have any address, but receives no request for a denied one. The proxy has to check
//     names that only it can resolve.
//   - A denied address results in ErrDenied, which contains neither the address nor what a name resolves to.
package dialguard

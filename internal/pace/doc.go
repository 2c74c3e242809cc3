// Package pace measures how slowly clients send and read, and gives the places of a server to those that are in time.
//
//	Meter   the wait of one server for one client: a deadline that bytes put off, and a time since which it waits
//	Exchange both directions of a client: whether its server waits for it at all
//	Places  what a server has for clients: shares by key, and the slowest of a share makes room for a further one
//
// Guarantees:
//   - A client that moves Rate bytes a second is never behind, whatever pauses the server makes. One that trickles is behind by all the
//     time that the server has waited for it, less what its bytes may take: a byte now and then puts nothing off.
//   - What a client moved ahead of its pace counts for nothing later, beyond what its Meter allows: it may stop for no longer than
//     another one.
//   - Meters are read by others while their client is waited for, without a lock.
//   - Places never exceed their total, nor their shares. A client that is served in time keeps its place, whoever comes.
package pace

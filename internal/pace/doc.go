// Package pace measures how slowly clients send and read, and selects whom a server that is full gives up first.
//
//	Meter   the wait of one server for one client: a deadline that bytes put off, and a time since which it waits
//	Slowest the clients that a full server evicts: of the holder with most, those that have been waited for longest
//
// Guarantees:
//   - A client that moves Rate bytes a second is never behind, whatever pauses the server makes. One that trickles is behind by all the
//     time that the server has waited for it, less what its bytes may take: a byte now and then puts nothing off.
//   - What a client moved ahead of its pace counts for nothing later: it may stop for no longer than another one.
//   - Meters are read by others while their client is waited for, without a lock.
package pace

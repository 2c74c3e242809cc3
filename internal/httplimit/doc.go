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
//
// Package answerhead bounds what comes of an answer before its body, as it comes. net/http bounds the bytes alone, by as many as the
// longest header may have, and each line of four bytes takes a hundred in memory.
//
//	Head     counts the lines and bytes of one answer, and of the interim ones before it
//	Count    has the connections of a http.Transport count
//	Account  is that of one request whose answer has a long head: it takes of memory that is shared by key
//
// Guarantees:
//   - of a head no more is read than MaxBytes and twice MaxLines, interim answers included. Who is over that gets an Error;
//   - a head that is longer than a short one is read on only as long as its key has a share of the memory;
//   - a request is not sent again because of it: the first bytes of its answer are read before any error.
package httplimit

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
package answerhead

// Package door writes the status of Doors.
//
// It guarantees:
//   - Ready is True only while all gateways serve the host and bridges can verify requests, and its message says otherwise what to
//     correct;
//   - the status tells the owner why requests were refused, and by which key the last one was verified.
package door

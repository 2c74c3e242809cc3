// Package cloudevent holds one CloudEvent on its way: what HTTP brings, what JetStream stores, and what a sink gets.
//
// It reads and writes binary mode and structured JSON in a single pass, because each event is read and written on the
// hot paths of publishing and delivery. The CloudEvents SDK is the judge in its tests.
//
// Guarantees:
//   - Data survive byte for byte, whatever they are. Data that JSON cannot carry as they are become base64.
//   - What AppendStructured wrote, FromStructured reads as the same event.
//   - No bytes make it panic. What is no event is an error.
//   - Within Bounds an event takes little more memory than the bytes that it was read from.
package cloudevent

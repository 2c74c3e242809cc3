// Package cloudevent holds one CloudEvent: as HTTP brings it, as JetStream stores it, and as a sink gets it.
//
// It reads and writes binary mode and structured JSON in a single pass, because each event is read and written on the
// hot paths of publishing and delivery. JSON it reads and quotes with jsontext. Its tests compare with the CloudEvents SDK.
//
// Guarantees:
//   - Data survive byte for byte, whatever they are. Data that JSON cannot carry as they are become base64.
//   - What AppendStructured wrote, FromStructured reads as the same event.
//   - No bytes make it panic. What is no event is an error.
//   - Within Bounds an event takes little more memory than the bytes that it was read from.
package cloudevent

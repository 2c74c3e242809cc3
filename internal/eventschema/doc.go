// Package eventschema checks the data of events by JSON Schemas: that of the event's type, and the one that the event names by its dataschema.
//
// It owns the names of the files of schemas, their bounds, the check of an event, and the shape from which the types of a language are made.
// It guarantees that a schema refers to nothing outside of itself, and that its size, depth and number are bounded. How long a check takes is up
// to who writes schemas: in a cluster that is the operator, on a machine its user.
package eventschema

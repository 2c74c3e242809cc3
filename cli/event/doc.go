// Package event builds the events of `rouse publish` from flags and files, and sends them until each is stored or
// rejected.
//
// It uses the CloudEvents SDK, which decodes, validates and writes events to HTTP, since speed does not matter here. It
// handles before and after the SDK what the SDK would change or overlook.
//
// It guarantees that data are sent byte for byte, that an event keeps its id over all attempts, so that the bridge
// stores it once, and that only events of a batch that failed for a transient reason are sent again.
package event

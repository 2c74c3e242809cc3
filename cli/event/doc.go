// Package event builds the events of `rouse publish` from flags and files, and sends them until each is stored or
// refused.
//
// Events are those of the CloudEvents SDK, which decodes them, judges them and writes them to HTTP: speed does not decide
// here. What it would change, or misses, is dealt with before and after it.
//
// It guarantees that data go byte for byte as they were written, that an event keeps its id over all tries, so that the
// bridge stores it once, and that of a batch only events that failed for a reason that may pass are sent again.
package event

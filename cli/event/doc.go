// Package event is what `rouse publish` sends: it makes events of flags and files, and sends them until each is stored
// or refused.
//
// It guarantees that an event keeps its id over all tries, so that the bridge stores it once, and that of a batch only
// events that failed for a reason that may pass are sent again.
package event

package cloudevent

import "fmt"

// Bounds are what an event may have beside its data. Extensions take many times the memory that they are written in, and
// receivers have all attributes as headers, of which no server takes any number. 0 bounds nothing: so are events read
// that are stored already.
type Bounds struct {
	Extensions int // how many there are, those that are written twice included
	Attributes int // bytes of all attributes: values, and names of extensions
}

// extensions is asked while an event is read, so that what is too much is never in memory.
func (b Bounds) extensions(e *Event) error {
	if b.Extensions > 0 && len(e.Extensions) > b.Extensions {
		return fmt.Errorf("the event has more than %d extensions", b.Extensions)
	}
	return nil
}

// Check says what of an event that was read otherwise is too much.
func (b Bounds) Check(e *Event) error {
	if err := b.extensions(e); err != nil || b.Attributes == 0 {
		return err
	}
	size := len(e.ID) + len(e.Source) + len(e.Type) + len(e.Subject) + len(e.Time) + len(e.DataContentType) + len(e.DataSchema)
	for i := range e.Extensions {
		size += len(e.Extensions[i].Name) + len(e.Extensions[i].Value)
	}
	if size > b.Attributes {
		return fmt.Errorf("the event has more than %d bytes of attributes", b.Attributes)
	}
	return nil
}

package cloudevent

import (
	"slices"
	"strings"
)

// Event is one CloudEvent of version 1.0. Attributes that are "" are absent.
type Event struct {
	ID              string
	Source          string
	Type            string
	Subject         string
	Time            string // as it was written, RFC 3339
	DataContentType string
	DataSchema      string
	Extensions      []Extension // in the order of their names
	Data            []byte      // verbatim
	Base64          bool        // the publisher wrote the data as base64, and so they stay

	// Publisher is the namespace in whose name the event is published, empty where that is not known. It is no attribute: it is
	// neither read nor written.
	Publisher string
}

// Extension is an attribute that the specification does not name.
type Extension struct {
	Name  string // lower-case letters and digits
	Value string
	Kind  Kind
}

// Kind is how an extension is written in JSON.
type Kind int

// The kinds.
const (
	String Kind = iota
	Bool
	Integer
)

// Extension is the value of an extension, "" when there is none.
func (e *Event) Extension(name string) string {
	if i, found := e.find(name); found {
		return e.Extensions[i].Value
	}
	return ""
}

// SetExtension sets an extension to a text.
func (e *Event) SetExtension(name, value string) {
	e.set(Extension{Name: name, Value: value})
}

// DeleteExtension takes an extension away.
func (e *Event) DeleteExtension(name string) {
	if i, found := e.find(name); found {
		e.Extensions = slices.Delete(e.Extensions, i, i+1)
	}
}

func (e *Event) set(extension Extension) {
	i, found := e.find(extension.Name)
	if found {
		e.Extensions[i] = extension
		return
	}
	e.Extensions = append(e.Extensions, Extension{}) // slices.Insert would allocate its argument
	copy(e.Extensions[i+1:], e.Extensions[i:])
	e.Extensions[i] = extension
}

// sortExtensions brings what was appended into order. Of several with one name the last counts.
func (e *Event) sortExtensions() {
	if len(e.Extensions) < 2 {
		return
	}
	slices.SortStableFunc(e.Extensions, func(a, b Extension) int { return strings.Compare(a.Name, b.Name) })
	kept := e.Extensions[:1]
	for _, x := range e.Extensions[1:] {
		if last := len(kept) - 1; kept[last].Name == x.Name {
			kept[last] = x
		} else {
			kept = append(kept, x)
		}
	}
	e.Extensions = kept
}

func (e *Event) find(name string) (int, bool) {
	return slices.BinarySearchFunc(e.Extensions, name, func(x Extension, name string) int { return strings.Compare(x.Name, name) })
}

// Attribute is any attribute by its name, extensions included.
func (e *Event) Attribute(name string) (value string, ok bool) {
	switch name {
	case specVersion:
		return version1, true
	case "id":
		value = e.ID
	case "source":
		value = e.Source
	case "type":
		value = e.Type
	case "subject":
		value = e.Subject
	case "time":
		value = e.Time
	case "datacontenttype":
		value = e.DataContentType
	case "dataschema":
		value = e.DataSchema
	default:
		i, found := e.find(name)
		if !found {
			return "", false
		}
		return e.Extensions[i].Value, true
	}
	return value, value != ""
}

// place is where an attribute of the specification is kept, nil for an extension.
func (e *Event) place(name string) *string {
	switch name {
	case "id":
		return &e.ID
	case "source":
		return &e.Source
	case "type":
		return &e.Type
	case "subject":
		return &e.Subject
	case "time":
		return &e.Time
	case "datacontenttype":
		return &e.DataContentType
	case "dataschema":
		return &e.DataSchema
	default:
		return nil
	}
}

func isName(name string) bool {
	switch name {
	case "", "data", specVersion:
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

package language

// EventType is a type of events whose data have a known shape.
type EventType struct {
	// Type is the type of the events, and Name a name that every language takes for a type.
	Type, Name string
	Data       *Shape
	// Parts are shapes that Data and others refer to by their names.
	Parts []NamedShape
}

// NamedShape is a shape with a name, to which shapes of the kind ShapeNamed refer.
type NamedShape struct {
	Name  string
	Shape *Shape
}

// ShapeKind is a kind of values.
type ShapeKind int

// The kinds of values.
const (
	ShapeAny ShapeKind = iota
	ShapeString
	ShapeNumber
	ShapeInteger
	ShapeBoolean
	ShapeLiteral
	ShapeList
	ShapeObject
	ShapeUnion
	ShapeNamed
)

// Shape describes values.
type Shape struct {
	Kind ShapeKind
	// Literal is the JSON of the one value of a ShapeLiteral: a string, a number, a boolean or null.
	Literal string
	// Of are the parts of a union, and the element of a list.
	Of []*Shape
	// Fields are those of an object.
	Fields []Field
	// Name is that of a ShapeNamed.
	Name string
}

// Field is a member of an object.
type Field struct {
	Name     string
	Required bool
	// Note describes it, empty for nothing.
	Note  string
	Shape *Shape
}

// TypesOf makes types of a language from the shapes of events.
type TypesOf struct {
	// Name is the name of the language of the types.
	Name string
	// Write returns the text of a file.
	Write func(events []EventType) string
}

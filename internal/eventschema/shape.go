package eventschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

// Types returns the shapes of the data of all types, from which languages make types of their own.
func (s Set) Types() []language.EventType {
	types := make([]language.EventType, 0, len(s))
	for _, schema := range s.Sorted() {
		r := &shaper{document: schema.document, names: map[string]string{}, prefix: camel(schema.Type)}
		data := r.shape(schema.document)
		types = append(types, language.EventType{Type: schema.Type, Name: r.prefix, Data: data, Parts: r.parts})
	}
	return types
}

// shaper makes the shapes of one schema. Definitions become parts with a name, so that they may refer to themselves.
type shaper struct {
	document any
	prefix   string
	names    map[string]string // of parts, by their pointers
	parts    []language.NamedShape
}

// any is the shape of what the schema says too much about, or nothing.
func anything() *language.Shape { return &language.Shape{Kind: language.ShapeAny} }

func (r *shaper) shape(value any) *language.Shape {
	schema, ok := value.(map[string]any)
	if !ok {
		return anything()
	}
	if target, ok := schema["$ref"].(string); ok {
		return r.reference(target)
	}
	if constant, ok := schema["const"]; ok {
		return literal(constant)
	}
	if values, ok := schema["enum"].([]any); ok {
		return union(each(values, literal))
	}
	for _, name := range []string{"oneOf", "anyOf"} {
		if values, ok := schema[name].([]any); ok {
			return union(each(values, r.shape))
		}
	}
	if values, ok := schema["allOf"].([]any); ok && len(values) == 1 {
		return r.shape(values[0])
	}
	switch kind := schema["type"].(type) {
	case string:
		return r.typed(kind, schema)
	case []any:
		return union(each(kind, func(name any) *language.Shape {
			text, _ := name.(string)
			return r.typed(text, schema)
		}))
	}
	if _, ok := schema["properties"]; ok {
		return r.typed("object", schema)
	}
	return anything()
}

func each(values []any, shape func(any) *language.Shape) []*language.Shape {
	shapes := make([]*language.Shape, len(values))
	for i, value := range values {
		shapes[i] = shape(value)
	}
	return shapes
}

func union(of []*language.Shape) *language.Shape {
	if len(of) == 1 {
		return of[0]
	}
	return &language.Shape{Kind: language.ShapeUnion, Of: of}
}

// literal returns the shape of one value; of an object or a list that of any.
func literal(value any) *language.Shape {
	switch value.(type) {
	case string, bool, nil, json.Number:
		text, err := json.Marshal(value)
		if err == nil {
			return &language.Shape{Kind: language.ShapeLiteral, Literal: string(text)}
		}
	}
	return anything()
}

func (r *shaper) typed(kind string, schema map[string]any) *language.Shape {
	switch kind {
	case "string":
		return &language.Shape{Kind: language.ShapeString}
	case "number":
		return &language.Shape{Kind: language.ShapeNumber}
	case "integer":
		return &language.Shape{Kind: language.ShapeInteger}
	case "boolean":
		return &language.Shape{Kind: language.ShapeBoolean}
	case "null":
		return literal(nil)
	case "array":
		items := anything()
		if schema["items"] != nil {
			items = r.shape(schema["items"])
		}
		return &language.Shape{Kind: language.ShapeList, Of: []*language.Shape{items}}
	case "object":
		return r.object(schema)
	}
	return anything()
}

func (r *shaper) object(schema map[string]any) *language.Shape {
	required := map[string]bool{}
	names, _ := schema["required"].([]any)
	for _, name := range names {
		if text, ok := name.(string); ok {
			required[text] = true
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	shape := &language.Shape{Kind: language.ShapeObject}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		field := language.Field{Name: name, Required: required[name], Shape: r.shape(properties[name])}
		if described, ok := properties[name].(map[string]any); ok {
			field.Note, _ = described["description"].(string)
		}
		shape.Fields = append(shape.Fields, field)
	}
	return shape
}

// reference returns the name of a part of the schema, which becomes one of its own the first time.
func (r *shaper) reference(target string) *language.Shape {
	pointed, ok := r.find(target)
	if !ok {
		return anything()
	}
	name, known := r.names[target]
	if !known {
		name = r.prefix + camel(target[strings.LastIndexByte(target, '/')+1:])
		for taken := 2; slices.Contains(slices.Collect(maps.Values(r.names)), name); taken++ {
			name = strings.TrimRight(name, "0123456789") + strconv.Itoa(taken)
		}
		r.names[target] = name
		at := len(r.parts)
		r.parts = append(r.parts, language.NamedShape{Name: name})
		r.parts[at].Shape = r.shape(pointed)
	}
	return &language.Shape{Kind: language.ShapeNamed, Name: name}
}

// find follows a JSON pointer; one to the whole schema stays any.
func (r *shaper) find(target string) (any, bool) {
	path, ok := strings.CutPrefix(target, "#/")
	if !ok {
		return nil, false
	}
	value := r.document
	for token := range strings.SplitSeq(path, "/") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]; !ok {
			return nil, false
		}
	}
	return value, true
}

// camel returns a text as the name of a type: order.received.v1 is OrderReceivedV1.
func camel(text string) string {
	words := strings.FieldsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	})
	var name strings.Builder
	for _, word := range words {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if made := name.String(); made != "" && (made[0] < '0' || made[0] > '9') {
		return made
	}
	return "Event" + name.String()
}

package eventschema

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

const (
	// Suffix ends the name of the file with the schema of a type: order.received.schema.json.
	Suffix = ".schema.json"
	// MaxBytes bounds a schema.
	MaxBytes = 64 << 10
	// MaxSchemas bounds the number of schemas.
	MaxSchemas = 200
	// maxDepth and maxNodes bound what a schema consists of.
	maxDepth = 32
	maxNodes = 5000
	// maxProblems bounds the problems of an event that are told.
	maxProblems = 3
	// address is what a schema is compiled under. No schema is read from there.
	address = "rouse:schema"
)

// Schema is the schema of one type of events.
type Schema struct {
	// Type is the type of the events.
	Type string
	// Text is the schema as it was written.
	Text []byte

	id       string // its $id
	document any
	compiled *jsonschema.Schema
}

// Parse reads the schema of a type.
func Parse(eventType string, text []byte) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes, and %d are allowed", len(text), MaxBytes)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	nodes := 0
	if err := bounded(document, 1, &nodes); err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nowhere{})
	if err := compiler.AddResource(address, document); err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		return nil, fmt.Errorf("the schema is not valid: %w", readable(err))
	}
	schema := &Schema{Type: eventType, Text: text, document: document, compiled: compiled}
	if parts, ok := document.(map[string]any); ok {
		schema.id, _ = parts["$id"].(string)
	}
	return schema, nil
}

// nowhere loads no schema.
type nowhere struct{}

var errElsewhere = errors.New(`it refers to another document; a schema refers to itself alone, as by "#/$defs/NAME"`)

// Load implements jsonschema.URLLoader.
func (nowhere) Load(string) (any, error) { return nil, errElsewhere }

// readable leaves out addresses that nobody has written.
func readable(err error) error {
	if errors.Is(err, errElsewhere) {
		return errElsewhere
	}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok && errors.Is(load.Err, errElsewhere) {
		return errElsewhere
	}
	return errors.New(strings.ReplaceAll(err.Error(), address, ""))
}

// bounded returns an error for a document that is nested too deeply, has too many parts or refers elsewhere.
func bounded(value any, depth int, nodes *int) error {
	if *nodes++; *nodes > maxNodes {
		return fmt.Errorf("the schema has more than %d parts", maxNodes)
	}
	if depth > maxDepth {
		return fmt.Errorf("the schema is nested more than %d deep", maxDepth)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if target, ok := value[name].(string); ok && !strings.HasPrefix(target, "#") {
				return errElsewhere
			}
		}
		for _, each := range value {
			if err := bounded(each, depth+1, nodes); err != nil {
				return err
			}
		}
	case []any:
		for _, each := range value {
			if err := bounded(each, depth+1, nodes); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check returns a *failure.InvalidEventError for an event whose data the schema does not allow.
func (s *Schema) Check(ev *cloudevent.Event) error {
	if !isJSON(ev.DataContentType) {
		return s.refuse(fmt.Sprintf("the data is %s, and has to be JSON", ev.DataContentType))
	}
	var data any
	if len(ev.Data) > 0 {
		var err error
		if data, err = jsonschema.UnmarshalJSON(bytes.NewReader(ev.Data)); err != nil {
			return s.refuse("the data is no JSON")
		}
	}
	err := s.compiled.Validate(data)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return s.refuse(err.Error())
	}
	return s.refuse(strings.Join(problemsOf(invalid), "; "))
}

func (s *Schema) refuse(why string) error {
	return &failure.InvalidEventError{Reason: fmt.Sprintf("the event does not fit the schema of %s: %s", s.Type, why)}
}

// problemsOf returns the first problems, each with the place in the data.
func problemsOf(invalid *jsonschema.ValidationError) []string {
	var told []string
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 || len(told) == maxProblems {
			return
		}
		if found := e.BasicOutput().Error; found != nil {
			told = append(told, strings.Join(append([]string{"data"}, e.InstanceLocation...), ".")+": "+found.String())
		}
	}
	walk(invalid)
	return told
}

func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// Set has the schemas of types.
type Set map[string]*Schema

// Read returns the schemas of files, by their names without folders. Files with another suffix are left out. A schema that cannot be used is left
// out as well, and its problem returned by the name of its file.
func Read(files map[string][]byte) (set Set, problems map[string]error) {
	set, problems = Set{}, map[string]error{}
	ids := map[string]string{} // of types, by the $id
	for _, name := range slices.Sorted(maps.Keys(files)) {
		eventType, ok := strings.CutSuffix(name, Suffix)
		if !ok {
			continue
		}
		if len(set) == MaxSchemas {
			problems[name] = fmt.Errorf("there are more than %d schemas", MaxSchemas)
			break
		}
		schema, err := Parse(eventType, files[name])
		if err == nil && eventType == "" {
			err = errors.New("its name has no type: name it TYPE" + Suffix)
		}
		if err == nil && schema.id != "" {
			if other := ids[schema.id]; other != "" {
				err = fmt.Errorf("its $id is that of the schema of %s: give each its own", other)
			}
			ids[schema.id] = eventType
		}
		if err != nil {
			problems[name] = err
			continue
		}
		set[eventType] = schema
	}
	return set, problems
}

// Check returns a *failure.InvalidEventError for an event that the schema of its type does not allow, or the one whose $id its dataschema is. A type
// without a schema may have any data, and a dataschema that is no $id asks for nothing.
func (s Set) Check(ev *cloudevent.Event) error {
	schema := s[ev.Type]
	if schema != nil {
		if err := schema.Check(ev); err != nil {
			return err
		}
	}
	if ev.DataSchema == "" {
		return nil
	}
	for _, asked := range s {
		if asked.id == ev.DataSchema && asked != schema {
			return asked.Check(ev)
		}
	}
	return nil
}

// Sorted returns the schemas in the order of their types.
func (s Set) Sorted() []*Schema {
	all := make([]*Schema, 0, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, s[name])
	}
	return all
}

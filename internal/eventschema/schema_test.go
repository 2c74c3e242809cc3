package eventschema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

const order = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "https://shop.example.com/order.json",
  "type": "object",
  "required": ["id", "lines"],
  "properties": {
    "id": {"type": "string", "minLength": 1, "description": "of the order"},
    "state": {"enum": ["open", "paid", 7, null]},
    "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    "note-to us": {"type": ["string", "null"]},
    "parent": {"$ref": "#/$defs/link"}
  },
  "$defs": {
    "line": {"type": "object", "required": ["product"], "properties": {
      "product": {"type": "string"}, "amount": {"type": "number"}, "count": {"type": "integer"}}},
    "link": {"type": "object", "properties": {"next": {"$ref": "#/$defs/link"}, "of": {"oneOf": [{"const": true}, {"$ref": "#/$defs/line"}]}}}
  }
}`

func event(eventType, data string) *cloudevent.Event {
	return &cloudevent.Event{ID: "1", Source: "shop", Type: eventType, DataContentType: "application/json", Data: []byte(data)}
}

func TestAnEventHasToFitTheSchemaOfItsType(t *testing.T) {
	t.Parallel()
	set, problems := Read(map[string][]byte{"order.received.schema.json": []byte(order), "README.md": nil})
	require.Empty(t, problems)
	for data, want := range map[string]string{
		`{"id": "1", "lines": [{"product": "tea", "amount": 1.5}]}`: "",
		`{"id": "1", "lines": [], "state": null, "more": 1}`:        "",
		`{"id": 7, "lines": []}`:                                    "data.id: got number, want string",
		`{"lines": [{"product": "tea"}, {}]}`:                       "data.lines.1: missing property 'product'",
		`{}`:                                                        "data: missing properties 'id', 'lines'",
		`{`:                                                         "the data is no JSON",
		``:                                                          "data: got null, want object",
	} {
		err := set.Check(event("order.received", data))
		if want == "" {
			require.NoError(t, err, data)
			continue
		}
		invalid, ok := errors.AsType[*failure.InvalidEventError](err)
		require.True(t, ok, data)
		require.Contains(t, invalid.Reason, "the event does not fit the schema of order.received: ", data)
		require.Contains(t, invalid.Reason, want, data)
	}
	require.NoError(t, set.Check(event("order.paid", "{")), "a type without a schema may have any data")
	bytes := event("order.received", `{"id": "1", "lines": []}`)
	bytes.DataContentType = "application/octet-stream"
	require.ErrorContains(t, set.Check(bytes), "has to be JSON")
}

func TestADataschemaAsksForTheSchemaWithItsID(t *testing.T) {
	t.Parallel()
	set, problems := Read(map[string][]byte{
		"order.received.schema.json": []byte(order),
		"order.paid.schema.json":     []byte(`{"required": ["paid"]}`),
	})
	require.Empty(t, problems)
	asks := func(eventType, dataschema, data string) error {
		asking := event(eventType, data)
		asking.DataSchema = dataschema
		return set.Check(asking)
	}
	const id = "https://shop.example.com/order.json"
	require.NoError(t, asks("order.changed", id, `{"id": "1", "lines": []}`))
	require.ErrorContains(t, asks("order.changed", id, `{"id": "1"}`), "the event does not fit the schema of order.received: data: missing property 'lines'")
	require.ErrorContains(t, asks("order.paid", id, `{"id": "1", "lines": []}`), "missing property 'paid'", "its type's schema counts as well")
	require.NoError(t, asks("order.changed", "https://shop.example.com/other.json", `{}`), "nobody has that schema")
	require.NoError(t, asks("order.changed", "", `{}`))
}

func TestAnIDOfTwoSchemasIsAProblem(t *testing.T) {
	t.Parallel()
	set, problems := Read(map[string][]byte{"a.schema.json": []byte(`{"$id": "urn:x"}`), "b.schema.json": []byte(`{"$id": "urn:x"}`)})
	require.Contains(t, set, "a")
	require.NotContains(t, set, "b")
	require.EqualError(t, problems["b.schema.json"], "its $id is that of the schema of a: give each its own")
}

func TestASchemaThatCannotBeUsedIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"no JSON":                {"{", "the schema is no JSON"},
		"a type that is none":    {`{"type": "text"}`, "the schema is not valid"},
		"a pattern that is none": {`{"pattern": "("}`, "the schema is not valid"},
		"another document":       {`{"$ref": "https://example.com/order.json"}`, "it refers to another document"},
		"a file":                 {`{"properties": {"a": {"$ref": "file:///etc/passwd"}}}`, "it refers to another document"},
		"a relative document":    {`{"allOf": [{"$ref": "other.json#/a"}]}`, "it refers to another document"},
		"another kind of schema": {`{"$schema": "https://example.com/meta.json"}`, "it refers to another document"},
		"too much":               {`{"title": "` + strings.Repeat("x", MaxBytes) + `"}`, "are allowed"},
		"too deep":               {strings.Repeat(`{"not":`, maxDepth) + "{}" + strings.Repeat("}", maxDepth), "more than 32 deep"},
		"too many parts":         {`{"enum": [` + strings.Repeat("1,", maxNodes) + `1]}`, "more than 5000 parts"},
	} {
		_, err := Parse("order.received", []byte(tc.text))
		require.ErrorContains(t, err, tc.want, name)
		require.NotContains(t, err.Error(), address, name)
	}
}

func TestASchemaThatRefersToItselfEnds(t *testing.T) {
	t.Parallel()
	schema, err := Parse("loop", []byte(`{"$ref": "#"}`))
	if err == nil {
		err = schema.Check(event("loop", `{}`))
	}
	require.Error(t, err)
}

func TestTheNumberOfSchemasIsBounded(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{Suffix: []byte("{}")}
	for i := range MaxSchemas + 1 {
		files[fmt.Sprintf("t%d%s", i, Suffix)] = []byte("{}")
	}
	set, problems := Read(files)
	require.Len(t, set, MaxSchemas)
	require.Len(t, problems, 2, "one without a type, and one too many")
}

func TestSchemasOfAFolderAreFollowed(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{
		"order.received.schema.json": {Data: []byte(order)}, "events/order.paid.schema.json": {Data: []byte("{}")},
		"copy/order.paid.schema.json": {Data: []byte("{}")}, "node_modules/x/a.schema.json": {Data: []byte("{")},
		".hidden/b.schema.json": {Data: []byte("{")},
		"broken.schema.json":    {Data: []byte("{")},
	}
	set, problems, err := ReadFolder(folder)
	require.NoError(t, err)
	require.Len(t, set, 2)
	require.ErrorContains(t, problems["events/order.paid.schema.json"], "the type has a schema already, in copy/order.paid.schema.json")
	require.ErrorContains(t, problems["broken.schema.json"], "the schema is no JSON")

	var current Current
	require.NoError(t, current.Check(event("order.received", "{}")), "there are none")
	current.Use(set)
	require.Error(t, current.Check(event("order.received", "{}")))
	require.Len(t, current.Texts(), 2)
	require.JSONEq(t, order, string(current.Texts()["order.received"]))

	folder["order.received.schema.json"] = &fstest.MapFile{Data: []byte("{")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := map[string]int{}
	require.NoError(t, current.Follow(ctx, folder, time.Millisecond, func(file string, _ error) {
		if told[file]++; len(told) == 3 {
			cancel()
		}
	}))
	require.Error(t, current.Check(event("order.received", "{}")), "the one before stays in force")
	require.Equal(t, 1, told["order.received.schema.json"])
}

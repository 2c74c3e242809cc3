package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// input is what one event is to the expressions of a filter. What they do not name is not made.
type input struct {
	event      *cloudevent.Event
	attributes map[string]string
	data       ref.Val
	spent      uint64 // what all expressions have cost so far
}

// ResolveName returns the value of a variable.
func (in *input) ResolveName(name string) (any, bool) {
	switch name {
	case eventVariable:
		if in.attributes == nil {
			in.attributes = attributesOf(in.event)
		}
		return in.attributes, true
	case dataVariable:
		if in.data == nil {
			in.data = parse(in.event.Data)
		}
		return in.data, true
	default:
		return nil, false
	}
}

// Parent is part of cel.Activation.
func (in *input) Parent() cel.Activation { return nil }

func attributesOf(e *cloudevent.Event) map[string]string {
	attributes := make(map[string]string, 8+len(e.Extensions))
	for _, name := range []string{
		"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema",
	} {
		if value, ok := e.Attribute(name); ok {
			attributes[name] = value
		}
	}
	for _, extension := range e.Extensions {
		attributes[extension.Name] = extension.Value
	}
	return attributes
}

// parse reads JSON. Whether it is JSON is decided by the bytes: many publishers forget the content type.
func parse(data []byte) ref.Val {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return types.WrapErr(ErrNotJSON)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return types.WrapErr(ErrNotJSON)
	}
	return valueOf(value)
}

// valueOf keeps whole numbers whole, so that large ones stay exact and can be an index.
func valueOf(value any) ref.Val {
	switch v := value.(type) {
	case json.Number:
		return number(v.String())
	case []any:
		list := make([]ref.Val, len(v))
		for i, element := range v {
			list[i] = valueOf(element)
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list)
	case map[string]any:
		for key, member := range v {
			v[key] = valueOf(member)
		}
		return types.NewStringInterfaceMap(types.DefaultTypeAdapter, v)
	default:
		return types.DefaultTypeAdapter.NativeToValue(v)
	}
}

func number(text string) ref.Val {
	if !strings.ContainsAny(text, ".eE") {
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			return types.Int(whole)
		}
	}
	float, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.WrapErr(ErrNotJSON)
	}
	return types.Double(float)
}

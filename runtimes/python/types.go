package python

import (
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

// typedDicts writes types of Python. Every reference to one is in quotes, so that they may stand in any order.
func typedDicts(events []language.EventType) string {
	w := &typeWriter{}
	for _, event := range events {
		for _, part := range event.Parts {
			w.named(part.Name, part.Shape)
		}
		w.named(event.Name, event.Data)
	}
	return "\"\"\"Types of the data of events. Written by `rouse events types`.\"\"\"\n\n" +
		"from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Union\n" + w.out.String()
}

type typeWriter struct{ out strings.Builder }

// named writes a type with a name.
func (w *typeWriter) named(name string, shape *language.Shape) {
	written := w.typeOf(name, shape)
	if written != literal(name) {
		fmt.Fprintf(&w.out, "\n%s: TypeAlias = %s\n", name, written)
	}
}

// typeOf returns a type. An object becomes a type of its own, with the given name.
func (w *typeWriter) typeOf(name string, shape *language.Shape) string {
	switch shape.Kind {
	case language.ShapeString:
		return "str"
	case language.ShapeNumber:
		return "float"
	case language.ShapeInteger:
		return "int"
	case language.ShapeBoolean:
		return "bool"
	case language.ShapeLiteral:
		return literalType(shape.Literal)
	case language.ShapeNamed:
		return literal(shape.Name)
	case language.ShapeList:
		return "list[" + w.typeOf(name+"Item", shape.Of[0]) + "]"
	case language.ShapeUnion:
		parts := make([]string, len(shape.Of))
		for i, part := range shape.Of {
			parts[i] = w.typeOf(fmt.Sprintf("%s%d", name, i+1), part)
		}
		return "Union[" + strings.Join(parts, ", ") + "]"
	case language.ShapeObject:
		return w.object(name, shape)
	case language.ShapeAny:
	}
	return "Any"
}

func literalType(value string) string {
	switch value {
	case "null":
		return "None"
	case "true":
		return "Literal[True]"
	case "false":
		return "Literal[False]"
	}
	if strings.ContainsAny(value, ".eE") && value[0] != '"' {
		return "float" // which no Literal may have
	}
	return "Literal[" + value + "]"
}

// object writes a TypedDict by a call, which takes any names of fields.
func (w *typeWriter) object(name string, shape *language.Shape) string {
	if len(shape.Fields) == 0 {
		return "dict[str, Any]"
	}
	fields := make([]string, len(shape.Fields))
	for i, field := range shape.Fields {
		written := w.typeOf(name+title(field.Name), field.Shape)
		if !field.Required {
			written = "NotRequired[" + written + "]"
		}
		fields[i] = fmt.Sprintf("        %s: %s,\n", literal(field.Name), written)
	}
	fmt.Fprintf(&w.out, "\n%s = TypedDict(\n    %s,\n    {\n%s    },\n)\n", name, literal(name), strings.Join(fields, ""))
	return literal(name)
}

// title returns the part of a name that a field gives to the type of its value.
func title(name string) string {
	kept := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, name)
	if kept == "" {
		return "Field"
	}
	return strings.ToUpper(kept[:1]) + kept[1:]
}

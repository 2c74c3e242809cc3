package nodejs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

// typeScript writes types of TypeScript.
func typeScript(events []language.EventType) string {
	var out strings.Builder
	out.WriteString("// Types of the data of events. Written by `rouse events types`.\n")
	for _, event := range events {
		for _, part := range event.Parts {
			fmt.Fprintf(&out, "\nexport type %s = %s\n", part.Name, typeOf(part.Shape, ""))
		}
		fmt.Fprintf(&out, "\n/** The data of %s. */\nexport type %s = %s\n", comment(event.Type), event.Name, typeOf(event.Data, ""))
	}
	out.WriteString("\n/** The data of each type of events. */\nexport interface EventData {\n")
	for _, event := range events {
		fmt.Fprintf(&out, "  %s: %s\n", quote(event.Type), event.Name)
	}
	out.WriteString("}\n")
	return out.String()
}

// comment leaves out what would end a comment.
func comment(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "*/", "")), " ")
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(quoted)
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

func typeOf(shape *language.Shape, indent string) string {
	switch shape.Kind {
	case language.ShapeString:
		return "string"
	case language.ShapeNumber, language.ShapeInteger:
		return "number"
	case language.ShapeBoolean:
		return "boolean"
	case language.ShapeLiteral:
		return shape.Literal
	case language.ShapeNamed:
		return shape.Name
	case language.ShapeList:
		return "Array<" + typeOf(shape.Of[0], indent) + ">"
	case language.ShapeUnion:
		parts := make([]string, len(shape.Of))
		for i, part := range shape.Of {
			parts[i] = typeOf(part, indent)
		}
		return strings.Join(parts, " | ")
	case language.ShapeObject:
		return objectOf(shape, indent)
	case language.ShapeAny:
	}
	return "unknown"
}

func objectOf(shape *language.Shape, indent string) string {
	if len(shape.Fields) == 0 {
		return "Record<string, unknown>"
	}
	var out strings.Builder
	out.WriteString("{\n")
	for _, field := range shape.Fields {
		name := field.Name
		if !identifier.MatchString(name) {
			name = quote(name)
		}
		if !field.Required {
			name += "?"
		}
		if field.Note != "" {
			fmt.Fprintf(&out, "%s  /** %s */\n", indent, comment(field.Note))
		}
		fmt.Fprintf(&out, "%s  %s: %s\n", indent, name, typeOf(field.Shape, indent+"  "))
	}
	return out.String() + indent + "}"
}

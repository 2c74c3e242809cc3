package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	crd "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	log.SetFlags(0)
	crds := flag.String("crds", "charts/rouse/files/crds", "the `folder` of the CustomResourceDefinitions")
	out := flag.String("out", "docs/reference", "the `folder` for the pages")
	flag.Parse()
	if err := run(*crds, *out); err != nil {
		log.Fatal(err)
	}
}

func run(crds, out string) error {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list the CRDs: %w", err)
	}
	if len(files) == 0 {
		return fmt.Errorf("the folder %s contains no CRD", crds)
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // a folder of the repository
		return fmt.Errorf("make the folder of the pages: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of the folder that was asked for
		if err != nil {
			return fmt.Errorf("read a CRD: %w", err)
		}
		name, page, err := render(text)
		if err != nil {
			return fmt.Errorf("render %s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(out, name), []byte(page), 0o644); err != nil { //nolint:gosec // a page of the repository
			return fmt.Errorf("write a page: %w", err)
		}
	}
	return nil
}

// render returns the file name and the text of a CRD's page.
func render(text []byte) (name, page string, err error) {
	var definition crd.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return "", "", fmt.Errorf("decode the CRD: %w", err)
	}
	versions := definition.Spec.Versions
	stored := slices.IndexFunc(versions, func(v crd.CustomResourceDefinitionVersion) bool { return v.Storage })
	if stored < 0 || versions[stored].Schema == nil {
		return "", "", errors.New("no version with a schema is stored")
	}
	var b strings.Builder
	kind, version := definition.Spec.Names.Kind, versions[stored].Name
	fmt.Fprintf(&b, "<!-- Generated from the CRD by `make generate`. -->\n# %s\n\n`apiVersion: %s/%s`, `kind: %s`.", kind, definition.Spec.Group, version, kind)
	for _, other := range versions {
		if other.Served && !other.Storage {
			fmt.Fprintf(&b, " `%s` is served too.", other.Name)
		}
	}
	b.WriteString(" [All kinds](README.md).\n")
	schema := versions[stored].Schema.OpenAPIV3Schema
	for _, part := range []string{"spec", "status"} {
		if fields, found := schema.Properties[part]; found {
			section(&b, part, fields)
		}
	}
	return strings.ToLower(kind) + ".md", b.String(), nil
}

// section writes the table of an object's fields, and after it the sections of the objects within.
func section(b *strings.Builder, path string, object crd.JSONSchemaProps) {
	fmt.Fprintf(b, "\n## `%s`\n\n", path)
	if text := line(object.Description); text != "" {
		b.WriteString(text + "\n\n")
	}
	for _, rule := range object.XValidations {
		fmt.Fprintf(b, "- %s\n", sentence(rule))
	}
	if len(object.XValidations) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("| field | type | default | description |\n|---|---|---|---|\n")
	names := make([]string, 0, len(object.Properties))
	for name := range object.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		field := object.Properties[name]
		required := ""
		if slices.Contains(object.Required, name) {
			required = ", required"
		}
		fmt.Fprintf(b, "| `%s` | %s%s | %s | %s |\n", name, typeOf(field), required, defaultOf(field), describe(field))
	}
	for _, name := range names {
		if inner, suffix := nested(object.Properties[name]); len(inner.Properties) > 0 {
			section(b, path+"."+name+suffix, inner)
		}
	}
}

// nested returns the object within a field, and what its path has behind the field's name.
func nested(field crd.JSONSchemaProps) (inner crd.JSONSchemaProps, suffix string) {
	switch {
	case field.Items != nil && field.Items.Schema != nil:
		inner, suffix = nested(*field.Items.Schema)
		return inner, "[]" + suffix
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		inner, suffix = nested(*field.AdditionalProperties.Schema)
		return inner, ".*" + suffix
	}
	return field, ""
}

func typeOf(field crd.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "integer or string"
	case field.Items != nil && field.Items.Schema != nil:
		return "list of " + typeOf(*field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(*field.AdditionalProperties.Schema)
	case field.Type == "":
		return "any"
	}
	return field.Type
}

func defaultOf(field crd.JSONSchemaProps) string {
	if field.Default == nil {
		return ""
	}
	return "`" + cell(string(field.Default.Raw)) + "`"
}

// describe returns the description of a field with the bounds of its value.
func describe(field crd.JSONSchemaProps) string {
	parts := []string{line(field.Description)}
	value := field
	for value.Items != nil && value.Items.Schema != nil {
		parts = append(parts, count(value.MinItems, value.MaxItems, "entries"))
		value = *value.Items.Schema
	}
	if len(value.Enum) > 0 {
		values := make([]string, 0, len(value.Enum))
		for _, one := range value.Enum {
			values = append(values, "`"+string(one.Raw)+"`")
		}
		parts = append(parts, "One of "+strings.Join(values, ", ")+".")
	}
	if value.Minimum != nil {
		parts = append(parts, fmt.Sprintf("At least %v.", *value.Minimum))
	}
	if value.Maximum != nil {
		parts = append(parts, fmt.Sprintf("At most %v.", int64(*value.Maximum)))
	}
	parts = append(parts, count(value.MinLength, value.MaxLength, "characters"))
	if value.Pattern != "" {
		parts = append(parts, "Pattern `"+cell(value.Pattern)+"`.")
	}
	if len(value.Properties) == 0 { // an object has them in its section
		for _, rule := range value.XValidations {
			parts = append(parts, cell(sentence(rule)))
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

func count(least, most *int64, of string) string {
	text := ""
	if least != nil && *least > 0 {
		text = fmt.Sprintf("At least %d %s.", *least, of)
	}
	if most != nil {
		text = strings.TrimSpace(fmt.Sprintf("%s At most %d %s.", text, *most, of))
	}
	return text
}

// sentence returns what a rule asks for: its message, or the expression where it has none.
func sentence(rule crd.ValidationRule) string {
	if rule.Message == "" {
		return "Rule: `" + strings.Join(strings.Fields(rule.Rule), " ") + "`."
	}
	return "Rule: " + strings.TrimSuffix(line(rule.Message), ".") + "."
}

// line returns a text of several lines as one that may stand in a table.
func line(text string) string { return cell(strings.Join(strings.Fields(text), " ")) }

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}

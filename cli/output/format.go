package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Format is the value of -o; the zero value is for people.
type Format string

// The formats.
const (
	Text Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
	Name Format = "name"
)

// Choices are the formats that one command knows besides Text.
type Choices struct {
	Chosen  Format
	Allowed []Format
}

// String implements pflag.Value.
func (c *Choices) String() string { return string(c.Chosen) }

// Type implements pflag.Value.
func (c *Choices) Type() string { return "format" }

// Set implements pflag.Value.
func (c *Choices) Set(text string) error {
	if !slices.Contains(c.Allowed, Format(text)) {
		return fmt.Errorf("use one of %s", c.Names())
	}
	c.Chosen = Format(text)
	return nil
}

// Names lists them for people.
func (c *Choices) Names() string {
	names := make([]string, 0, len(c.Allowed))
	for _, f := range c.Allowed {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// Write writes a value as JSON or YAML. The value's json tags count for both.
func Write(w io.Writer, format Format, value any) error {
	text, err := encode(value, "  ")
	if err == nil && format == YAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("write as %s: %w", format, err)
	}
	_, err = w.Write(text)
	return err
}

// WriteOne writes one of many values that come one by one: a line of JSON, or a YAML document.
func WriteOne(w io.Writer, format Format, value any) error {
	if format == YAML {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		return Write(w, YAML, value)
	}
	text, err := encode(value, "")
	if err != nil {
		return fmt.Errorf("write as %s: %w", format, err)
	}
	_, err = w.Write(text)
	return err
}

// encode leaves < and > as they are: this is not read in a browser.
func encode(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return text.Bytes(), err
}

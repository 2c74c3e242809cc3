package settings

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/agnivade/levenshtein"
	"sigs.k8s.io/yaml"
)

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// decode reads a file strictly. The parser bounds what aliases make of a short text.
func decode(text string, into any) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("it has more than the %d KiB that are read: keep only settings in it", MaxBytes>>10)
	}
	err := yaml.UnmarshalStrict([]byte(text), into)
	if err == nil {
		return nil
	}
	problem := strings.NewReplacer("error unmarshaling JSON: ", "", "while decoding JSON: ", "", "error converting YAML to JSON: ", "").Replace(err.Error())
	if found := unknownField.FindStringSubmatch(problem); found != nil {
		return unknown(found[1], reflect.TypeOf(into).Elem())
	}
	const longest = 300 // a parser may quote much of the file
	if len(problem) > longest {
		problem = strings.ToValidUTF8(problem[:longest], "") + "..."
	}
	return errors.New(problem)
}

func unknown(path string, file reflect.Type) error {
	name := path[strings.LastIndexByte(path, '.')+1:]
	known := map[string]bool{}
	fieldsOf(file, known)
	if meant := closest(name, known); meant != "" {
		return fmt.Errorf("unknown field %q: did you mean %s?", shortened(path), meant)
	}
	return fmt.Errorf("unknown field %q: remove it", shortened(path))
}

// fieldsOf collects the names of all fields, at whatever depth.
func fieldsOf(t reflect.Type, into map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			into[name] = true
		}
		fieldsOf(field.Type, into)
	}
}

// closest is the known name that a typo was probably meant to be, or empty.
func closest(name string, known map[string]bool) string {
	best, distance := "", max(len(name)/3, 1)+1
	if len(name) > 100 {
		return ""
	}
	for candidate := range known {
		d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(candidate))
		if d < distance || d == distance && best != "" && candidate < best {
			best, distance = candidate, d
		}
	}
	return best
}

func shortened(text string) string {
	const longest = 100
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}

package runtimeimage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Description is what the image.json of a runtime's directory says of its images.
type Description struct {
	Dir string `json:"-"`

	Runtime     string            `json:"runtime"`     // its name without a version
	Interpreter []string          `json:"interpreter"` // where bases may have it, or the compiler
	Home        string            `json:"home"`        // the variable that tells the interpreter where its libraries are; empty: it finds them
	Entrypoint  []string          `json:"entrypoint"`
	Workdir     string            `json:"workdir"`
	User        string            `json:"user"`
	Env         map[string]string `json:"env"`
	Port        int               `json:"port"`
}

// Describe finds the description of a runtime in a source tree.
func Describe(source, runtime string) (Description, error) {
	files, err := filepath.Glob(filepath.Join(source, "runtimes", "*", "image.json"))
	if err != nil {
		return Description{}, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return Description{}, fmt.Errorf("read a runtime: %w", err)
		}
		described := Description{Dir: filepath.Dir(file)}
		if err := json.Unmarshal(content, &described); err != nil {
			return Description{}, fmt.Errorf("read %s: %w", file, err)
		}
		if described.Runtime == strings.TrimRight(runtime, "0123456789") {
			return described, nil
		}
	}
	return Description{}, fmt.Errorf("BASES: there is no runtime %q", runtime)
}

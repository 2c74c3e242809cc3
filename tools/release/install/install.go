package install

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/tools/release/plan"
)

//go:embed templates
var templates embed.FS

// Archive is one of the command line.
type Archive struct {
	v1.Platform

	File   string
	SHA256 string
}

// page is what templates know.
type page struct {
	plan.Release

	Address  string // of the release's files
	Archives []Archive
}

// Manifests writes those of Krew and Homebrew and the script into a directory.
func Manifests(dir string, release plan.Release, archives []Archive) error {
	values := page{Release: release, Address: plan.Repository + "/releases/download/" + release.Version, Archives: archives}
	for name, mode := range map[string]os.FileMode{plan.Krew: 0o644, plan.Homebrew: 0o644, plan.Script: 0o755} {
		parsed, err := template.New(name+".tmpl").ParseFS(templates, "templates/"+name+".tmpl")
		if err != nil {
			return fmt.Errorf("read the template of %s: %w", name, err)
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, values); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), mode); err != nil {
			return err
		}
	}
	return nil
}

// CRDs writes those of a chart into one file.
func CRDs(chart, file string) error {
	found, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("there are no CRDs in %s: %w", chart, err)
	}
	var all bytes.Buffer
	for _, each := range found {
		text, err := os.ReadFile(each)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(text, []byte("---")) {
			all.WriteString("---\n")
		}
		all.Write(text)
	}
	return os.WriteFile(file, all.Bytes(), 0o644)
}

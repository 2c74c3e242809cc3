package eject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/bundle"
	"github.com/rouse-run/rouse/internal/sourcefiles"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Function is a Function on its way out.
type Function struct {
	manifest.Function

	// Image is the name that the Deployment gives its image.
	Image string
}

// Write makes the folder dir with the Function. It lists the files that are for people, and returns what the Function had that the folder has
// not.
func Write(ctx context.Context, fn Function, dir string) (lost []string, err error) {
	l, err := languages.Of(fn.Spec.Runtime)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	files, err := sourceOf(fn, l)
	if err != nil {
		return nil, err
	}
	manifests, err := manifestsOf(fn)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the user of the image has to read what is in it
		if errors.Is(err, fs.ErrExist) {
			return nil, exit.Errorf(exit.Usage, "%s exists already, and nothing is overwritten: name another folder with --to", dir)
		}
		return nil, exit.Errorf(exit.Usage, "make the folder: %w", err)
	}
	w := &writer{dir: dir}
	w.source(ctx, l, files)
	w.server(l)
	w.text("kubernetes.yaml", manifests)
	w.text("Dockerfile", fmt.Sprintf(l.Ejected.Dockerfile, l.Ejected.Base(string(fn.Spec.Runtime))))
	w.text(".dockerignore", "build\nREADME.md\nkubernetes.yaml\nrun.sh\n")
	w.text("run.sh", script(fn, l))
	lost = lostBy(fn)
	w.readme(fn, lost)
	w.readable()
	return lost, w.err
}

// sourceOf returns the files of the Function's source.
func sourceOf(fn Function, l *language.Language) (sourcefiles.Files, error) {
	if l.Ejected.Dockerfile == "" {
		return nil, exit.Errorf(exit.Usage, "Function %s is in %s, of which no image is built without Rouse", fn.Name, l.Title)
	}
	inline := fn.Spec.Source.Inline
	switch {
	case fn.Files != nil && inline != nil:
		return fn.Files.Content.Over(l, inline.Source, inline.Dependencies), nil
	case fn.Files != nil:
		return fn.Files.Content, nil
	case inline != nil:
		return sourcefiles.Files{}.Over(l, inline.Source, inline.Dependencies), nil
	}
	return nil, exit.Errorf(exit.Usage, "the source of Function %s is a Git repository, and not in this folder: run eject in a checkout of it", fn.Name)
}

// writer writes files until one fails.
type writer struct {
	dir string
	err error
}

func (w *writer) text(name, content string) {
	if w.err != nil {
		return
	}
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if w.err = os.MkdirAll(filepath.Dir(path), 0o755); w.err == nil { //nolint:gosec // as in Write
		w.err = os.WriteFile(path, []byte(content), 0o644) //nolint:gosec // as above
	}
}

// source writes the source, the handler that is compiled to a script, and the main module of a language that is compiled to a binary.
func (w *writer) source(ctx context.Context, l *language.Language, files sourcefiles.Files) {
	for _, name := range files.Names() {
		w.text(language.SourceDir+"/"+name, string(files[name]))
	}
	if w.err != nil {
		return
	}
	if w.err = bundle.Source(ctx, l, filepath.Join(w.dir, language.SourceDir)); w.err != nil || l.Compiled == nil {
		return
	}
	added, problem := l.Compiled.Project(language.Project{
		Names: files.Names(), Read: func(name string) string { return string(files[name]) }, Server: "../runtime", Manifest: l.Packages.Manifest,
	})
	if problem != "" {
		w.err = exit.Errorf(exit.Usage, "%s", problem)
	}
	for name, content := range added {
		w.text(name, content)
	}
}

// server writes the sources of the runtime.
func (w *writer) server(l *language.Language) {
	for name, content := range l.Ejected.Files {
		w.text(name, content)
	}
	if w.err != nil {
		return
	}
	tree, err := runtimes.Of(l.Folder)
	if err == nil {
		err = tree.Write(filepath.Join(w.dir, filepath.FromSlash(l.Ejected.Server)))
	}
	w.err = err
}

// readable lets the image's user read all files.
func (w *writer) readable() {
	if w.err != nil {
		return
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		w.err = err
		return
	}
	defer func() { _ = root.Close() }()
	w.err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		mode := fs.FileMode(0o644)
		if entry.IsDir() || strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		return root.Chmod(path, mode)
	})
}

// script returns run.sh.
func script(fn Function, l *language.Language) string {
	var text strings.Builder
	text.WriteString(`#!/bin/sh
# Builds and runs the Function on this machine, without an image, at http://127.0.0.1:8080 or another FUNC_PORT.
set -eu
cd "$(dirname "$0")"
export FUNC_PORT="${FUNC_PORT:-8080}"
`)
	for _, variable := range workload.Environment(fn.Function.Function, fn.Spec.Runtime, "", workload.Addresses{}) {
		switch {
		case !shellName.MatchString(variable.Name): // Kubernetes takes dots and hyphens
			fmt.Fprintf(&text, "# kubernetes.yaml has a variable with a name that no shell has: %q\n", variable.Name)
		case variable.ValueFrom != nil:
			fmt.Fprintf(&text, ": \"${%s:?set it as the cluster does, see kubernetes.yaml}\"\n", variable.Name)
		case variable.Value != "":
			fmt.Fprintf(&text, "export %s=%s\n", variable.Name, quoted(variable.Value))
		}
	}
	return text.String() + l.Ejected.Run
}

var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// quoted returns a value as one word of a shell.
func quoted(value string) string { return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'" }

// lostBy returns what the Function had by Rouse's controllers.
func lostBy(fn Function) []string {
	var lost []string
	if scale := fn.Spec.ScaleConfig; scale != nil {
		low, high := workload.ReplicaBounds(fn.Function.Function)
		lost = append(lost, fmt.Sprintf("scaling from %d to %d: the Deployment has a fixed number of replicas", low, high))
	}
	if fn.Spec.RuntimeImageOverride != "" {
		lost = append(lost, fmt.Sprintf("spec.runtimeImageOverride (%s): the Dockerfile begins with the official image; BASE_IMAGE changes that",
			fn.Spec.RuntimeImageOverride))
	}
	if len(fn.Spec.Annotations) > 0 {
		lost = append(lost, "spec.annotations")
	}
	return slices.Clip(lost)
}

//nolint:lll // paragraphs
var readme = template.Must(template.New("README.md").Parse(`# {{.Name}}

This folder has all of a Function that needs Rouse no more:

| | |
|---|---|
| ` + "`source`" + ` | its source, ready to be run |
| ` + "`runtime`" + ` | the sources of the HTTP server that calls the handler, as Rouse's runtime has them |
| ` + "`Dockerfile`" + ` | builds an image of both from an official image |
| ` + "`kubernetes.yaml`" + ` | a Deployment and a Service with the names that the Function had |
| ` + "`run.sh`" + ` | runs it on this machine as a process |

    docker build -t {{.Image}} . && docker push {{.Image}}
    kubectl apply -n {{.Namespace}} -f kubernetes.yaml

A Function of the same name owns a Deployment and a Service of that name: delete it first, or use another namespace. ConfigMaps and Secrets that kubernetes.yaml names have to be there. Events come by HTTP, as CloudEvents: a Subscription whose sink is the Service goes on delivering them, as long as Rouse's eventbridge runs, and so does another broker that speaks CloudEvents over HTTP. For events that the handler emits, PUBLISHER_PROXY_ADDRESS has to be the URL that takes them.
{{if .Lost}}
What Rouse's controllers did for it, and nothing does now:
{{range .Lost}}
- {{.}}
{{- end}}
{{end}}`))

func (w *writer) readme(fn Function, lost []string) {
	var text strings.Builder
	err := readme.Execute(&text, map[string]any{"Name": fn.Name, "Namespace": fn.Namespace, "Image": fn.Image, "Lost": lost})
	if w.err == nil {
		w.err = err
	}
	w.text("README.md", text.String())
}

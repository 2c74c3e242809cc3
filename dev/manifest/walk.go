package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"github.com/rouse-run/rouse/internal/sourcefiles"
)

const (
	// ignoreFile holds patterns of files to leave out, in the syntax of .gitignore.
	ignoreFile = ".rouseignore"
	// gitignoreFile leaves files out of the source of Functions, too.
	gitignoreFile = ".gitignore"
	// chartFile marks the folder of a Helm chart, whose files are templates.
	chartFile = "Chart.yaml"
)

// walker finds the files of a folder that have to be read.
type walker struct {
	*collection

	dir            string
	patterns       []gitignore.Pattern
	kustomizations []string
	files          []string
}

// walk finds the folders with a kustomization, and the YAML files outside of them or only for this machine.
func (c *collection) walk(dir string) (*walker, error) {
	w := &walker{collection: c, dir: filepath.Clean(dir)}
	err := filepath.WalkDir(w.dir, w.visit)
	if err == nil {
		_, err = os.ReadDir(w.dir) // fails for a file
	}
	return w, err
}

func (w *walker) visit(path string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return w.fails(path, err)
	case path != w.dir && w.leavesOut(path, entry):
		if entry.IsDir() {
			return fs.SkipDir
		}
	case entry.IsDir():
		return w.enter(path)
	case entry.Name() == envFile:
		w.addVariables(path)
	case isYAML(path) && (!w.built(path) || isLocal(path)):
		w.files = append(w.files, path)
	}
	return nil
}

// fails leaves out a folder that cannot be read, unless it is the whole.
func (w *walker) fails(path string, err error) error {
	if path == w.dir {
		return err
	}
	if !w.built(path) {
		w.unreadable(path, err)
	}
	return fs.SkipDir
}

// leavesOut reports whether a file or folder is hidden, installed by npm, or matched by an ignoreFile.
func (w *walker) leavesOut(path string, entry fs.DirEntry) bool {
	hidden := ignored(entry.Name()) && (entry.IsDir() || entry.Name() != envFile)
	return hidden || gitignore.NewMatcher(w.patterns).Match(w.segments(path), entry.IsDir())
}

// enter reads what a folder says about its files.
func (w *walker) enter(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, chartFile)); err == nil {
		if folder == w.dir {
			w.problems = append(w.problems, Problem{
				Position: Position{File: filepath.Join(folder, chartFile)}, Warning: true,
				Message: "this folder is a Helm chart, whose templates are not read", Remedy: "read what helm template writes, in another folder",
			})
		}
		return fs.SkipDir
	}
	w.addPatterns(folder)
	if kustomizationIn(folder) != "" && !w.built(folder) {
		w.kustomizations = append(w.kustomizations, folder)
	}
	return nil
}

// addPatterns adds the patterns of a folder. They take precedence over those of the folders above, as in Git.
func (w *walker) addPatterns(folder string) {
	path := filepath.Join(folder, ignoreFile)
	content, err := readFile(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.unreadable(path, err)
		}
		return
	}
	w.patterns = append(w.patterns, sourcefiles.Patterns(string(content), w.segments(folder))...)
}

// segments returns the names on the way from the folder to a path below it.
func (w *walker) segments(path string) []string {
	relative, err := filepath.Rel(w.dir, path)
	if err != nil || relative == "." {
		return nil
	}
	return strings.Split(relative, string(filepath.Separator))
}

// built reports whether a path is below a folder with a kustomization. Folders are walked one after the other, so it can only be the last.
func (w *walker) built(path string) bool {
	return len(w.kustomizations) > 0 && within(w.kustomizations[len(w.kustomizations)-1], path)
}

func within(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// ignored reports whether a file or folder is hidden, or installed by npm.
func ignored(name string) bool { return strings.HasPrefix(name, ".") || name == "node_modules" }

// watched reports whether a change of the file or folder counts.
func watched(name string) bool {
	return name == ignoreFile || name == gitignoreFile || name == envFile || !ignored(name) && !strings.HasSuffix(name, "~")
}

func isYAML(path string) bool {
	extension := strings.ToLower(filepath.Ext(path))
	return extension == ".yaml" || extension == ".yml"
}

// isLocal reports whether a manifest is only for this machine, so that no kustomization lists it.
func isLocal(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	return strings.HasSuffix(strings.TrimSuffix(name, filepath.Ext(name)), ".local")
}

// ours finds the kinds and API groups of local mode, also in files that are no YAML.
var ours = regexp.MustCompile(`\bkind["']?\s*:\s*["']?(?:Function|Subscription|Schedule|Door|APIRule|GitRepository|ConfigMap|Secret)(?:List)?\b|` +
	`\b(?:serverless|eventing|gateway)\.kyma-project\.io/|\brouse\.run/`)

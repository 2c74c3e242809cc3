package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/rouse-run/rouse/runtimes/languages"
)

// File is one file of a new Function.
type File struct {
	// Name is relative to the Function's folder, with slashes.
	Name    string
	Content []byte
}

//go:embed templates
var templates embed.FS

// page is what the templates know: the Function, and what follows from it.
type page struct {
	Function
	Event, ShortHost               bool
	Sink                           string
	HandlerFile, TestFile          string
	DependenciesFile, LaunchConfig string
	Style, TestCommand             string
}

// Files lists the files of a new Function, sorted by name. It is pure: nothing is written.
func Files(f Function) ([]File, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	p, err := newPage(f)
	if err != nil {
		return nil, err
	}
	sources := map[string]string{
		p.HandlerFile:     p.Style + "/" + p.HandlerFile,
		p.TestFile:        p.Style + "/" + p.TestFile,
		functionFile:      functionFile,
		kustomizationFile: kustomizationFile,
		"README.md":       "README.md",
	}
	if p.LaunchConfig != "" {
		sources[".vscode/launch.json"] = p.LaunchConfig
	}
	if p.Event {
		sources[subscriptionFile] = subscriptionFile
	}
	if f.Host != "" {
		sources[apiRuleFile] = apiRuleFile
	}
	if f.Dependencies {
		sources[p.DependenciesFile] = p.DependenciesFile
	}
	files := make([]File, 0, len(sources))
	for name, source := range sources {
		content, err := render(source, p)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		files = append(files, File{Name: name, Content: content})
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return files, nil
}

// The manifests of a Function.
const (
	functionFile      = "function.yaml"
	subscriptionFile  = "subscription.yaml"
	apiRuleFile       = "apirule.yaml"
	kustomizationFile = "kustomization.yaml"
)

func newPage(f Function) (page, error) {
	known, err := languages.Of(f.Runtime)
	if err != nil {
		return page{}, err
	}
	style := "legacy"
	if known.Runtime(string(f.Runtime)).Modern {
		style = "modern"
	}
	return page{
		Function: f, Event: f.Trigger == TriggerEvent, ShortHost: !strings.Contains(f.Host, "."), Sink: f.sink(),
		Style: known.Name + "-" + style, HandlerFile: known.Handler, DependenciesFile: known.Packages.Manifest,
		TestFile: known.Scaffold.Test, TestCommand: known.Scaffold.TestCommand, LaunchConfig: known.Scaffold.LaunchConfig,
	}, nil
}

func render(source string, p page) ([]byte, error) {
	text, err := templates.ReadFile("templates/" + source + ".tmpl")
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(source).Option("missingkey=error").
		Funcs(template.FuncMap{"yaml": yamlText, "json": jsonText, "js": jsText, "shell": shellText}).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, p); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// yamlText writes a text as YAML does, with quotes where they are needed.
func yamlText(text string) (string, error) {
	out, err := yaml.Marshal(text)
	return strings.TrimSpace(string(out)), err
}

// jsonText writes a text as a literal of JSON, which other languages read as well.
func jsonText(text string) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(text)
	return strings.TrimSpace(out.String()), err
}

// jsText writes a text as a literal of JavaScript, in the quotes that the handlers have.
func jsText(text string) (string, error) {
	out, err := jsonText(text)
	inner := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(out, `"`), `"`), `\"`, `"`)
	return "'" + strings.ReplaceAll(inner, "'", `\'`) + "'", err
}

// shellText writes a text as a word of a shell.
func shellText(text string) string {
	plain := func(r rune) bool { return r < 0x80 && strings.ContainsRune("-_./:@%+=", r) || isAlphanumeric(r) }
	if strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

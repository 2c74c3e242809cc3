package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/schedule"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Trigger is the kind of calls that wake a Function.
type Trigger string

// The triggers.
const (
	// TriggerHTTP is a request to the Function's URL.
	TriggerHTTP Trigger = "http"
	// TriggerEvent is an event that its Subscription matches.
	TriggerEvent Trigger = "event"
	// TriggerCron is an event that its Schedule publishes.
	TriggerCron Trigger = "cron"
)

// Function describes the Function to create.
type Function struct {
	Name, Namespace string
	Runtime         v1alpha2.Runtime
	Trigger         Trigger
	// Type and Source are the type and the source of the events that wake it.
	Type, Source string
	// Cron and TimeZone are those of its Schedule.
	Cron, TimeZone string
	// Dependencies adds the dependency file.
	Dependencies bool
	// Typed takes the variant of the language with types.
	Typed bool
	// Host is the host of its APIRule, at the Gateway; empty for no APIRule.
	Host, Gateway string
}

// runtimes returns the values of --runtime: languages, each with its default runtime, and exact names.
func runtimes() map[string]v1alpha2.Runtime {
	known := map[string]v1alpha2.Runtime{}
	for _, each := range languages.All() {
		known[each.Name] = v1alpha2.Runtime(each.Default)
		for _, runtime := range each.Runtimes {
			known[runtime.Name] = v1alpha2.Runtime(runtime.Name)
		}
	}
	return known
}

// Validate returns all problems, each with its rule.
func (f Function) Validate() error {
	return errors.Join(f.validateNames(), f.validateRuntime(), f.validateTrigger(), f.validateHost())
}

func (f Function) validateNames() error {
	var problems []error
	if len(validation.IsDNS1035Label(f.Name)) > 0 {
		problems = append(problems, fmt.Errorf("%q cannot be the name of a Function: take at most 63 lower-case letters, digits "+
			"and '-', beginning with a letter and ending with a letter or digit", f.Name))
	}
	if len(validation.IsDNS1123Label(f.Namespace)) > 0 {
		problems = append(problems, fmt.Errorf("%q cannot be the name of a namespace: take at most 63 lower-case letters, digits "+
			"and '-', beginning and ending with a letter or digit", f.Namespace))
	}
	return errors.Join(problems...)
}

func (f Function) validateRuntime() error {
	for _, known := range runtimes() {
		if f.Runtime == known {
			return f.validateTypes()
		}
	}
	return fmt.Errorf("there is no runtime %q: take %s", f.Runtime, strings.Join(runtimeNames(), ", "))
}

func (f Function) validateTypes() error {
	known, err := languages.Of(f.Runtime)
	if err != nil || !f.Typed || known.Scaffold.Typed != nil {
		return err
	}
	return fmt.Errorf("--typescript is not for %s: leave it out, or take another --runtime", known.Title)
}

func runtimeNames() []string {
	var names []string
	for name := range runtimes() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f Function) validateTrigger() error {
	switch f.Trigger {
	case TriggerHTTP:
		if f.Cron != "" || f.TimeZone != "" {
			return errors.New("a Function that is called over HTTP has no --cron and no --time-zone: leave them out, or take --trigger cron")
		}
		if f.Type != "" || f.Source != "" {
			return errors.New("a Function that is called over HTTP has no --type and no --source: leave them out, or take --trigger event")
		}
		return nil
	case TriggerEvent:
		if f.Cron != "" || f.TimeZone != "" {
			return errors.New("--cron and --time-zone are for --trigger cron: leave them out, or take that")
		}
		return f.validateSubscription()
	case TriggerCron:
		return errors.Join(f.validateSubscription(), f.validateSchedule())
	default:
		return fmt.Errorf("there is no trigger %q: take %s, %s or %s", f.Trigger, TriggerHTTP, TriggerEvent, TriggerCron)
	}
}

// validateSchedule validates the Schedule with the rules of a cluster.
func (f Function) validateSchedule() error {
	s := &rousev1alpha1.Schedule{ObjectMeta: metav1.ObjectMeta{Name: f.Name, Namespace: f.Namespace}}
	s.Spec.Cron, s.Spec.TimeZone, s.Spec.Event = f.Cron, f.TimeZone, rousev1alpha1.ScheduledEvent{Type: f.Type, Source: f.Source}
	if _, err := schedule.New(s); err != nil {
		return fmt.Errorf("%s", strings.NewReplacer("spec.cron", "--cron", "spec.timeZone", "--time-zone").Replace(err.Error()))
	}
	return nil
}

func (f Function) validateHost() error {
	if f.Host == "" {
		return nil
	}
	var problems []error
	if f.Trigger != TriggerHTTP {
		problems = append(problems, errors.New("--expose is for a Function that is called over HTTP: leave it out, or take --trigger http"))
	}
	if !apirule.IsHost(v2.Host(f.Host)) {
		problems = append(problems, fmt.Errorf("--expose: %q is not a host: take a word such as %s, or a whole name such as %s.example.com, in "+
			"lower-case letters, digits and '-'", f.Host, f.Name, f.Name))
	}
	namespace, name, _ := strings.Cut(f.Gateway, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Label(name)) > 0 {
		problems = append(problems, fmt.Errorf("--gateway: %q is not the namespace and the name of a gateway, such as %s", f.Gateway, defaultGateway))
	}
	return errors.Join(problems...)
}

func (f Function) validateSubscription() error {
	if f.Type == "" || f.Source == "" {
		return errors.New("a Function that is woken by events needs --type and --source of the events, " +
			"for example --type order.received --source shop")
	}
	for flag, value := range map[string]string{"--type": f.Type, "--source": f.Source} {
		if strings.IndexFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			return fmt.Errorf("%s has a character that cannot be printed: %q", flag, value)
		}
	}
	return f.validateFilter()
}

// validateFilter validates the Subscription with the rules of a cluster.
func (f Function) validateFilter() error {
	sub := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: f.Name, Namespace: f.Namespace},
		Spec: eventingv1alpha2.SubscriptionSpec{
			TypeMatching: eventingv1alpha2.TypeMatchingStandard, Source: f.Source, Types: []string{f.Type}, Sink: f.sink(),
		},
	}
	var problems []error
	for _, problem := range admission.Subscription(sub, routing.Policy{}) {
		if problem.Field != "spec.sink" { // it is derived from the names, which were validated
			problems = append(problems, problem)
		}
	}
	return errors.Join(problems...)
}

// sink returns the URL of the Function's Service.
func (f Function) sink() string {
	return fmt.Sprintf("http://%s.%s.svc.cluster.local", f.Name, f.Namespace)
}

// File is a file of a new Function.
type File struct {
	// Name is relative to the Function's folder, with slashes.
	Name    string
	Content []byte
}

//go:embed templates
var templates embed.FS

// page is the data of the templates: the Function, and values derived from it.
type page struct {
	Function
	Event, Timed, ShortHost        bool
	Sink                           string
	HandlerFile, TestFile          string
	DependenciesFile, LaunchConfig string
	Style, TestCommand, TestKit    string
	// SourceFiles are the files of a source with types, others those that types bring.
	SourceFiles, others []string
}

// Files returns the files of a new Function, sorted by name, without writing them.
func Files(f Function) ([]File, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	p, err := newPage(f)
	if err != nil {
		return nil, err
	}
	sources := p.sources()
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

// sources returns the template of each file.
func (p page) sources() map[string]string {
	sources := map[string]string{
		p.HandlerFile:     p.Style + "/" + p.HandlerFile,
		p.TestFile:        p.Style + "/" + p.TestFile,
		functionFile:      functionFile,
		kustomizationFile: kustomizationFile,
		"README.md":       "README.md",
		gitignoreFile:     "gitignore",
	}
	p.addTypes(sources)
	if p.LaunchConfig != "" {
		sources[".vscode/launch.json"] = p.LaunchConfig
	}
	if p.Event {
		sources[subscriptionFile] = subscriptionFile
	}
	if p.Event && p.TestKit != "" {
		sources[p.TestKit] = p.TestKit
	}
	if p.Timed {
		sources[scheduleFile] = scheduleFile
	}
	if p.Host != "" {
		sources[apiRuleFile] = apiRuleFile
	}
	if p.Dependencies && !p.Typed {
		sources[p.DependenciesFile] = p.DependenciesFile
	}
	return sources
}

// addTypes adds the templates of a Function with types.
func (p page) addTypes(sources map[string]string) {
	if !p.Typed {
		return
	}
	sources[kustomizationFile] = "typed/" + kustomizationFile
	for _, name := range p.others {
		sources[name] = "typed/" + strings.TrimPrefix(name, ".")
	}
}

// The manifests of a Function.
const (
	functionFile      = "function.yaml"
	subscriptionFile  = "subscription.yaml"
	scheduleFile      = "schedule.yaml"
	apiRuleFile       = "apirule.yaml"
	kustomizationFile = "kustomization.yaml"
	gitignoreFile     = ".gitignore"
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
	p := page{
		Function: f, Event: f.Trigger != TriggerHTTP, Timed: f.Trigger == TriggerCron, ShortHost: !strings.Contains(f.Host, "."), Sink: f.sink(),
		Style: known.Name + "-" + style, HandlerFile: known.Handler, DependenciesFile: known.Packages.Manifest,
		TestFile: known.Scaffold.Test, TestKit: known.Scaffold.TestKit, TestCommand: known.Scaffold.TestCommand, LaunchConfig: known.Scaffold.LaunchConfig,
	}
	if typed := known.Scaffold.Typed; f.Typed && typed != nil {
		p.Style += "-typed"
		p.HandlerFile, p.TestFile, p.TestKit, p.TestCommand = typed.Handler, typed.Test, "", typed.TestCommand
		p.SourceFiles, p.others = slices.Concat([]string{typed.Handler}, typed.Files), slices.Concat(typed.Others, typed.Files)
	}
	return p, nil
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

// yamlText returns a text as a YAML scalar, quoted where necessary.
func yamlText(text string) (string, error) {
	out, err := yaml.Marshal(text)
	return strings.TrimSpace(string(out)), err
}

// jsonText returns a text as a JSON literal, which other languages read as well.
func jsonText(text string) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(text)
	return strings.TrimSpace(out.String()), err
}

// jsText returns a text as a JavaScript literal, with the quotes of the handlers.
func jsText(text string) (string, error) {
	out, err := jsonText(text)
	inner := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(out, `"`), `"`), `\"`, `"`)
	return "'" + strings.ReplaceAll(inner, "'", `\'`) + "'", err
}

// shellText returns a text as a word of a shell.
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

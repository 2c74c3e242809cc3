package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// options holds the flags of `rouse init`.
type options struct {
	runtime, trigger     string
	eventType, source    string
	cron, timeZone       string
	namespace, directory string
	dependencies, typed  bool
	host, gateway        string
}

// NewCommand returns `rouse init`.
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Write the files of a new Function",
		Long: `init writes a new Function into the folder NAME: its handler with a test, its manifests, and a configuration for
the debugger of VS Code. "rouse dev NAME" and "kubectl apply -k NAME" take the folder as it is.`,
		Example: `  rouse init hello
  rouse init price --expose
  rouse init greet --typescript
  rouse init nightly --cron "0 2 * * *" --time-zone Europe/Berlin
  rouse init thanks --runtime python --type order.invoiced --source invoicing --namespace orders`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Errorf(exit.Usage, "init takes exactly one argument, the name of the Function; see rouse init --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, args[0], o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.runtime, "runtime", languages.All()[0].Name, "`runtime`: "+strings.Join(runtimeNames(), ", "))
	flags.StringVar(&o.trigger, "trigger", "", "what wakes it, http, event or cron (default http, with --type event, with --cron cron)")
	flags.StringVar(&o.cron, "cron", "", "when a Schedule publishes its events, as a `line` of cron (default \"0 * * * *\" for --trigger cron)")
	flags.StringVar(&o.timeZone, "time-zone", "", "time `zone` of --cron, such as Europe/Berlin (default UTC)")
	flags.StringVar(&o.eventType, "type", "", "`type` of the events")
	flags.StringVar(&o.source, "source", "", "`source` of the events")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "`namespace` of the Function")
	flags.StringVar(&o.directory, "directory", ".", "`folder` in which the folder NAME is made")
	flags.BoolVar(&o.dependencies, "dependencies", false, "also write the manifest of packages: "+strings.Join(manifests(), ", "))
	flags.BoolVar(&o.typed, "typescript", false, "write the handler in TypeScript, with the types of events, context and SDK")
	flags.StringVar(&o.host, "expose", "", "also write an APIRule, which exposes it at this `host`; NAME is the Function's name, below the domain of the gateway")
	flags.Lookup("expose").NoOptDefVal = ownName
	flags.StringVar(&o.gateway, "gateway", defaultGateway, "`gateway` of --expose, as namespace/name")
	return cmd
}

const (
	// everyHour is the line of cron where none is named.
	everyHour = "0 * * * *"
	// ownName is the value of --expose without a host. It has capitals, which no host has.
	ownName        = "NAME"
	defaultGateway = "kyma-system/kyma-gateway"
)

// function returns the Function that the flags describe.
func (o options) function(name string) Function {
	f := Function{
		Name: name, Namespace: o.namespace, Runtime: v1alpha2.Runtime(o.runtime), Trigger: Trigger(o.trigger),
		Type: o.eventType, Source: o.source, Cron: o.cron, TimeZone: o.timeZone, Dependencies: o.dependencies,
		Typed: o.typed,
	}
	if o.host != "" {
		f.Host, f.Gateway = o.host, o.gateway
	}
	if f.Host == ownName {
		f.Host = name
	}
	if known, ok := runtimes()[o.runtime]; ok {
		f.Runtime = known
	}
	if f.Trigger == "" {
		f.Trigger = TriggerHTTP
		switch {
		case o.cron != "" || o.timeZone != "":
			f.Trigger = TriggerCron
		case o.eventType != "" || o.source != "":
			f.Trigger = TriggerEvent
		}
	}
	if f.Trigger == TriggerCron {
		f.Type, f.Source, f.Cron = cmp.Or(f.Type, name+".due.v1"), cmp.Or(f.Source, o.namespace), cmp.Or(f.Cron, everyHour)
	}
	return f
}

func run(cmd *cobra.Command, name string, o options) error {
	f := o.function(name)
	if err := f.Validate(); err != nil {
		return exit.Errorf(exit.Usage, "%w", err)
	}
	p, err := newPage(f)
	if err != nil {
		return err
	}
	files, err := Files(f)
	if err != nil {
		return err
	}
	folder := filepath.Join(o.directory, name)
	if err := Write(folder, files); errors.Is(err, ErrExists) {
		return fmt.Errorf("%w: take another name or --directory", err)
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), report(p, folder, files, collection(o.directory)))
	return err
}

// collection returns the path of the kustomization.yaml in the parent folder, empty when there is none.
func collection(directory string) string {
	path := filepath.Join(directory, kustomizationFile)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// manifests returns the names of dependency files.
func manifests() []string {
	var files []string
	for _, each := range languages.All() {
		files = append(files, each.Packages.Manifest)
	}
	return files
}

// report prints the written files and the next steps. collection is a kustomization.yaml next to the folder, or empty.
func report(p page, folder string, files []File, collection string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", folder)
	for _, file := range files {
		fmt.Fprintf(&out, "  %-20s  %s\n", file.Name, purpose(file.Name, p))
	}
	fmt.Fprint(&out, "\nNext:\n")
	step := func(format string, args ...any) { fmt.Fprintf(&out, "  "+format+"\n", args...) }
	word := shellText(folder)
	step("(cd %s && %s)", word, p.TestCommand)
	if collection != "" {
		step("add %q to the resources of %s", "- "+p.Name, collection)
		word = shellText(filepath.Dir(folder))
	}
	step("rouse dev %s", word)
	switch {
	case p.Timed:
		step("rouse schedules run %s/%s", p.Namespace, p.Name)
	case p.Event:
		step("rouse publish --type %s --source %s --data '{\"id\": \"1\"}'", shellText(p.Type), shellText(p.Source))
	default:
		step("rouse invoke %s --namespace %s --data '{\"name\": \"Ada\"}'", p.Name, p.Namespace)
	}
	step("kubectl apply -k %s", word)
	if p.Host != "" {
		step("kubectl get apirule %s --namespace %s # until its state is Ready", p.Name, p.Namespace)
	}
	return out.String()
}

// typedPurposes describe the files of a Function with types.
var typedPurposes = map[string]string{
	kustomizationFile: "lists the files of the Function",
	"tsconfig.json":   "settings of the types",
	"rouse.d.ts":      "types of events, context and SDK",
	".rouseignore":    "files beside the source that are not of it",
}

// purpose describes a file in a few words.
func purpose(name string, p page) string {
	if text := typedPurposes[name]; p.Typed && text != "" {
		return text
	}
	return commonPurpose(name, p)
}

func commonPurpose(name string, p page) string {
	purpose, known := map[string]string{
		p.HandlerFile:      "the handler",
		p.TestFile:         "its test: " + p.TestCommand,
		p.TestKit:          "makes events for the test, and records what is emitted",
		functionFile:       "the Function",
		subscriptionFile:   "which events it gets",
		scheduleFile:       "when its events are due",
		apiRuleFile:        "the host at which it is exposed",
		kustomizationFile:  "puts the handler into the Function",
		p.DependenciesFile: "the packages that it needs",
		gitignoreFile:      "keeps .env and *.local.yaml out of Git",
		"README.md":        "how to go on",
	}[name]
	if !known {
		return "for the debugger of VS Code"
	}
	return purpose
}

// ErrExists is returned when a file or folder exists. Nothing was changed.
var ErrExists = errors.New("it exists; nothing was written")

// Write creates the folder and its files. It fails when the folder exists, so that it never overwrites a file, and removes incomplete
// output.
func Write(folder string, files []File) (err error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil { //nolint:gosec // a project's folders are readable, as those that mkdir makes
		return fmt.Errorf("create the parent folder of %s: %w", folder, err)
	}
	if err := os.Mkdir(folder, 0o755); errors.Is(err, os.ErrExist) { //nolint:gosec // as above
		return fmt.Errorf("%s: %w", folder, ErrExists)
	} else if err != nil {
		return fmt.Errorf("create a folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	for _, file := range files {
		path := filepath.Join(folder, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as above
			return fmt.Errorf("create a folder: %w", err)
		}
		if err := os.WriteFile(path, file.Content, 0o644); err != nil { //nolint:gosec // a project's files are readable
			return fmt.Errorf("write a file: %w", err)
		}
	}
	return nil
}

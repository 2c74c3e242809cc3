package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/eventschema"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

func newEventTypes(streams Streams) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "types [DIR]",
		Short: "List types of events with a JSON Schema, or write types of a language from them",
		Long: `types lists the types of events whose data have a JSON Schema: those of the files TYPE` + eventschema.Suffix + ` in a folder
and below, as dev uses them, or with --context those that the cluster's operator has set. Published events have to fit.

With --language it writes types of that language, for handlers and their tests: ` + strings.Join(typedLanguages(), ", ") + `.`,
		Example: `  rouse events types
  rouse events types --language ` + typedLanguages()[0] + ` > events.d.ts
  rouse events types --context staging`,
		Args: atMostOne,
	}
	s := askCluster(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.GroupID = ""
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	cmd.Flags().StringVar(&to, "language", "", "write types of this language instead: "+strings.Join(typedLanguages(), ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		write, err := typesOf(to)
		if err != nil {
			return err
		}
		set, err := s.schemas(cmd.Context(), args)
		if err != nil {
			return err
		}
		if write != nil {
			_, err := io.WriteString(s.Out, write(set.Types()))
			return err
		}
		return s.listTypes(set)
	}
	return cmd
}

// typedLanguages returns the names of the languages that types are made in.
func typedLanguages() []string {
	var names []string
	for _, l := range languages.All() {
		if l.Types.Write != nil {
			names = append(names, l.Types.Name)
		}
	}
	return names
}

// typesOf returns what writes the types of a language, nil for none.
func typesOf(name string) (func([]language.EventType) string, error) {
	if name == "" {
		return nil, nil
	}
	for _, l := range languages.All() {
		if l.Types.Write != nil && l.Types.Name == name {
			return l.Types.Write, nil
		}
	}
	return nil, exit.Errorf(exit.Usage, "--language %q: take one of %s", name, strings.Join(typedLanguages(), ", "))
}

// schemas returns those of a folder, or of the cluster that the flags name.
func (s *session) schemas(ctx context.Context, args []string) (eventschema.Set, error) {
	if s.options.IsCluster() {
		if len(args) > 0 {
			return nil, exit.Errorf(exit.Usage, "a folder and a cluster contradict each other: leave one out")
		}
		return s.schemasOfCluster(ctx)
	}
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	set, problems, err := eventschema.ReadFolder(os.DirFS(dir))
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "read the schemas: %w", err)
	}
	for file, problem := range problems {
		return nil, exit.Errorf(exit.Usage, "%s: %w", file, problem)
	}
	return set, nil
}

func (s *session) schemasOfCluster(ctx context.Context) (set eventschema.Set, err error) {
	err = s.with(func(conn *target.Connection) error {
		s.reportProgress("asking " + conn.Name + " for types of events")
		client, err := bridgeOf(ctx, conn)
		if err != nil {
			return err
		}
		texts, err := client.EventTypes(ctx, conn.Namespace)
		if err != nil {
			return err
		}
		files := map[string][]byte{}
		for name, text := range texts {
			files[name+eventschema.Suffix] = text
		}
		var problems map[string]error
		set, problems = eventschema.Read(files)
		for file, problem := range problems {
			return exit.Errorf(exit.Failed, "the cluster's %s: %w", file, problem)
		}
		return nil
	})
	return set, err
}

// listedType is a type in a list.
type listedType struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

func (s *session) listTypes(set eventschema.Set) error {
	all := make([]listedType, 0, len(set))
	for _, schema := range set.Sorted() {
		all = append(all, listedType{schema.Type, schema.Text})
	}
	if written, err := writeList(s, all, func(each listedType) any { return each.Type }); written {
		return err
	}
	if len(all) == 0 {
		s.note("no type of events has a schema: a file TYPE%s would be one", eventschema.Suffix)
		return nil
	}
	table := output.NewTable("TYPE", "DATA")
	for _, event := range set.Types() {
		table.Row(output.Clean(event.Type), output.Clean(summary(event.Data)))
	}
	return table.Flush(s.Out)
}

// summary names the members of the data, optional ones with a question mark.
func summary(shape *language.Shape) string {
	if shape.Kind != language.ShapeObject || len(shape.Fields) == 0 {
		return "-"
	}
	const most = 8
	names := make([]string, 0, most+1)
	for _, field := range shape.Fields[:min(len(shape.Fields), most)] {
		name := field.Name
		if !field.Required {
			name += "?"
		}
		names = append(names, name)
	}
	if more := len(shape.Fields) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

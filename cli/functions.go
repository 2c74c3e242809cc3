package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

func newFunctions(streams Streams) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "functions",
		Aliases: []string{"function", "fn"},
		Short:   "List Functions and how they are",
		Example: `  rouse functions
  rouse functions -n orders -o name
  rouse functions --context production -A`,
		Args: exactly(0, ""),
	}
	s := ask(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.with(func(conn *target.Connection) error { return s.listFunctions(cmd.Context(), conn, all) })
	}
	return cmd
}

func (s *session) listFunctions(ctx context.Context, conn *target.Connection, all bool) error {
	namespace := conn.Namespace
	if all {
		namespace = ""
	}
	s.reportProgress("looking for Functions in " + conn.Name)
	functions, err := conn.Functions(ctx, namespace)
	if err != nil {
		return err
	}
	exposed := conn.Exposed(ctx, namespace)
	for i := range functions {
		functions[i].Exposed = exposed[types.NamespacedName{Namespace: functions[i].Namespace, Name: functions[i].Name}]
	}
	s.endProgress()
	switch s.format.Chosen {
	case output.JSON, output.YAML:
		return output.Write(s.Out, s.format.Chosen, orEmpty(functions))
	case output.Name:
		for _, f := range functions {
			if _, err := fmt.Fprintf(s.Out, "%s/%s\n", f.Namespace, f.Name); err != nil {
				return err
			}
		}
		return nil
	case output.Text:
	}
	if len(functions) == 0 {
		s.note("there are no Functions in %s", cmp.Or(namespace, conn.Name))
		return nil
	}
	return s.functionTable(functions, conn.Local)
}

func (s *session) functionTable(functions []target.Function, local bool) error {
	table := output.NewTable("NAMESPACE", "NAME", "STATE", "READY", "BACKLOG", "RUNTIME", "URL", "LAST ERROR")
	for _, f := range functions {
		backlog := "-"
		if f.Backlog != nil {
			backlog = strconv.FormatInt(*f.Backlog, 10)
		}
		lastError, _, _ := strings.Cut(f.LastError, "\n")
		table.Row(f.Namespace, s.style.Name(f.Name), s.phase(f.Phase), fmt.Sprintf("%d/%d", f.Ready, f.Desired), backlog,
			f.Runtime, reachableURL(&f, local), lastError)
	}
	return table.Flush(s.Out)
}

// reachableURL is where who reads the list can call the Function: in a cluster only at the host of an APIRule.
func reachableURL(f *target.Function, local bool) string {
	switch more := len(f.Exposed) - 1; {
	case more > 0:
		return fmt.Sprintf("%s (+%d)", f.Exposed[0], more)
	case more == 0:
		return f.Exposed[0]
	case local:
		return f.URL
	}
	return ""
}

func (s *session) phase(phase string) output.Styled {
	switch phase {
	case "ready":
		return s.style.Good(phase)
	case "failing":
		return s.style.Bad(phase)
	case "asleep":
		return s.style.Dim(phase)
	}
	return s.style.Busy(phase)
}

// orEmpty is never nil, so that JSON has a list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

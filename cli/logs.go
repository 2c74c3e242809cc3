package cli

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

func newLogs(streams Streams) *cobra.Command {
	var options target.LogOptions
	cmd := &cobra.Command{
		Use:   "logs [FUNCTION...]",
		Short: "Show the logs of Functions",
		Long: `Show what all replicas of Functions print: of the named ones, or of all of the namespace. With -f new lines follow as they come,
also those of replicas that come up later, until Ctrl-C.`,
		Example: `  rouse logs pricing
  rouse logs -f orders/pricing --tail 20
  rouse logs -f --context staging -n orders
  rouse logs pricing --since 10m -o json | jq .text`,
		Args: cobra.ArbitraryArgs,
	}
	s := ask(streams, cmd, output.JSON)
	cmd.ValidArgsFunction = s.complete(functionNames)
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVarP(&options.Follow, "follow", "f", false, "go on until Ctrl-C")
	fs.IntVar(&options.Tail, "tail", -1, "lines of the past (-1: all that are kept)")
	fs.DurationVar(&options.Since, "since", 0, "only lines that are not older, for example 5m")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.with(func(conn *target.Connection) error { return s.logs(cmd.Context(), conn, args, options) })
	}
	return cmd
}

// functionRef names a Function.
type functionRef struct{ namespace, name string }

// refs returns the Functions of the arguments, or one without a name for all of the namespace.
func (s *session) refs(conn *target.Connection, args []string) ([]functionRef, error) {
	if len(args) == 0 {
		return []functionRef{{namespace: conn.Namespace}}, nil
	}
	var refs []functionRef
	for _, arg := range args {
		namespace, name, err := s.function(conn, arg)
		if err == nil && name == "" {
			err = exit.Errorf(exit.Usage, "the name of a Function is empty")
		}
		if err != nil {
			return nil, err
		}
		refs = append(refs, functionRef{namespace, name})
	}
	return refs, nil
}

// logs writes the lines of Functions: as they come when it follows, and otherwise ordered by time.
func (s *session) logs(ctx context.Context, conn *target.Connection, args []string, options target.LogOptions) error {
	refs, err := s.refs(conn, args)
	if err != nil {
		return err
	}
	w := &logWriter{session: s, labelled: len(refs) != 1 || refs[0].name == ""}
	take := w.write
	if !options.Follow && len(refs) > 1 {
		take = w.keep
	}
	readers, reading := errgroup.WithContext(ctx)
	if !options.Follow { // the others are shown also when one sleeps
		readers, reading = &errgroup.Group{}, ctx
	}
	for _, ref := range refs {
		readers.Go(func() error { return conn.Log(reading, ref.namespace, ref.name, options, take) })
	}
	err = readers.Wait()
	w.flush()
	switch {
	case w.failed != nil:
		return w.failed
	case ctx.Err() != nil:
		return nil //nolint:nilerr // Ctrl-C is how following ends
	}
	return err
}

// logWriter writes the lines of several Functions.
type logWriter struct {
	*session

	labelled bool // each line names its Function

	mu     sync.Mutex
	kept   []target.Line
	failed error
}

func (w *logWriter) keep(line target.Line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, line)
}

// flush writes the kept lines, ordered by time.
func (w *logWriter) flush() {
	slices.SortStableFunc(w.kept, func(a, b target.Line) int { return a.Time.Compare(b.Time) })
	for _, line := range w.kept {
		w.write(line)
	}
}

func (w *logWriter) write(line target.Line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endProgress()
	if w.failed == nil {
		w.failed = w.writeLine(line)
	}
}

func (w *logWriter) writeLine(line target.Line) error {
	if w.format.Chosen == output.JSON {
		return output.WriteOne(w.Out, output.JSON, line)
	}
	cells := []any{w.style.Dim(line.Time.Local().Format(clock))}
	if w.labelled {
		cells = append(cells, w.style.Paint(colorOf(line.Function), line.Function))
	}
	text := output.Styled(line.Text)
	if line.Stream == "rouse" {
		text = w.style.Dim(line.Text)
	}
	cells = append(cells, w.style.Paint(colorOf(line.Replica), line.Replica), text)
	_, err := fmt.Fprintln(w.Out, cells...)
	return err
}

// clock is the format of today's times.
const clock = "15:04:05.000"

// colorOf returns the color of a replica.
func colorOf(name string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return int(hash.Sum32() % output.Colors)
}

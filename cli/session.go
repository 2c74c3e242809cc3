package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// session is the flags of one command about its target and its output.
type session struct {
	Streams

	options target.Options
	format  output.Choices
	style   output.Style

	mu       sync.Mutex
	progress *output.Progress
}

// ask makes a command that talks to a target. formats are the values of -o.
func ask(streams Streams, cmd *cobra.Command, formats ...output.Format) *session {
	s := &session{Streams: streams, format: output.Choices{Allowed: formats}, style: output.StyleOf(streams.Out)}
	cmd.GroupID = groupAsk
	fs := cmd.PersistentFlags()
	fs.SortFlags = false
	fs.StringVarP(&s.options.Namespace, "namespace", "n", "", "namespace; without it: in a cluster that of the context, in local mode any")
	fs.StringVar(&s.options.Context, "context", "", "ask the cluster of this context of the kubeconfig, not the local mode")
	fs.StringVar(&s.options.Kubeconfig, "kubeconfig", "", "ask the cluster of this kubeconfig, not the local mode")
	fs.StringVar(&s.options.RouseNamespace, "rouse-namespace", target.DefaultRouseNamespace, "namespace that Rouse is installed in, in a cluster")
	fs.StringSliceVar(&s.options.AdminURLs, "admin-url", nil, "URL of the admin API, in a cluster, one of each bridge (default: port-forward)")
	fs.StringVar(&s.options.ServiceAccount, "service-account", "", "log in to the admin API as this ServiceAccount, NAMESPACE/NAME (default: by the\nkubeconfig's token, and without one as rouse-admin of the namespace of Rouse)")
	fs.StringVar(&s.options.Directory, "dir", "", "folder whose local mode is meant (default: the working directory)")
	if len(formats) > 0 {
		fs.VarP(&s.format, "output", "o", "write for programs: "+s.format.Names())
	}
	s.completeFlag(cmd, "namespace", namespaceNames)
	s.options.Note = s.reportProgress
	return s
}

// open finds the target. The caller closes it.
func (s *session) open() (*target.Connection, error) { return target.Open(s.options) }

// with opens the target for one call.
func (s *session) with(do func(conn *target.Connection) error) error {
	conn, err := s.open()
	if err != nil {
		return err
	}
	err = do(conn)
	s.endProgress()
	if closing := conn.Close(); err == nil && closing != nil {
		return fmt.Errorf("let go of %s: %w", conn.Name, closing)
	}
	return err
}

// reportProgress shows what is waited for, if that takes long.
func (s *session) reportProgress(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		s.progress = output.NewProgress(s.Err, text)
		return
	}
	s.progress.SetText(text)
}

// endProgress comes before anything else is written.
func (s *session) endProgress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress != nil {
		s.progress.Done()
		s.progress = nil
	}
}

// note writes a line beside the output.
func (s *session) note(format string, args ...any) {
	s.endProgress()
	_, _ = fmt.Fprintf(s.Err, format+"\n", args...) // notes that cannot be written are no failure
}

// noteOnce is a note for what several bridges answer.
func (s *session) noteOnce() func(text string) {
	var once sync.Once
	return func(text string) { once.Do(func() { s.note("%s", text) }) }
}

func (s *session) forPeople() bool { return s.format.Chosen == output.Text }

// function splits FN, which may be namespace/name.
func (s *session) function(conn *target.Connection, text string) (namespace, name string, err error) {
	before, after, found := strings.Cut(text, "/")
	switch {
	case !found:
		return conn.Namespace, text, nil
	case before == "" || after == "" || strings.Contains(after, "/"):
		return "", "", exit.Errorf(exit.Usage, "%q names no Function: use NAME or NAMESPACE/NAME", text)
	case s.options.Namespace != "" && s.options.Namespace != before:
		return "", "", exit.Errorf(exit.Usage, "--namespace %s and %s contradict each other: leave one out", s.options.Namespace, text)
	}
	return before, after, nil
}

// exactly is cobra.ExactArgs with words.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return exit.Errorf(exit.Usage, "%s is missing: %s", what, cmd.UseLine())
		case len(args) > n:
			return exit.Errorf(exit.Usage, "there is an argument too many, %q: %s", args[n], cmd.UseLine())
		}
		return nil
	}
}

// isTyping reports whether the input is a terminal.
func (s *session) isTyping() bool { return output.IsTerminal(s.In) && output.IsTerminal(s.Err) }

// readContent reads a file, or the input for "-".
func (s *session) readContent(flag, path string) ([]byte, error) {
	if path == "-" {
		return readAll(s.In, flag)
	}
	content, err := os.ReadFile(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "--%s: %w", flag, err)
	}
	return content, nil
}

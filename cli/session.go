package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// session holds the flags of a command about its target and its output.
type session struct {
	Streams

	options target.Options
	format  output.Choices
	style   output.Style

	mu       sync.Mutex
	progress *output.Progress
}

// ask adds the flags of a command that queries a target. formats are the values of -o.
func ask(streams Streams, cmd *cobra.Command, formats ...output.Format) *session {
	s := askCluster(streams, cmd, formats...)
	cmd.PersistentFlags().StringVar(&s.options.Directory, "dir", "", "folder whose local mode is meant (default: the working directory)")
	return s
}

// askCluster adds the flags of a command that is for a cluster alone.
func askCluster(streams Streams, cmd *cobra.Command, formats ...output.Format) *session {
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
	fs.BoolVar(&s.options.Current, currentContext, false, "ask the cluster of the kubeconfig's current context")
	_ = fs.MarkHidden(currentContext) // the flag exists
	if len(formats) > 0 {
		fs.VarP(&s.format, "output", "o", "write for programs: "+s.format.Names())
	}
	s.completeFlag(cmd, "namespace", namespaceNames)
	s.options.Note = s.reportProgress
	return s
}

// currentContext is the flag that is set when kubectl runs this program.
const currentContext = "current-context"

// withObjects opens a cluster to read and write objects.
func (s *session) withObjects(do func(conn *target.Connection, objects *target.Objects) error) error {
	if !s.options.IsCluster() {
		return exit.Errorf(exit.Usage, "this is for a cluster: name one with --context or --kubeconfig; kubectl config get-contexts lists them")
	}
	return s.with(func(conn *target.Connection) error {
		objects, err := conn.Objects()
		if err != nil {
			return err
		}
		return do(conn, objects)
	})
}

// open finds the target. The caller closes it.
func (s *session) open() (*target.Connection, error) { return target.Open(s.options) }

// with opens the target for a call.
func (s *session) with(do func(conn *target.Connection) error) error {
	conn, err := s.open()
	if err != nil {
		return err
	}
	err = do(conn)
	s.endProgress()
	if closing := conn.Close(); err == nil && closing != nil {
		return fmt.Errorf("close the connection to %s: %w", conn.Name, closing)
	}
	return err
}

// reportProgress shows what the command waits for, if that takes long.
func (s *session) reportProgress(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		s.progress = output.NewProgress(s.Err, text, cmp.Or(s.ProgressAfter, output.ProgressPause))
		return
	}
	s.progress.SetText(text)
}

// endProgress has to be called before any other output.
func (s *session) endProgress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// end ends the progress. The caller holds mu.
func (s *session) end() {
	if s.progress != nil {
		s.progress.Done()
		s.progress = nil
	}
}

// note writes a line to standard error.
func (s *session) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	_, _ = fmt.Fprintf(s.Err, format+"\n", args...) // a note that cannot be written is not an error
}

// noteOnce returns a function that writes one note, for messages that several bridges return.
func (s *session) noteOnce() func(text string) {
	var once sync.Once
	return func(text string) { once.Do(func() { s.note("%s", text) }) }
}

func (s *session) forPeople() bool { return s.format.Chosen == output.Text }

// function splits the argument FN, which may be NAMESPACE/NAME.
func (s *session) function(conn *target.Connection, text string) (namespace, name string, err error) {
	before, after, found := strings.Cut(text, "/")
	switch {
	case !found:
		return conn.Namespace, text, nil
	case before == "" || after == "" || strings.Contains(after, "/"):
		return "", "", exit.Errorf(exit.Usage, "%q is not the name of a Function: use NAME or NAMESPACE/NAME", text)
	case s.options.Namespace != "" && s.options.Namespace != before:
		return "", "", exit.Errorf(exit.Usage, "--namespace %s and %s contradict each other: leave one out", s.options.Namespace, text)
	}
	return before, after, nil
}

// exactly is cobra.ExactArgs with a message that names the argument.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return exit.Errorf(exit.Usage, "%s is missing: %s", what, cmd.UseLine())
		case len(args) > n:
			return exit.Errorf(exit.Usage, "unexpected argument %q: %s", args[n], cmd.UseLine())
		}
		return nil
	}
}

// atMostOne allows an argument.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exactly(1, "")(cmd, args)
	}
	return nil
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

// readData returns the value of --data: the text itself, or as in curl what a file or the input has for "@FILE" and "@-".
func (s *session) readData(value string) ([]byte, error) {
	if file, named := strings.CutPrefix(value, "@"); named {
		return s.readContent("data", file)
	}
	return []byte(value), nil
}

// completeTimeout bounds a completion, because the shell waits for it.
const completeTimeout = 2 * time.Second

// lookup returns the candidates for a word on the command line.
type lookup func(ctx context.Context, conn *target.Connection, word string) ([]string, error)

// complete returns a completion function for a lookup. A lookup that fails or times out completes nothing and prints nothing.
func (s *session) complete(find lookup) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		found := make(chan []string, 1)
		go func() { found <- s.found(ctx, find, word) }() // a credential plugin may outlast ctx; the process ends anyway
		select {
		case words := <-found:
			return words, cobra.ShellCompDirectiveNoFileComp
		case <-ctx.Done():
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

func (s *session) found(ctx context.Context, find lookup, word string) []string {
	options := s.options
	options.Note = nil
	conn, err := target.Open(options)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }() // the process ends anyway
	words, err := find(ctx, conn, word)
	if err != nil {
		return nil
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, word) || !harmless(w) })
	slices.Sort(words)
	return slices.Compact(words)
}

// harmless reports whether a shell leaves a word unchanged. Types and sources may have any characters, and tenants write them.
func harmless(word string) bool {
	const deadLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"
	return word != "" && !strings.HasPrefix(word, "-") && strings.Trim(word, deadLetters) == ""
}

// completeFlag completes the value of a flag.
func (s *session) completeFlag(cmd *cobra.Command, flag string, find lookup) {
	if err := cmd.RegisterFlagCompletionFunc(flag, s.complete(find)); err != nil {
		panic(err) // the flag does not exist
	}
}

// once completes the first argument only.
func once(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, word)
	}
}

// scopeOf returns the namespace in which a word is looked up, and the prefix of candidates: empty, or the namespace that was typed.
func scopeOf(conn *target.Connection, word string) (namespace, prefix string) {
	if before, _, typed := strings.Cut(word, "/"); typed {
		return before, before + "/"
	}
	return conn.Namespace, ""
}

func functionNames(ctx context.Context, conn *target.Connection, word string) (words []string, err error) {
	namespace, prefix := scopeOf(conn, word)
	all, err := conn.Functions(ctx, namespace)
	for _, f := range all {
		words = append(words, prefix+f.Name)
	}
	return words, err
}

func subscriptionNames(ctx context.Context, conn *target.Connection, _ string) (words []string, err error) {
	all, err := conn.Subscriptions(ctx, conn.Namespace)
	for _, s := range all {
		words = append(words, s.Name)
	}
	return words, err
}

// fullSubscriptionNames returns names with a namespace, where there is no default or one was typed.
func fullSubscriptionNames(ctx context.Context, conn *target.Connection, word string) (words []string, err error) {
	namespace, prefix := scopeOf(conn, word)
	all, err := conn.Subscriptions(ctx, namespace)
	for _, s := range all {
		if conn.Namespace == "" {
			prefix = s.Namespace + "/"
		}
		words = append(words, prefix+s.Name)
	}
	return words, err
}

func namespaceNames(ctx context.Context, conn *target.Connection, _ string) ([]string, error) {
	return conn.Namespaces(ctx)
}

// eventTypes returns the types that Subscriptions match, from one source or from any.
func eventTypes(source *string) lookup {
	return func(ctx context.Context, conn *target.Connection, _ string) (words []string, err error) {
		all, err := conn.Subscriptions(ctx, "")
		for _, s := range all {
			if *source == "" || s.Source == *source {
				words = append(words, s.Types...)
			}
		}
		return words, err
	}
}

// eventSources returns the sources that Subscriptions match, of one type or of any.
func eventSources(eventType *string) lookup {
	return func(ctx context.Context, conn *target.Connection, _ string) (words []string, err error) {
		all, err := conn.Subscriptions(ctx, "")
		for _, s := range all {
			if *eventType == "" || slices.Contains(s.Types, *eventType) {
				words = append(words, s.Source)
			}
		}
		return words, err
	}
}

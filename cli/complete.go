package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/target"
)

// completeTimeout bounds a completion: a shell waits for it at each press of the key.
const completeTimeout = 2 * time.Second

// lookup finds what a word on the command line may become.
type lookup func(ctx context.Context, conn *target.Connection, word string) ([]string, error)

// complete makes a completion of a lookup. What fails or takes too long completes nothing and prints nothing.
func (s *session) complete(find lookup) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		found := make(chan []string, 1)
		go func() { found <- s.found(ctx, find, word) }() // a plugin for credentials may outlast ctx; the process ends then
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
	defer func() { _ = conn.Close() }() // it ends with the process
	words, err := find(ctx, conn, word)
	if err != nil {
		return nil
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, word) || !harmless(w) })
	slices.Sort(words)
	return slices.Compact(words)
}

// harmless reports whether a shell leaves a word as it is. Types and sources may have any characters, and a tenant writes
// them.
func harmless(word string) bool {
	const deadLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"
	return word != "" && !strings.HasPrefix(word, "-") && strings.Trim(word, deadLetters) == ""
}

// completeFlag completes the value of a flag.
func (s *session) completeFlag(cmd *cobra.Command, flag string, find lookup) {
	if err := cmd.RegisterFlagCompletionFunc(flag, s.complete(find)); err != nil {
		panic(err) // there is no such flag
	}
}

// once completes the first argument alone.
func once(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, word)
	}
}

// scopeOf is the namespace in which a word is looked up, and what stands before its name: nothing, or the namespace that
// is typed already.
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

// fullSubscriptionNames have their namespace, where none goes without saying or one is typed already.
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

// eventTypes are those that Subscriptions take, from one source or from any.
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

// eventSources are those of a type, or of any.
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

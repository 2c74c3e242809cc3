package migrate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/convert"
	"github.com/rouse-run/rouse/cli/exit"
)

// ofInput is the file that the input is written to with --output.
const ofInput = "manifests.yaml"

// NewCommand is `rouse migrate`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Write manifests of old versions in the one that is served",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exit.Errorf(exit.Usage, "there is nothing to migrate called %q: use %s apirule", args[0], cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAPIRule())
	return cmd
}

func newAPIRule() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:   "apirule [FILE|-]...",
		Short: "Write APIRules of v1beta1 and v1alpha1 as v2",
		Long: `apirule reads manifests from files, or from the input, and writes them to the output with the APIRules of v1beta1 and
v1alpha1 as v2. So it does with those that were stored as v2 without a spec, whose old one is in an annotation. Lists, as kubectl get
prints them, are taken apart; all other objects pass as they are.

An APIRule of which anything cannot be written as v2 is left out as a whole, because what remained of it could open what it kept
closed. The attributes are listed, with what to do, and the exit code is 1. No cluster is asked and nothing is applied.`,
		Example: `  rouse migrate apirule apirules.yaml > apirules-v2.yaml
  kubectl get apirules -A -o yaml | rouse migrate apirule > apirules-v2.yaml
  rouse migrate apirule -o migrated deploy/*.yaml`,
		Args:    cobra.ArbitraryArgs,
		Aliases: []string{"apirules"},
		RunE:    func(cmd *cobra.Command, args []string) error { return run(cmd, args, folder) },
	}
	cmd.Flags().StringVarP(&folder, "output", "o", "", "`folder` for the files, under their names, instead of the output; none is overwritten")
	return cmd
}

// file is one of the arguments, converted.
type file struct {
	path   string
	result Result
}

func run(cmd *cobra.Command, args []string, folder string) error {
	if len(args) == 0 {
		args = []string{convert.Input}
	}
	files := make([]file, len(args))
	for i, path := range args {
		name, content, err := convert.ReadFile(cmd.InOrStdin(), path)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		result, err := APIRules(name, content)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		files[i] = file{path, result}
	}
	var err error
	if folder == "" {
		err = writeOutput(cmd.OutOrStdout(), files)
	} else {
		err = writeFolder(folder, files)
	}
	if err != nil {
		return err
	}
	return report(cmd.ErrOrStderr(), files)
}

// writeOutput writes all documents to the output.
func writeOutput(out io.Writer, files []file) error {
	var all Result
	for _, f := range files {
		if len(f.result.Content) > 0 {
			all.write(f.result.Content)
		}
	}
	if _, err := out.Write(all.Content); err != nil {
		return fmt.Errorf("write the manifests: %w", err)
	}
	return nil
}

// writeFolder writes a file for each one that was read, under its name. It writes nothing when two would have the same, or one is there.
func writeFolder(folder string, files []file) error {
	paths := make([]string, len(files))
	for i, f := range files {
		name := filepath.Base(f.path)
		if f.path == convert.Input {
			name = ofInput
		}
		paths[i] = filepath.Join(folder, name)
		if twin := slices.Index(paths[:i], paths[i]); twin >= 0 {
			return exit.Errorf(exit.Usage, "%s and %s would both become %s: convert one at a time", files[twin].path, f.path, paths[i])
		}
		if _, err := os.Lstat(paths[i]); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already; nothing was written: take another --output", paths[i])
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // manifests are readable, as the folders that mkdir makes
		return exit.Errorf(exit.Usage, "make the folder of --output: %w", err)
	}
	for i, path := range paths {
		if err := writeNew(path, files[i].result.Content); err != nil {
			return err
		}
	}
	return nil
}

// writeNew fails when the file is there.
func writeNew(path string, content []byte) error {
	created, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // manifests are readable, and the user names the folder
	if err != nil {
		return fmt.Errorf("write a manifest: %w", err)
	}
	_, err = created.Write(content)
	if err := errors.Join(err, created.Close()); err != nil {
		return fmt.Errorf("write a manifest: %w", err)
	}
	return nil
}

// report says what was done, and fails when an APIRule was left out.
func report(out io.Writer, files []file) error {
	var all Result
	var text strings.Builder
	for _, f := range files {
		for _, line := range append(f.result.Notes, f.result.Problems...) {
			fmt.Fprintln(&text, line)
		}
		all.Converted += f.result.Converted
		all.Failed += f.result.Failed
		all.Unchanged += f.result.Unchanged
	}
	fmt.Fprintf(&text, "APIRules written as v2: %d, left out: %d; other objects, unchanged: %d\n", all.Converted, all.Failed, all.Unchanged)
	_, _ = io.WriteString(out, text.String()) // notes that cannot be written are no failure
	if all.Failed > 0 {
		return exit.Errorf(exit.Failed, "%d of the APIRules cannot be written as v2: correct them as listed, or write them anew", all.Failed)
	}
	return nil
}

package convert

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
)

// NewCommand is `rouse convert`.
func NewCommand() *cobra.Command {
	var paths []string
	cmd := &cobra.Command{
		Use:   "convert -f FILE|-|DIR...",
		Short: "Write Functions of v1alpha1 and their GitRepositories as v1alpha2",
		Long: `convert reads manifests from files, folders or the input, and writes them to the output with the Functions of
serverless.kyma-project.io/v1alpha1 as v1alpha2. Their GitRepositories have to be among the manifests: they become part of the Functions.
Lists, as kubectl get prints them, are taken apart; all other objects pass as they are.

What changes its meaning is listed, with what to do. A Function that cannot be written, or that would be refused, is left out as a
whole; the exit code is then 1. No cluster is asked and nothing is applied.`,
		Example: `  rouse convert -f functions.yaml -f repositories.yaml > functions-v1alpha2.yaml
  rouse convert -f deploy/ > functions-v1alpha2.yaml
  kubectl get functions.v1alpha1.serverless.kyma-project.io,gitrepositories -A -o yaml | rouse convert -f - > functions-v1alpha2.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, paths) },
	}
	cmd.Flags().StringArrayVarP(&paths, "filename", "f", nil,
		"`file` or folder to read, - for the input; may be given several times. Of a folder its files .yaml, .yml and .json, not those of folders in it")
	return cmd
}

func run(cmd *cobra.Command, paths []string) error {
	if len(paths) == 0 {
		return exit.Errorf(exit.Usage, "there is nothing to convert: name a file or folder with -f, or - for the input")
	}
	files, err := readAll(cmd.InOrStdin(), paths)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	result, err := Functions(cmd.Context(), files)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if _, err := cmd.OutOrStdout().Write(result.Content); err != nil {
		return fmt.Errorf("write the manifests: %w", err)
	}
	return report(cmd.ErrOrStderr(), result)
}

// readAll reads no more of all files than may be read of one.
func readAll(in io.Reader, paths []string) ([]File, error) {
	var files []File
	size := 0
	for _, path := range paths {
		below, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, path := range below {
			name, content, err := ReadFile(in, path)
			if err != nil {
				return nil, err
			}
			if size += len(content); size > MaxInput {
				return nil, fmt.Errorf("the files are larger than %d MiB together: convert them in parts", MaxInput>>20)
			}
			files = append(files, File{name, content})
		}
	}
	return files, nil
}

// filesOf are the files of a folder, or the file itself.
func filesOf(path string) ([]string, error) {
	if path == Input {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			found = append(found, filepath.Join(path, entry.Name()))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no file .yaml, .yml or .json", path)
	}
	return found, nil
}

// report says what was done, and fails when a Function was left out.
func report(out io.Writer, result Result) error {
	var text strings.Builder
	for _, line := range slices.Concat(result.Notes, result.Problems) {
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintf(&text, "Functions written as v1alpha2: %d, left out: %d; GitRepositories no longer needed: %d; other objects, unchanged: %d\n",
		result.Converted, result.Failed, result.Repositories, result.Unchanged)
	_, _ = io.WriteString(out, text.String()) // notes that cannot be written are no failure
	switch {
	case result.Failed > 0:
		return exit.Errorf(exit.Failed, "%d of the Functions cannot be written as v1alpha2: correct them as listed", result.Failed)
	case len(result.Problems) > 0:
		return exit.Errorf(exit.Failed, "%d of the objects cannot be read: correct them as listed", len(result.Problems))
	default:
		return nil
	}
}

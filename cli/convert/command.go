package convert

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
)

const outputUsage = "`folder` to write one file per input file to, instead of standard output; existing files are never overwritten"

// NewCommand returns `rouse convert`.
func NewCommand() *cobra.Command {
	var paths []string
	var folder string
	cmd := &cobra.Command{
		Use:   "convert -f FILE|-|DIR...",
		Short: "Convert manifests of old API versions",
		Long: `convert reads manifests from files, folders or standard input and writes them with every object of an old API version converted:

  Functions and GitRepositories of serverless.kyma-project.io/v1alpha1   to Functions of v1alpha2
  APIRules of gateway.kyma-project.io/v1beta1 and v1alpha1               to APIRules of v2
  config.yaml of a workspace of Kyma's command line, version 2           to its Function, Subscriptions and APIRules

A Function's GitRepository has to be among the manifests: it becomes part of the Function. An APIRule that is stored as v2 without a
spec is read from the annotation that holds its v1beta1 spec. Lists, as kubectl get prints them, are split; other objects pass unchanged.

Changes of meaning are reported with the remedy. An object that cannot be converted as a whole, or that a cluster would refuse, is left
out, because the rest of an APIRule could open what it kept closed; the exit code is then 1. No cluster is contacted and nothing is
applied.`,
		Example: `  rouse convert -f deploy/ > converted.yaml
  rouse convert -f functions.yaml -f repositories.yaml -o converted
  kubectl get functions.v1alpha1.serverless.kyma-project.io,gitrepositories,apirules -A -o yaml | rouse convert -f - > converted.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(paths) == 0 {
				return exit.Errorf(exit.Usage, "no manifests to convert: name a file or folder with -f, or - for standard input")
			}
			result, err := run(cmd, paths, folder, isOld)
			if err != nil {
				return err
			}
			return reportAll(cmd.ErrOrStderr(), result)
		},
	}
	cmd.Flags().StringArrayVarP(&paths, "filename", "f", nil,
		"`file` or folder to read, - for standard input; can be repeated. In a folder, .yaml, .yml and .json files are read, without subfolders")
	cmd.Flags().StringVarP(&folder, "output", "o", "", outputUsage)
	return cmd
}

// NewMigrate returns `rouse migrate` with `apirule` alone, the name that converting APIRules had before convert did it. That is hidden, and
// keeps its arguments and its output for scripts.
func NewMigrate() *cobra.Command {
	var folder string
	migrate := &cobra.Command{
		Use:   "migrate",
		Short: "Move a cluster from Kyma's modules to Rouse, in place",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exit.Errorf(exit.Usage, "there is nothing to migrate called %q: see %s --help, or rouse convert for manifests", args[0], cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	apiRule := &cobra.Command{
		Use:     "apirule [FILE|-|DIR]...",
		Hidden:  true,
		Short:   "Convert APIRules of v1beta1 and v1alpha1 to v2, and no other object",
		Long:    "apirule converts APIRules of v1beta1 and v1alpha1 to v2, and no other object. rouse convert converts them along with Functions.",
		Args:    cobra.ArbitraryArgs,
		Aliases: []string{"apirules"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{Input}
			}
			result, err := run(cmd, args, folder, isOldAPIRule)
			if err != nil {
				return err
			}
			return reportAPIRules(cmd.ErrOrStderr(), result)
		},
	}
	apiRule.Flags().StringVarP(&folder, "output", "o", "", outputUsage)
	migrate.AddCommand(apiRule)
	return migrate
}

// run converts the files, and writes them to standard output or into the folder.
func run(cmd *cobra.Command, paths []string, folder string, old func(*Object) bool) (Result, error) {
	files, err := readAll(cmd.InOrStdin(), paths)
	if err != nil {
		return Result{}, exit.With(exit.Usage, err)
	}
	result, err := Manifests(cmd.Context(), files, old)
	if err != nil {
		return Result{}, exit.With(exit.Usage, err)
	}
	if folder != "" {
		return result, writeFolder(folder, result.Files)
	}
	return result, writeOutput(cmd.OutOrStdout(), result.Files)
}

// reportAll prints the report of convert, and fails when an object was left out.
func reportAll(out io.Writer, result Result) error {
	printReport(out, result, fmt.Sprintf(
		"Functions written as v1alpha2: %d, left out: %d; APIRules written as v2: %d, left out: %d; GitRepositories no longer needed: %d; "+
			"other objects, unchanged: %d",
		result.Functions.Converted, result.Functions.Failed, result.APIRules.Converted, result.APIRules.Failed, result.Repositories,
		result.Unchanged))
	switch failed := result.Functions.Failed + result.APIRules.Failed; {
	case failed > 0:
		return exit.Errorf(exit.Failed, "%d of the objects cannot be converted: correct them as listed", failed)
	case len(result.Problems) > 0:
		return exit.Errorf(exit.Failed, "%d of the GitRepositories cannot be read: correct them as listed", len(result.Problems))
	default:
		return nil
	}
}

// reportAPIRules prints the report of migrate, and fails when an APIRule was left out.
func reportAPIRules(out io.Writer, result Result) error {
	printReport(out, result, fmt.Sprintf("APIRules written as v2: %d, left out: %d; other objects, unchanged: %d",
		result.APIRules.Converted, result.APIRules.Failed, result.Unchanged))
	if result.APIRules.Failed > 0 {
		return exit.Errorf(exit.Failed, "%d of the APIRules cannot be written as v2: correct them as listed, or write them by hand", result.APIRules.Failed)
	}
	return nil
}

// printReport prints notes, problems and the summary. The manifests are written already, so that a report that fails is no failure.
func printReport(out io.Writer, result Result, summary string) {
	lines := slices.Concat(result.Notes, result.Problems, []string{summary, ""})
	_, _ = io.WriteString(out, strings.Join(lines, "\n"))
}

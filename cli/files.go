package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/manifest"
)

func newFiles(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "files [DIR]",
		Short: "Write the ConfigMaps with the files of Functions whose source is a folder",
		Long: `files reads the manifests of a folder, as rouse dev does, and writes a ConfigMap for each Function that names one in the
annotation ` + v1alpha2.AnnotationFiles + ` of spec.annotations: it contains the files beside the Function's manifest, one key for each.

Hidden files, packages, manifests, keys and what .gitignore and .rouseignore match are left out. Functions whose ConfigMap is among the
manifests already, such as one that Kustomize generates, are skipped. No cluster is contacted and nothing is applied.`,
		Example: `  rouse files . | kubectl apply --server-side -f -
  rouse files functions > deploy/files.yaml`,
		Args:    cobra.MaximumNArgs(1),
		GroupID: groupWork,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return writeFiles(streams.Out, streams.Err, dir)
		},
	}
	return cmd
}

// writeFiles writes the ConfigMaps of a folder. It writes none if one of them cannot be made.
func writeFiles(out, notes io.Writer, dir string) error {
	set, problems, err := manifest.Read(dir)
	if err != nil {
		return exit.Errorf(exit.Usage, "%w", err)
	}
	for _, problem := range problems {
		if !problem.Warning {
			return exit.Errorf(exit.Usage, "%w", problem)
		}
	}
	texts, err := configMapsOf(set, notes)
	if err != nil {
		return err
	}
	if len(texts) == 0 {
		_, _ = fmt.Fprintf(notes, "no Function of %s needs a ConfigMap with files: %s in its spec.annotations would name one\n", dir, v1alpha2.AnnotationFiles)
	}
	for _, text := range texts {
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// configMapsOf returns the ConfigMaps of a folder as YAML.
func configMapsOf(set manifest.Set, notes io.Writer) (texts [][]byte, err error) {
	for _, fn := range set.Functions {
		if name := fn.Spec.Annotations[v1alpha2.AnnotationFiles]; name != "" && fn.Files.ConfigMap {
			_, _ = fmt.Fprintf(notes, "%s: ConfigMap %s/%s is among the manifests\n", fn.At, fn.Namespace, name)
		}
	}
	made, problems := manifest.FileMaps(set.Functions)
	if len(problems) > 0 {
		return nil, exit.Errorf(exit.Usage, "%w", problems[0])
	}
	for _, each := range made {
		text, err := yaml.Marshal(each.ConfigMap)
		if err != nil {
			return nil, fmt.Errorf("write ConfigMap %s/%s: %w", each.Namespace, each.Name, err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

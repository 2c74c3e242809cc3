package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/eject"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dev/manifest"
)

func newEject(streams Streams) *cobra.Command {
	var to, image string
	cmd := &cobra.Command{
		Use:   "eject FUNCTION [DIR]",
		Short: "Write a Function into a folder that builds and runs it without Rouse",
		Long: `eject writes the folder FUNCTION-ejected with the source of a Function, the sources of its runtime's server, a Dockerfile, a plain
Deployment with a Service, and run.sh, which runs it as a process. The Function is that of the manifests in DIR, or, with --context,
that of a cluster. Nothing is overwritten, and nothing in a cluster is changed.`,
		Example: `  rouse eject price
  rouse eject price --context staging -n shop --to ../price --image registry.example.com/shop/price:1`,
		Args: cobra.RangeArgs(1, 2),
	}
	s := askCluster(streams, cmd)
	cmd.GroupID = groupWork
	cmd.ValidArgsFunction = once(s.complete(functionNames))
	cmd.Flags().StringVar(&to, "to", "", "folder to make (default: FUNCTION-ejected)")
	cmd.Flags().StringVar(&image, "image", "", "name of the image in the Deployment (default: FUNCTION:latest)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := "."
		if len(args) > 1 {
			dir = args[1]
		}
		fn, err := s.ejected(cmd.Context(), args[0], dir)
		if err != nil {
			return err
		}
		if to == "" {
			to = fn.Name + "-ejected"
		}
		if image == "" {
			image = fn.Name + ":latest"
		}
		lost, err := eject.Write(cmd.Context(), eject.Function{Function: fn, Image: image}, to)
		if err != nil {
			return err
		}
		for _, text := range lost {
			s.note("not in the folder: %s", output.Clean(text))
		}
		_, err = fmt.Fprintf(s.Out, "%s\nsee %s\n", to, filepath.Join(to, "README.md"))
		return err
	}
	return cmd
}

// ejected returns the Function of a folder, or of the cluster that the flags name.
func (s *session) ejected(ctx context.Context, text, dir string) (fn manifest.Function, err error) {
	if !s.options.IsCluster() {
		return s.functionIn(dir, text)
	}
	err = s.withObjects(func(conn *target.Connection, objects *target.Objects) error {
		namespace, name, err := s.function(conn, text)
		if err != nil {
			return err
		}
		folder, err := os.MkdirTemp("", "rouse-eject-")
		if err != nil {
			return fmt.Errorf("make a folder for the manifests: %w", err)
		}
		defer func() { _ = os.RemoveAll(folder) }()
		if err := download(ctx, objects, namespace, name, folder); err != nil {
			return err
		}
		fn, err = s.functionIn(folder, namespace+"/"+name)
		return err
	})
	return fn, err
}

// download writes the manifests of a Function, and of the ConfigMap with its files, into a folder.
func download(ctx context.Context, objects *target.Objects, namespace, name, folder string) error {
	fn, err := objects.Get(ctx, v1alpha2.GroupVersion.WithResource("functions"), namespace, name)
	if err != nil {
		return err
	}
	if fn == nil {
		return exit.Errorf(exit.NotFound, "there is no Function %s/%s", namespace, name)
	}
	found := []*unstructured.Unstructured{fn}
	if files, _, _ := unstructured.NestedString(fn.Object, "spec", "annotations", v1alpha2.AnnotationFiles); files != "" {
		config, err := objects.Get(ctx, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, namespace, files)
		if err != nil {
			return err
		}
		if config == nil {
			return exit.Errorf(exit.NotFound, "there is no ConfigMap %s/%s with the files of the Function", namespace, files)
		}
		found = append(found, config)
	}
	for i, object := range found {
		unstructured.RemoveNestedField(object.Object, "status")
		unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("write %s: %w", object.GetName(), err)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("object-%d.yaml", i)), text, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// functionIn returns a Function of the manifests in a folder.
func (s *session) functionIn(dir, text string) (manifest.Function, error) {
	namespace, name := s.options.Namespace, text
	if before, after, named := strings.Cut(text, "/"); named {
		namespace, name = before, after
	}
	set, problems, err := manifest.Read(dir)
	if err != nil {
		return manifest.Function{}, exit.With(exit.Usage, err)
	}
	var known []string
	for _, fn := range set.Functions {
		if fn.Name == name && (namespace == "" || fn.Namespace == namespace) {
			return fn, nil
		}
		known = append(known, fn.Namespace+"/"+fn.Name)
	}
	for _, problem := range problems {
		if !problem.Warning {
			err = errors.Join(err, problem)
		}
	}
	if err != nil {
		return manifest.Function{}, exit.With(exit.Usage, err)
	}
	return manifest.Function{}, exit.Errorf(exit.NotFound, "there is no Function %s in %s; there are %s", text, dir, strings.Join(known, ", "))
}

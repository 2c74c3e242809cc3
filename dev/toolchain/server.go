package toolchain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes"
)

// server is the folder of a runtime's server, made for one interpreter as the layer of its image is.
func (t *Toolchain) server(ctx context.Context, i interpreter, begun func(string)) (string, error) {
	files, err := runtimes.Of(i.Folder)
	if err != nil {
		return "", err
	}
	hash, err := files.Hash()
	if err != nil {
		return "", err
	}
	manager, err := i.manager()
	if err != nil {
		return "", err
	}
	start := func() { begun("preparing the " + i.Title + " runtime, once for this machine") }
	made, err := t.store.entry(ctx, i.Local.Program, i.version+"-"+keyOf(hash, i.made), start, func(dir, final string) error {
		sources := dir + "-sources"
		defer func() { _ = os.RemoveAll(sources) }() // what is left there is no harm
		if err := os.RemoveAll(sources); err != nil {
			return fmt.Errorf("clear the cache: %w", err)
		}
		if err := files.Write(sources); err != nil {
			return err
		}
		line := []string{"sh", filepath.Join(sources, "layer.sh"), dir, i.path}
		if i.Local.LayerKnowsItsPlace {
			line = append(line, final)
		}
		return t.layer(ctx, i, manager, line)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(made, "usr/src/app"), nil
}

func (t *Toolchain) layer(ctx context.Context, i interpreter, manager string, line []string) error {
	made := dependencies.Run(ctx, dependencies.Command{
		Dir: filepath.Dir(line[1]), Env: i.env, Args: line, Guard: t.o.Guard,
	}, t.o.Output)
	if made.Err == nil {
		return nil
	}
	why := dependencies.Request{
		Language: i.Language, Program: manager, Manifest: "the runtime's list of packages", Site: dependencies.Machine(i.Language),
	}.Explain(made)
	return &Failure{
		Reason:  RuntimeUnavailable,
		Message: fmt.Sprintf("the %s runtime cannot be prepared: %s", i.Title, why.Message),
		Log:     why.Log,
	}
}

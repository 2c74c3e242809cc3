package builder

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	maxShards  = 4
	shardBytes = 512 << 10
)

// compile writes bytecode for all of dir, with the paths that the files have in the image. Packages may have
// files for other versions of the language: what does not compile is left as it is.
//
// What a process compiled before shows in the bytecode of some files. So the files are dealt out to processes
// by their sizes alone, and not by how many cores there are or which of them is the first to be free.
func (b *Builder) compile(ctx context.Context, l *language.Language, dir string) error {
	empty := filepath.Join(b.o.Work, "empty") // some compilers look for modules where they start
	if err := os.MkdirAll(empty, 0o700); err != nil {
		return fmt.Errorf("make a directory to compile in: %w", err)
	}
	shards, err := shardsOf(l, dir)
	if err != nil {
		return fmt.Errorf("list what has to be compiled: %w", err)
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, files := range shards {
		line := l.Bytecode.Compile(dir, l.FunctionDir, files)
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			_ = dependencies.Run(ctx, dependencies.Command{Dir: empty, Env: b.env, Args: line}, b.deps.Output)
		})
	}
	running.Wait()
	return ctx.Err()
}

// source is a file or a package of the language.
type source struct {
	path  string
	bytes int64
}

// shardsOf deals the Function's own files and its packages out, the largest first.
func shardsOf(l *language.Language, dir string) ([][]string, error) {
	packages := filepath.Join(dir, l.Packages.Dir)
	sources, err := sourcesIn(dir, packages, l.Bytecode.Extension)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(packages); err == nil {
		below, err := sourcesIn(packages, "", l.Bytecode.Extension)
		if err != nil {
			return nil, err
		}
		sources = append(sources, below...)
	}
	slices.SortFunc(sources, func(a, b source) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.path, b.path)) })
	var total int64
	for _, each := range sources {
		total += each.bytes
	}
	shards := make([][]string, min(maxShards, 1+total/shardBytes))
	load := make([]int64, len(shards))
	for _, each := range sources {
		least := slices.Index(load, slices.Min(load))
		shards[least] = append(shards[least], each.path)
		load[least] += each.bytes
	}
	return slices.DeleteFunc(shards, func(files []string) bool { return len(files) == 0 }), nil
}

// sourcesIn lists what is in dir and has files of the extension in it, but for one entry.
func sourcesIn(dir, without, extension string) ([]source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var sources []source
	for _, entry := range entries {
		each := source{path: filepath.Join(dir, entry.Name())}
		if each.path == without {
			continue
		}
		err := filepath.WalkDir(each.path, func(file string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || filepath.Ext(file) != extension {
				return err
			}
			info, err := d.Info()
			if err == nil {
				each.bytes += max(info.Size(), 1)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if each.bytes > 0 {
			sources = append(sources, each)
		}
	}
	return sources, nil
}

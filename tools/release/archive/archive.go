package archive

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"

	"github.com/rouse-run/rouse/tools/pack"
)

// Write packs files into an archive.
func Write(file string, files []pack.File) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create an archive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := pack.Write(compressed, files); err != nil {
		return fmt.Errorf("pack %s: %w", file, err)
	}
	return compressed.Close()
}

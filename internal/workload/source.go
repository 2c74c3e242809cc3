package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"sync"
)

// MaxSource is the longest encoded source that fits a pod's environment. The
// kernel takes 128 KiB for one variable, its name included.
const MaxSource = 120 * 1024

// packers are compressors, each of which takes 800 KiB. The level is part of what makes a result the same each time.
var packers = sync.Pool{New: func() any {
	packer, err := gzip.NewWriterLevel(nil, gzip.BestCompression)
	if err != nil {
		panic(err) // it is a level
	}
	return packer
}}

// EncodeSource is the form in which source travels to the pod: base64 of gzip.
// Plain text would not arrive as written, because Kubernetes expands $(NAME)
// and $$ in it.
func EncodeSource(source string) (string, error) {
	packer, _ := packers.Get().(*gzip.Writer)
	defer packers.Put(packer)
	var packed bytes.Buffer
	packer.Reset(&packed)
	if _, err := packer.Write([]byte(source)); err != nil {
		return "", fmt.Errorf("compress source: %w", err)
	}
	if err := packer.Close(); err != nil {
		return "", fmt.Errorf("compress source: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

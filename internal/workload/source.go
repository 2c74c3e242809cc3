package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
)

// MaxSource is the longest encoded source that fits a pod's environment. The
// kernel takes 128 KiB for one variable, its name included.
const MaxSource = 120 * 1024

// EncodeSource is the form in which source travels to the pod: base64 of gzip.
// Plain text would not arrive as written, because Kubernetes expands $(NAME)
// and $$ in it.
func EncodeSource(source string) (string, error) {
	var packed bytes.Buffer
	// The level is part of what makes the result the same each time.
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", fmt.Errorf("compress source: %w", err)
	}
	if _, err := writer.Write([]byte(source)); err != nil {
		return "", fmt.Errorf("compress source: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compress source: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

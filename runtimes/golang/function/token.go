package function

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// maxToken is the longest that the publisher reads.
const maxToken = 8192

// tokenFile is a file that is replaced now and then. It is read again when it has changed; while it cannot be read, the last
// token counts, and the publisher refuses a request without one, with the reason.
type tokenFile struct {
	path string

	mu    sync.Mutex
	at    time.Time
	size  int64
	token string
}

var publisherToken = &tokenFile{path: settings.tokenFile}

func (f *tokenFile) read() string {
	if f.path == "" {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil || info.ModTime().Equal(f.at) && info.Size() == f.size {
		return f.token
	}
	file, err := os.Open(f.path)
	if err != nil {
		return f.token
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+2))
	if err != nil {
		return f.token
	}
	f.at, f.size, f.token = info.ModTime(), info.Size(), printable(strings.TrimSpace(string(text)))
	return f.token
}

// printable is a text that a header can carry, or nothing.
func printable(text string) string {
	if len(text) > maxToken || strings.IndexFunc(text, func(r rune) bool { return r < '!' || r > '~' }) >= 0 {
		return ""
	}
	return text
}

package buildplan

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rouse-run/rouse/runtimes/language"
)

// Result is the outcome of a plan. The builder writes it as its termination message.
type Result struct {
	// Digest of the image that was pushed, sha256:...; empty when the build failed.
	Digest string `json:"digest,omitempty"`
	// Size of the layer in the registry in bytes.
	Size int64 `json:"size,omitempty"`
	// Reason is empty when the build succeeded.
	Reason language.Reason `json:"reason,omitempty"`
	// Message says what is wrong and what to do about it.
	Message string `json:"message,omitempty"`
	// Log has the last lines of the package manager, when it failed.
	Log string `json:"log,omitempty"`
}

// maxResult is less than the 4096 bytes that Kubernetes keeps of a termination message.
const maxResult = 4000

// EncodeResult is the termination message. A log that is too long loses its beginning.
func EncodeResult(result Result) ([]byte, error) {
	for {
		text, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("encode build result: %w", err)
		}
		excess := len(text) - maxResult
		if excess <= 0 {
			return text, nil
		}
		if result.Log == "" {
			result.Message = cut(result.Message, max(len(result.Message)-excess, 0))
			continue
		}
		result.Log = tail(result.Log, max(len(result.Log)-excess, 0))
	}
}

// DecodeResult reads a termination message.
func DecodeResult(text string) (Result, error) {
	var result Result
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return Result{}, fmt.Errorf("decode build result: %w", err)
	}
	return result, nil
}

// cut keeps at most size bytes of the beginning, in whole characters.
func cut(text string, size int) string {
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// tail keeps at most size bytes of the end, in whole lines where it can.
func tail(text string, size int) string {
	start := len(text) - size
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	text = text[start:]
	if _, rest, found := strings.Cut(text, "\n"); found {
		return rest
	}
	return text
}

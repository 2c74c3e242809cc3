package python

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed packed.py
var packedScript string

// packed returns a module with the files of a source, which it writes to a folder when it is loaded. It runs the handler among them in its own
// place, so that tracebacks name the files.
func packed(handler string, text map[string]string, binary map[string][]byte) string {
	return fmt.Sprintf("HANDLER = %s\nTEXT = %s\nBINARY = %s\n%s", literal(handler), literal(text), literal(binary), packedScript)
}

// literal returns a value as JSON, which Python reads alike: strings, and objects of them. Bytes are in base64.
func literal(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		panic(err) // strings and bytes can always be encoded
	}
	return strings.TrimSpace(out.String())
}

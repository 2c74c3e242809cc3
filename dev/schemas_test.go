package dev

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/output"
)

func TestAPublishedEventHasToFitTheSchemaInTheFolder(t *testing.T) {
	t.Parallel()
	const fits = "publish:\n- {type: order.received, source: shop, id: 'a', data: {id: '7'}}\nemitted:\n- {type: order.greeted}\n"
	for name, tc := range map[string]struct{ schema, expected, last string }{
		"it fits": {`{"type": "object", "required": ["id"]}`, fits, "run ok: "},
		"it does not fit": {
			`{"type": "object", "required": ["id"]}`, "publish:\n- {type: order.received, source: shop, id: 'b', data: {}}\n",
			"the event does not fit the schema of order.received: data: missing property 'id'",
		},
		"a schema that cannot be used": {`{"type": "text"}`, fits, "order.received.schema.json: the schema is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, out := t.TempDir(), &output.Buffer{}
			write(t, directory, "fn.yaml", greeter(greets))
			write(t, directory, "order.received.schema.json", tc.schema)
			write(t, directory, "expect.yaml", tc.expected)
			o := DefaultOptions()
			o.Directory, o.State, o.Out, o.Once, o.Cooldown = directory, t.TempDir(), out, true, time.Second
			o.Expect = filepath.Join(directory, "expect.yaml")
			err := Run(t.Context(), o)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.Contains(t, lines[len(lines)-1], tc.last)
			if name != "it fits" {
				require.ErrorIs(t, err, ErrFailed)
			}
		})
	}
}

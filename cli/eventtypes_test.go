package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

func TestTypesOfEventsAreListedAndWrittenAsTypes(t *testing.T) {
	t.Parallel()
	folder := writeFolder(t, map[string]string{
		"events/order.received.schema.json": `{"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "total": {"type": "number"}}}`,
	})
	got := run(t, "", "events", "types", folder)
	require.Equal(t, ran{out: "TYPE             DATA\norder.received   id, total?\n"}, got)
	got = run(t, "", "events", "types", folder, "--language", "typescript")
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, "export type OrderReceived = {\n  id: string\n  total?: number\n}\n")
	got = run(t, "", "events", "types", folder, "-o", "json")
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, `"type": "order.received"`)

	require.Equal(t, exit.Usage, exit.Code(run(t, "", "events", "types", folder, "--language", "cobol").code))
	writeFile(t, folder, "order.paid.schema.json", "{")
	got = run(t, "", "events", "types", folder)
	require.Equal(t, exit.Usage, exit.Code(got.code))
	require.Contains(t, got.err, "order.paid.schema.json: the schema is no JSON")
}

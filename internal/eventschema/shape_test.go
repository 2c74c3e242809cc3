package eventschema

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/nodejs"
	"github.com/rouse-run/rouse/runtimes/python"
)

func shapes(t *testing.T) Set {
	t.Helper()
	set, problems := Read(map[string][]byte{
		"order.received.schema.json": []byte(order),
		"2nd.schema.json":            []byte(`{"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"const": "*/ \"x\" <b>"}]}}`),
		"any.schema.json":            []byte(`true`),
	})
	require.Empty(t, problems)
	return set
}

func TestTypesOfTypeScriptAreMadeFromSchemas(t *testing.T) {
	t.Parallel()
	require.Equal(t, "// Types of the data of events. Written by `rouse events types`.\n"+`
/** The data of 2nd. */
export type Event2nd = Array<boolean | "*/ \"x\" \u003cb\u003e">

/** The data of any. */
export type Any = unknown

export type OrderReceivedLine = {
  amount?: number
  count?: number
  product: string
}

export type OrderReceivedLink = {
  next?: OrderReceivedLink
  of?: true | OrderReceivedLine
}

/** The data of order.received. */
export type OrderReceived = {
  /** of the order */
  id: string
  lines: Array<OrderReceivedLine>
  "note-to us"?: string | null
  parent?: OrderReceivedLink
  state?: "open" | "paid" | 7 | null
}

/** The data of each type of events. */
export interface EventData {
  "2nd": Event2nd
  "any": Any
  "order.received": OrderReceived
}
`, nodejs.Language().Types.Write(shapes(t).Types()))
}

func TestTypesOfPythonAreMadeFromSchemas(t *testing.T) {
	t.Parallel()
	text := python.Language().Types.Write(shapes(t).Types())
	require.Contains(t, text, `
OrderReceivedLink = TypedDict(
    "OrderReceivedLink",
    {
        "next": NotRequired["OrderReceivedLink"],
        "of": NotRequired[Union[Literal[True], "OrderReceivedLine"]],
    },
)
`)
	require.Contains(t, text, `"state": NotRequired[Union[Literal["open"], Literal["paid"], Literal[7], None]],`)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "events.py"), []byte(text), 0o600))
	command := exec.CommandContext(t.Context(), "python3", "-c", `import events, typing
hints = typing.get_type_hints(events.OrderReceived, include_extras=True)
assert hints["lines"] == list[events.OrderReceivedLine], hints
assert events.OrderReceived.__required_keys__ == {"id", "lines"}
assert typing.get_args(typing.get_args(events.Event2nd)[0])[1] == typing.Literal['*/ "x" <b>'], events.Event2nd`)
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
}

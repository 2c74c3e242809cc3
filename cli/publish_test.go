package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/event"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
)

func accept(http.ResponseWriter, *http.Request) {}

func TestEventBuiltFromFlagsIsPublishedAndDelivered(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	got := w.run(t, "publish", "--type", "order.received", "--source", "shop", "--id", "1001", "--data", `{"lines": [ ]}`,
		"--extension", "tenant=a,region=b")
	require.Equal(t, ran{0, "1001\n", ""}, got)
	delivered := w.pricing.Await(t, 1)[0]
	require.Equal(t, "1001", delivered.ID())
	require.JSONEq(t, `{"lines": []}`, string(delivered.Body))
	require.Equal(t, "application/json", delivered.Header.Get("Content-Type"))
	require.Equal(t, "a", delivered.Header.Get("Ce-Tenant"))
	require.Equal(t, "b", delivered.Header.Get("Ce-Region"))
}

func TestPublishReadsDataFromAFileOrStdinUnchanged(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	file := filepath.Join(t.TempDir(), "data.bin")
	require.NoError(t, os.WriteFile(file, []byte{0xff, 0x00, 0x01}, 0o600))
	base := []string{"publish", "--type", "order.received", "--source", "shop"}
	require.Equal(t, 0, w.run(t, append(base, "--id", "file", "-f", file)...).code)
	require.Equal(t, 0, w.runWith(t, "some text", append(base, "--id", "input", "-f", "-")...).code)
	require.Equal(t, 0, w.run(t, append(base, "--id", "none")...).code)
	bodies, types := map[string]string{}, map[string]string{}
	for _, request := range w.pricing.Await(t, 3) {
		bodies[request.ID()] = string(request.Body)
		types[request.ID()] = request.Header.Get("Content-Type")
	}
	require.Equal(t, map[string]string{"file": "\xff\x00\x01", "input": "some text", "none": ""}, bodies)
	require.Equal(t, "application/octet-stream", types["file"])
	require.Equal(t, "text/plain; charset=utf-8", types["input"])
}

func TestPublishReadsTheFileThatDataNames(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	file := filepath.Join(t.TempDir(), "order.json")
	require.NoError(t, os.WriteFile(file, []byte("{\n  \"n\": 1\n}\n"), 0o600))
	base := []string{"publish", "--type", "order.received", "--source", "shop"}
	require.Equal(t, ran{0, "file\n", ""}, w.run(t, append(base, "--id", "file", "-d", "@"+file)...))
	require.Equal(t, ran{0, "input\n", ""}, w.runWith(t, "[1]", append(base, "--id", "input", "--data", "@-")...))
	require.Equal(t, ran{0, "text\n", ""}, w.run(t, append(base, "--id", "text", "-d", "{no JSON", "--content-type", "text/plain")...))
	bodies := map[string]string{}
	for _, request := range w.pricing.Await(t, 3) {
		bodies[request.ID()] = string(request.Body)
	}
	require.Equal(t, map[string]string{"file": "{\n  \"n\": 1\n}\n", "input": "[1]", "text": "{no JSON"}, bodies)
}

func TestPublishSendsWholeEventsAsABatch(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	batch := `[
	  {"id": "a", "source": "shop", "type": "order.received", "data": {"n": 1}},
	  {"id": "b", "source": "shop", "type": "order..received"},
	  {"id": "c", "type": "order.received", "data": 2}
	]`
	got := w.runWith(t, batch, "publish", "-f", "-", "--source", "shop")
	require.Equal(t, 5, got.code)
	require.Equal(t, "a\nc\n", got.out)
	require.Contains(t, got.err, "event 2 (id b): ")
	require.Contains(t, got.err, "empty segments")
	require.Contains(t, got.err, "rouse: 1 of 3 events were not stored")
	data := map[string]string{}
	for _, request := range w.pricing.Await(t, 2) {
		require.Equal(t, "application/json", request.Header.Get("Content-Type"), "as whole events without datacontenttype have it")
		data[request.ID()] = string(request.Body)
	}
	require.Equal(t, map[string]string{"a": `{"n": 1}`, "c": "2"}, data)

	one := `{"id": "d", "source": "shop", "type": "order.received"}`
	got = w.runWith(t, one, "publish", "-f", "-", "-o", "json")
	require.Equal(t, 0, got.code, got.err)
	var results []map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &results))
	require.Equal(t, []map[string]any{{"id": "d", "source": "shop", "type": "order.received", "status": 204.0}}, results)
}

func TestDataArePublishedByteForByte(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	const data = `{ "html": "<b>&amp;</b>",  "n": 1.0, "big": 12345678901234567890, "b": 1, "a": "\u00e4" }`
	flags := []string{"publish", "--type", "order.received", "--source", "shop"}
	require.Equal(t, 0, w.run(t, append(flags, "--id", "flag", "-d", data)...).code)
	require.Equal(t, 0, w.runWith(t, data+"\n", append(flags, "--id", "file", "-f", "-")...).code)
	whole := `{"type": "order.received", "data": ` + data + `}`
	require.Equal(t, 0, w.runWith(t, " "+whole+"\n", "publish", "--source", "shop", "--id", "whole", "-f", "-").code)
	full := `{"specversion": "1.0", "id": "batch", "source": "shop", "type": "order.received", "data": ` + data + `}`
	require.Equal(t, 0, w.runWith(t, "[ "+full+" ]", "publish", "-f", "-").code)
	bodies := map[string]string{}
	for _, request := range w.pricing.Await(t, 4) {
		bodies[request.ID()] = string(request.Body)
	}
	require.Equal(t, map[string]string{"flag": data, "file": data + "\n", "whole": data, "batch": data}, bodies)
}

func TestPublishFailsWithTheReasonOfARefusedEvent(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	got := w.run(t, "publish", "--type", "order..received", "--source", "shop")
	require.Equal(t, 5, got.code)
	require.Empty(t, got.out)
	require.Contains(t, got.err, "rouse: the event was not stored: ")
	require.Contains(t, got.err, "empty segments")
}

func TestPublishNamesTheFlagOfAnInvalidEvent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"no type":                   {"", []string{"--source", "shop"}, "--type is missing"},
		"no source":                 {"", []string{"--type", "a"}, "--source is missing"},
		"data twice":                {"", []string{"--type", "a", "--data", "1", "-f", "x"}, "--data and --data-file exclude each other"},
		"a missing file":            {"", []string{"--type", "a", "-f", "/does/not/exist"}, "--data-file: open /does/not/exist"},
		"no JSON where it is named": {"", []string{"--type", "a", "--source", "s", "-d", "x", "--content-type", "application/json"}, "line 1, column 1: invalid"},
		"malformed JSON":            {"", []string{"--type", "a", "--source", "s", "-d", "{\n'id': 1}"}, "line 2, column 1: invalid character '\\''"},
		"JSON that is cut off":      {`[{"a": 1}`, []string{"--type", "a", "--source", "s", "-d", "@-"}, "unexpected end of JSON input; correct them, or say"},
		"a missing file of --data":  {"", []string{"--type", "a", "--source", "s", "-d", "@/does/not/exist"}, "--data: open /does/not/exist"},
		"an extension with a dash":  {"", []string{"--type", "a", "--source", "s", "--extension", "my-tenant=a"}, "--extension my-tenant: a name consists of"},
		"a batch with the same id":  {`[{"type":"a"},{"type":"b"}]`, []string{"-f", "-", "--source", "s", "--id", "1"}, "--id names one event"},
		"an event without a type":   {`[{"source":"s","type":"a"},{"source":"s"}]`, []string{"-f", "-"}, "event 2: it has no type"},
		"an event without a source": {`{"type":"a"}`, []string{"-f", "-"}, "event 1: it has no source: add one, or --source"},
		"not JSON":                  {`hello`, []string{"-f", "-"}, "event 1: it is not a JSON object"},
		"an empty array":            {`[]`, []string{"-f", "-"}, "holds no events"},
		"an unknown format":         {"", []string{"-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: use one of json, yaml, name`},
		"an argument":               {"", []string{"order"}, `unexpected argument "order"`},
	} {
		got := run(t, tc.stdin, append([]string{"publish"}, tc.args...)...)
		require.Equal(t, 2, got.code, "%s: %s", name, got.err)
		require.Contains(t, got.err, tc.want, name)
	}
}

func TestErrorWithoutALocalModeHasAdvice(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"publish", "--type", "a", "--source", "s"},
		{"invoke", "pricing"},
		{"logs", "pricing"},
		{"functions"},
		{"subscriptions"},
		{"events", "tail"},
		{"dlq", "list"},
	} {
		got := run(t, "", append(args, "--dir", "/does/not/exist")...)
		require.Equal(t, 4, got.code, args)
		require.Contains(t, got.err, "folder /does/not/exist does not exist", strings.Join(args, " "))
	}
}

func TestPublishOfAnEventWithoutSubscriptionNotesASuggestion(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	got := w.run(t, "publish", "--type", "order.receivd", "--source", "shop", "--id", "1")
	require.Equal(t, ran{0, "1\n", "order.receivd from shop: stored, but no Subscription takes it; did you mean order.received from shop?\n"}, got)
	got = w.run(t, "publish", "--type", "mail.sent", "--source", "shop", "--id", "2", "-o", "name")
	require.Equal(t, ran{0, "2\n", "mail.sent from shop: stored, but no Subscription takes it\n"}, got)

	batch := `[{"id": "a", "type": "order.invoiced"}, {"id": "b", "type": "order.received"}, {"id": "c", "type": "order.invoiced"}]`
	got = w.runWith(t, batch, "publish", "-f", "-", "--source", "shop", "-o", "json")
	require.Equal(t, 0, got.code)
	require.Equal(t, "order.invoiced from shop (2 events): stored, but no Subscription takes it; did you mean order.invoiced from invoicing?\n", got.err)
	var results []event.Result
	require.NoError(t, json.Unmarshal([]byte(got.out), &results))
	require.NotEmpty(t, results[0].Note)
	require.Empty(t, results[1].Note)
}

func TestNotesOfEventsWithoutSubscriptionAreBounded(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	var events []string
	for i := range notedKinds + 2 {
		events = append(events, fmt.Sprintf(`{"type": "nothing.%d", "source": "s"}`, i))
	}
	got := w.runWith(t, "["+strings.Join(events, ",")+"]", "publish", "-f", "-")
	require.Equal(t, 0, got.code)
	require.Equal(t, notedKinds+1, strings.Count(got.err, "\n"))
	require.Contains(t, got.err, "and 2 other kinds of events that match no Subscription\n")
}

// unlisted is a Rouse whose Subscriptions the user may not list.
type unlisted struct{ target.Target }

func (unlisted) Subscriptions(context.Context, string) ([]target.Subscription, error) {
	return nil, exit.Errorf(exit.Unreachable, "you may not list subscriptions")
}

func TestPublishWithoutPermissionToListSubscriptionsHasNoNotes(t *testing.T) {
	t.Parallel()
	results := []event.Result{{ID: "1", Type: "order.receivd", Source: "shop", Status: 204}}
	noteUnwanted(t.Context(), &target.Connection{Target: unlisted{}}, results)
	require.Empty(t, results[0].Note)
}

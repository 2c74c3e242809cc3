package scaffold

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// testKit is a handler that answers with what it sees of its event and emits events, and a script that has the test kit call it with the
// same event.
type testKit struct{ handler, script, scriptFile, program string }

const (
	nodeScript = `
const { call, event } = require('./rouse-testing.js')
const { main } = require('./handler.js')
const [data] = JSON.parse(process.argv[2])
const received = event({ type: 'order.received', source: 'shop', id: '7', time: '2026-01-02T03:04:05Z', tenant: 'a', rousehops: '2', data })
call(main, received).then(({ status, body, emitted }) => process.stdout.write(JSON.stringify({ status, body, emitted })))
`
	pythonScript = `
import json, sys
from rouse_testing import call, event
import handler
received = event(type="order.received", source="shop", id="7", time="2026-01-02T03:04:05Z", tenant="a", rousehops="2", data=json.loads(sys.argv[1])[0])
result = call(handler.main, received)
print(json.dumps({"status": result.status, "body": result.body, "emitted": result.emitted}))
`
)

func testKits() map[string]testKit {
	return map[string]testKit{
		"nodejs22": {`
module.exports.main = async (event) => {
  await event.emitCloudEvent('order.priced', 'pricing', { total: 1.5 }, { subject: 'juice', rousehops: '0' })
  await event.publishCloudEvent(event.buildResponseCloudEvent('8', 'order.answered', 'text'))
  await event.emitCloudEvent('order.bytes', 'pricing', Buffer.from([0, 255]))
  const refused = await event.emitCloudEvent('', 'pricing', {}).catch((error) => error.message)
  event.setResponseStatus(201)
  const seen = { refused, data: event.data }
  for (const key of ['type', 'source', 'eventtypeversion', 'specversion', 'id', 'time', 'datacontenttype']) seen[key] = event['ce-' + key]
  return seen
}`, nodeScript, "kit.js", "node"},
		"nodejs26": {`
const sdk = require('sdk')
module.exports.main = async (req, res) => {
  const event = sdk.getCloudEvent(req)
  await sdk.emitCloudEvent('order.priced', 'pricing', { total: 1.5 }, { subject: 'juice', rousehops: '0' })
  await sdk.emitCloudEvent('order.bytes', 'pricing', Buffer.from([0, 255]))
  const refused = await sdk.emitCloudEvent('a', 'b', {}, { Bad: 1 }).catch((error) => error.message)
  const { data, id, type, source, specversion, time, datacontenttype, tenant } = event
  res.status(201).json({ refused, data, id, type, source, specversion, time: new Date(time).getTime(), datacontenttype, tenant, body: req.body })
}`, nodeScript, "kit.js", "node"},
		"python312": {`
def main(event, context):
    event.emitCloudEvent("order.priced", "pricing", {"total": 1.5}, {"subject": "juice", "rousehops": "0"})
    event.publishCloudEvent(event.buildResponseCloudEvent("8", "order.answered", "text"))
    event.emitCloudEvent("order.bytes", "pricing", b"\x00\xff")
    try:
        refused = event.emitCloudEvent("", "pricing", {})
    except ValueError as error:
        refused = str(error)
    keys = ("ce-type", "ce-source", "ce-id", "ce-time", "ce-specversion", "ce-eventtypeversion", "data")
    return {"refused": refused, "has": "ce-subject" in event, **{key: event.get(key) for key in keys}}
`, pythonScript, "kit.py", "python3"},
		"python314": {`
import sdk


def main():
    event = sdk.get_cloud_event()
    sdk.emit_cloud_event("order.priced", "pricing", {"total": 1.5}, {"subject": "juice", "rousehops": "0"})
    sdk.emit_cloud_event("order.bytes", "pricing", b"\x00\xff")
    try:
        refused = sdk.emit_cloud_event("a", "b", {}, {"Bad": 1})
    except ValueError as error:
        refused = str(error)
    names = ("id", "type", "source", "specversion", "tenant", "datacontenttype")
    return {"refused": refused, "data": event.data, "none": event.get("none"), **{name: event[name] for name in names}}, 201
`, pythonScript, "kit.py", "python3"},
	}
}

// A test kit that differs from the runtime lets tests pass whose handlers fail.
func TestTestKitsGiveHandlersWhatTheRuntimesGive(t *testing.T) {
	t.Parallel()
	supervisor, err := process.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, supervisor.Close()) })
	tools := toolchain.New(toolchain.Options{Cache: t.TempDir()})
	for runtime, kit := range testKits() {
		t.Run(runtime, func(t *testing.T) {
			f := every()[runtime+" by events"]
			f.Type, f.Source = "order.received", "shop"
			folder := write(t, f)
			require.NoError(t, os.WriteFile(filepath.Join(folder, kit.scriptFile), []byte(kit.script), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, pageOf(t, f).HandlerFile), []byte(kit.handler), 0o600))
			fn := built(t, f)
			fn.Spec.Source.Inline.Source = kit.handler
			publisher := loopback.StartSink(t, nil)
			running := startAt(t, fn, "http://"+publisher.Address()+"/publish", tools, supervisor)
			for _, data := range []string{`{"id":"1","lines":[{"n":1}]}`, `"text"`, `[1,2.5,null]`} {
				header := http.Header{
					"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"7"}, "Ce-Type": {f.Type}, "Ce-Source": {f.Source},
					"Ce-Time": {"2026-01-02T03:04:05Z"}, "Ce-Tenant": {"a"}, "Ce-Rousehops": {"2"},
				}
				before := len(publisher.Requests())
				status, body := running.post(t, header, data)
				var want outcome
				want.Status = status
				require.NoError(t, json.Unmarshal([]byte(body), &want.Body), body)
				for _, request := range publisher.Requests()[before:] {
					var event map[string]any
					require.NoError(t, json.Unmarshal(request.Body, &event))
					want.Emitted = append(want.Emitted, withoutChance(event))
				}
				require.NotEmpty(t, want.Emitted)
				require.Equal(t, want, byKit(t, kit, folder, data))
			}
		})
	}
}

// outcome is what a call did.
type outcome struct {
	Status  int
	Body    any
	Emitted []map[string]any
}

func byKit(t *testing.T, kit testKit, folder, data string) (found outcome) {
	t.Helper()
	command := exec.CommandContext(t.Context(), kit.program, kit.scriptFile, "["+data+"]")
	command.Dir, command.Env = folder, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	require.NoError(t, err, problems.String())
	require.NoError(t, json.Unmarshal(out, &found), string(out))
	for i := range found.Emitted {
		found.Emitted[i] = withoutChance(found.Emitted[i])
	}
	return found
}

// withoutChance checks what each run makes anew, and removes it.
func withoutChance(event map[string]any) map[string]any {
	if id, _ := event["id"].(string); len(id) == len("123e4567-e89b-12d3-a456-426614174000") {
		event["id"] = "a UUID"
	}
	if time, _ := event["time"].(string); strings.HasSuffix(time, "Z") {
		event["time"] = "a time in UTC"
	}
	return event
}

func TestTheSamplesHaveTheFilesThatInitWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"x", "--type", "ticket.opened", "--source", "desk", "--namespace", "tickets"},
		{"notifier", "--runtime", "python", "--type", "ticket.triaged", "--source", "support", "--namespace", "tickets"},
		{"triage", "--typescript", "--type", "ticket.opened", "--source", "desk", "--namespace", "tickets"},
	} {
		_, err := execute(t, append(args, "--directory", dir)...)
		require.NoError(t, err)
	}
	for written, sample := range map[string]string{
		"x/rouse-testing.js": "test/rouse-testing.js", "notifier/rouse_testing.py": "test/rouse_testing.py",
		"triage/rouse.d.ts": "rouse.d.ts", "triage/tsconfig.json": "tsconfig.json",
	} {
		want, err := os.ReadFile(filepath.Join(dir, written))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("..", "..", "samples", "tickets", sample))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), sample)
	}
}

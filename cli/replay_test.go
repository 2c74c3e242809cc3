package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

func TestAnEventThatLocalModeHasSeenIsPublishedAgainUnderANewID(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"by its id":   {"1001"},
		"by its type": {"--type", "order.received"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			got := w.run(t, append([]string{"events", "replay"}, args...)...)
			require.Zero(t, got.code, got.err)
			id := strings.TrimSpace(got.out)
			require.Regexp(t, `^1001-\d{6}\.\d{3}$`, id)
			request := w.pricing.Await(t, 1)[0]
			require.Equal(t, id, request.ID())
			require.JSONEq(t, `{"id":"1001"}`, string(request.Body))
			require.Equal(t, "a", request.Header.Get("Ce-Tenant"))
			require.Empty(t, request.Header.Get("Ce-Rousecause"), "a replay has no cause")
		})
	}
}

func TestEventsOfAFileAreReplayedByIDAndType(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	file := filepath.Join(t.TempDir(), "events.json")
	require.NoError(t, os.WriteFile(file, []byte(`[
		{"specversion": "1.0", "id": "1", "source": "shop", "type": "order.received", "data": {}},
		{"specversion": "1.0", "id": "2", "source": "shop", "type": "order.received", "data": {}},
		{"specversion": "1.0", "id": "1", "source": "shop", "type": "stock.moved", "data": {}}]`), 0o600))
	got := w.run(t, "events", "replay", "1", "--from", file, "--type", "order.*", "--same-id")
	require.Zero(t, got.code, got.err)
	require.Equal(t, "1\n", got.out)
	require.Equal(t, "1", w.pricing.Await(t, 1)[0].ID())
}

func TestAReplayOfNothingIsAnError(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(http.ResponseWriter, *http.Request) {})
	file := filepath.Join(t.TempDir(), "events.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"specversion": "1.0", "id": "1", "source": "shop", "type": "a.b"}`), 0o600))
	for name, tc := range map[string]struct {
		args []string
		code exit.Code
		want string
	}{
		"nothing is named":   {nil, exit.Usage, "nothing is selected: name ids, --type or --from"},
		"a * in the middle":  {[]string{"--type", "a.*.b"}, exit.Usage, "a * may stand at its end only"},
		"an id that is not":  {[]string{"7"}, exit.NotFound, "local mode remembers no event with the id 7"},
		"a type that is not": {[]string{"--from", file, "--type", "c.d"}, exit.NotFound, "there is no event of type c.d in " + file},
		"a file that is not": {[]string{"--from", "no/such.json"}, exit.Usage, "--from: open no/such.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := w.run(t, append([]string{"events", "replay"}, tc.args...)...)
			require.Equal(t, int(tc.code), got.code, got.err)
			require.Contains(t, got.err, tc.want)
		})
	}
}

package sink

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/sinktest"
)

func TestAnAnswerThatIsAnEventIsAReply(t *testing.T) {
	t.Parallel()
	structured := `{"specversion":"1.0","id":"2","source":"price","type":"order.priced.v1","data":{"eur":7}}`
	for name, tc := range map[string]struct {
		header map[string]string
		status int
		body   string
		want   string // type of the reply
		says   string // of the error
	}{
		"in structured mode": {
			header: map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}, body: structured, want: "order.priced.v1",
		},
		"in binary mode": {
			header: map[string]string{
				"Ce-Specversion": "1.0", "Ce-Id": "2", "Ce-Source": "price", "Ce-Type": "order.priced.v1", "Content-Type": "application/json",
			}, body: `{"eur":7}`, status: http.StatusAccepted, want: "order.priced.v1",
		},
		"no event":                    {header: map[string]string{"Content-Type": "application/json"}, body: structured},
		"a failure":                   {header: map[string]string{"Content-Type": "application/cloudevents+json"}, status: http.StatusConflict, body: structured},
		"what is no JSON":             {header: map[string]string{"Content-Type": "application/cloudevents+json"}, body: "{", says: "not a structured CloudEvent"},
		"an event without a type":     {header: map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "2", "Ce-Source": "price"}, says: "type: MUST"},
		"more than any store takes":   {header: map[string]string{"Ce-Specversion": "1.0"}, body: strings.Repeat("x", 1<<20+1), says: "more than"},
		"a version that nobody knows": {header: map[string]string{"Ce-Specversion": "7"}, says: "unknown specversion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := sinktest.Start(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tc.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(max(tc.status, http.StatusOK))
				_, _ = w.Write([]byte(tc.body))
			})
			s := run(t, sinktest.NewEndpoints(sinktest.Ready(server.Address())), DefaultOptions())
			open(t, s)
			answer, err := s.Send(t.Context(), order("1"))
			require.NoError(t, err)
			switch {
			case tc.want != "":
				require.NoError(t, answer.ReplyError)
				require.Equal(t, tc.want, answer.Reply.Type)
				require.JSONEq(t, `{"eur":7}`, string(answer.Reply.Data))
			case tc.says != "":
				require.ErrorContains(t, answer.ReplyError, tc.says)
				require.Nil(t, answer.Reply)
			default:
				require.Nil(t, answer.Reply)
				require.NoError(t, answer.ReplyError)
			}
		})
	}
}

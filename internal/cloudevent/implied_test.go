package cloudevent

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/stretchr/testify/require"
)

func TestDataWithoutATypeAreTheSameForTheSDKFromJSONAndFromHeaders(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ members, contentType string }{
		"an object":                     {`"data":{"a":[1,null]}`, "application/json"},
		"a string":                      {`"data":"a"`, "application/json"},
		"a number":                      {`"data":7`, "application/json"},
		"a truth value":                 {`"data":false`, "application/json"},
		"null":                          {`"data":null`, "application/json"},
		"bytes":                         {`"data_base64":"AAH/"`, ""},
		"bytes that happen to be JSON":  {`"data_base64":"Nw=="`, ""},
		"nothing":                       {`"subject":"a"`, ""},
		"a string that has a type":      {`"data":"7","datacontenttype":"text/plain"`, "text/plain"},
		"an object that has a type too": {`"data":{"a":1},"datacontenttype":"application/json"`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t",` + tc.members + `}`)
			e, err := FromStructured(body)
			require.NoError(t, err)
			header := http.Header{}
			e.SetHeader(header)
			require.Equal(t, tc.contentType, header.Get("Content-Type"))

			var want event.Event
			require.NoError(t, json.Unmarshal(body, &want))
			got, err := binding.ToEvent(t.Context(), cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(e.Data))))
			require.NoError(t, err)
			require.Equal(t, string(want.Data()), string(got.Data()))

			var again event.Event
			require.NoError(t, json.Unmarshal(e.AppendStructured(nil), &again))
			require.Equal(t, string(want.Data()), string(again.Data()))
			require.Equal(t, want.DataContentType(), again.DataContentType(), "JSON stays as it was written")
		})
	}
}

func TestABodyWithoutATypeThatIsNoJSONHasNone(t *testing.T) {
	t.Parallel()
	e, err := FromBinary(http.Header{"Ce-Specversion": {"1.0"}}, []byte("hello"))
	require.NoError(t, err)
	header := http.Header{}
	e.SetHeader(header)
	require.NotContains(t, header, "Content-Type")
}

package cloudevent

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// published is a request of 1 KiB in binary mode.
func published() (http.Header, []byte) {
	body := `{"order":{"id":"4711","items":[{"sku":"A-1","count":2},{"sku":"B-2","count":1}],"note":"` + strings.Repeat("x", 920) + `"}}`
	return http.Header{
		"Ce-Specversion": {"1.0"}, "Ce-Id": {"b6dd2c9e-4e9e-4f4a-8f47-2d1e4a7c2e39"}, "Ce-Source": {"shop"}, "Ce-Type": {"order.received.v1"},
		"Ce-Time": {"2026-01-02T03:04:05.678Z"}, "Content-Type": {"application/json"}, "Content-Length": {"1030"}, "User-Agent": {"Go-http-client/1.1"},
	}, []byte(body)
}

// BenchmarkStore reads a request and writes what is stored.
func BenchmarkStore(b *testing.B) {
	header, body := published()
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e, err := FromBinary(header, body)
			if err != nil || e.Validate() != nil {
				b.Fatal(err)
			}
			e.SetExtension("originaltype", e.Type)
			if len(e.AppendStructured(make([]byte, 0, len(body)+512))) < len(body) {
				b.Fatal("too little")
			}
		}
	})
	b.Run("sdk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e, err := binding.ToEvent(b.Context(), cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(body))))
			if err != nil || e.Validate() != nil {
				b.Fatal(err)
			}
			e.SetExtension("originaltype", e.Type())
			var out bytes.Buffer
			if err := event.WriteJson(e, &out); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDeliver reads what is stored and writes a request.
func BenchmarkDeliver(b *testing.B) {
	e, _ := FromBinary(published())
	e.SetExtension("originaltype", e.Type)
	stored := e.AppendStructured(nil)
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		header := http.Header{}
		for b.Loop() {
			e, err := FromStructured(stored)
			if err != nil || e.Validate() != nil {
				b.Fatal(err)
			}
			e.SetHeader(header)
		}
	})
	b.Run("sdk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e := event.Event{}
			if err := json.Unmarshal(stored, &e); err != nil || e.Validate() != nil {
				b.Fatal(err)
			}
			req := &http.Request{Header: http.Header{}}
			if err := cehttp.WriteRequest(b.Context(), (*binding.EventMessage)(&e), req); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkValidJSON is most of the time that large events take.
func BenchmarkValidJSON(b *testing.B) {
	_, body := published()
	for name, valid := range map[string]func([]byte) bool{"own": ValidJSON, "encoding-json": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if !valid(body) {
					b.Fatal("it is valid")
				}
			}
		})
	}
}

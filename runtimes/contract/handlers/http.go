package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

func anyEventHTTP(w http.ResponseWriter, r *http.Request) {
	event, err := function.EventOf(r)
	if err != nil {
		function.Fail(w, err)
		return
	}
	found := map[string]any{"event": false}
	if event != nil {
		found = map[string]any{"event": true, "specversion": event.SpecVersion, "time": !event.Time.IsZero()}
	}
	writeJSON(w, found)
}

func busyHTTP(http.ResponseWriter, *http.Request) {
	for { //nolint:staticcheck // it never gives up the processor
	}
}

func contextHTTP(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"name": function.Name(), "namespace": function.Namespace(), "runtime": function.Runtime(), "timeout": function.Timeout().Seconds(),
	})
}

func echoHTTP(w http.ResponseWriter, r *http.Request) {
	var data any
	if err := json.NewDecoder(r.Body).Decode(&data); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, map[string]any{"method": r.Method, "data": data})
}

func emitHTTP(w http.ResponseWriter, r *http.Request) {
	var was any
	if err := json.NewDecoder(r.Body).Decode(&was); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	priced := map[string]any{"price": 42, "was": was}
	if err := function.Emit(r.Context(), "order.priced", "orders", priced, function.Attributes{"eventtypeversion": "v1"}); err != nil {
		function.Fail(w, err)
		return
	}
	writeJSON(w, emitted)
}

func emitCauseHTTP(w http.ResponseWriter, r *http.Request) {
	emitNote(w, r, nil, function.Attributes{"rousecause": "mine"})
}

func emitInvalidHTTP(w http.ResponseWriter, r *http.Request) {
	emitNote(w, r, "grüß dich", function.Attributes{"not-valid": "x"})
}

func emitTextHTTP(w http.ResponseWriter, r *http.Request) {
	emitNote(w, r, "grüß dich")
}

func emptyHTTP(http.ResponseWriter, *http.Request) {}

func eventHTTP(w http.ResponseWriter, r *http.Request) {
	event, err := function.EventOf(r)
	var data any
	if err == nil && event != nil {
		err = event.DataAs(&data)
	}
	if err != nil {
		function.Fail(w, err)
		return
	}
	if event == nil {
		http.Error(w, "no event", http.StatusNotFound)
		return
	}
	writeJSON(w, map[string]any{
		"id": event.ID, "type": event.Type, "source": event.Source, "version": event.Extensions["eventtypeversion"], "data": data,
	})
}

func objectHTTP(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"answer": 42})
}

func pathHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.RequestURI) //nolint:gosec // no browser asks
}

func slowHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintln(os.Stdout, "began")
	time.Sleep(1500 * time.Millisecond)
	writeJSON(w, map[string]any{"finished": true})
}

func statusHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Order", "7")
	w.Header().Set("Content-Type", "application/vnd.order+json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"created": true}`)
}

func stringHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "grüß <b>dich</b>")
}

func textHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		function.Fail(w, err)
		return
	}
	_, _ = w.Write(append([]byte("got "), text...))
}

func throwsHTTP(http.ResponseWriter, *http.Request) {
	panic(errors.New("the secret reason"))
}

func verbatimHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, verbatim)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func emitNote(w http.ResponseWriter, r *http.Request, data any, attributes ...function.Attributes) {
	if err := function.Emit(r.Context(), "order.noted", "orders", data, attributes...); err != nil {
		function.Fail(w, err)
		return
	}
	writeJSON(w, emitted)
}

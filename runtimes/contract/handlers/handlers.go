// Package handlers contains the contract's handlers in Go, each in both forms of a Function in Go. Those of other
// languages are in the folders beside it, as are handlers in Go that do not compile.
package handlers

import "github.com/rouse-run/rouse/runtimes/golang/function"

// Served runs each handler as a Function, by the names of the case and the form.
var Served = map[string]func(){
	"any-event/event":    func() { function.Serve(anyEventEvent) },
	"any-event/http":     func() { function.Serve(anyEventHTTP) },
	"busy/event":         func() { function.Serve(busyEvent) },
	"busy/http":          func() { function.Serve(busyHTTP) },
	"context/event":      func() { function.Serve(contextEvent) },
	"context/http":       func() { function.Serve(contextHTTP) },
	"echo/event":         func() { function.Serve(echoEvent) },
	"echo/http":          func() { function.Serve(echoHTTP) },
	"emit/event":         func() { function.Serve(emitEvent) },
	"emit/http":          func() { function.Serve(emitHTTP) },
	"emit-cause/event":   func() { function.Serve(emitCauseEvent) },
	"emit-cause/http":    func() { function.Serve(emitCauseHTTP) },
	"emit-invalid/event": func() { function.Serve(emitInvalidEvent) },
	"emit-invalid/http":  func() { function.Serve(emitInvalidHTTP) },
	"emit-text/event":    func() { function.Serve(emitTextEvent) },
	"emit-text/http":     func() { function.Serve(emitTextHTTP) },
	"empty/event":        func() { function.Serve(emptyEvent) },
	"empty/http":         func() { function.Serve(emptyHTTP) },
	"event/event":        func() { function.Serve(eventEvent) },
	"event/http":         func() { function.Serve(eventHTTP) },
	"object/event":       func() { function.Serve(objectEvent) },
	"object/http":        func() { function.Serve(objectHTTP) },
	"path/event":         func() { function.Serve(pathEvent) },
	"path/http":          func() { function.Serve(pathHTTP) },
	"slow/event":         func() { function.Serve(slowEvent) },
	"slow/http":          func() { function.Serve(slowHTTP) },
	"status/event":       func() { function.Serve(statusEvent) },
	"status/http":        func() { function.Serve(statusHTTP) },
	"string/event":       func() { function.Serve(stringEvent) },
	"string/http":        func() { function.Serve(stringHTTP) },
	"text/event":         func() { function.Serve(textEvent) },
	"text/http":          func() { function.Serve(textHTTP) },
	"throws/event":       func() { function.Serve(throwsEvent) },
	"throws/http":        func() { function.Serve(throwsHTTP) },
	"verbatim/event":     func() { function.Serve(verbatimEvent) },
	"verbatim/http":      func() { function.Serve(verbatimHTTP) },
}

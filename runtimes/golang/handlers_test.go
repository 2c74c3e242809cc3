package golang_test

import (
	anyeventEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/any-event/event"
	anyeventHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/any-event/http"
	busyEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/busy/event"
	busyHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/busy/http"
	contextEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/context/event"
	contextHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/context/http"
	echoEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/echo/event"
	echoHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/echo/http"
	emitcauseEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/emit-cause/event"
	emitcauseHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/emit-cause/http"
	emitinvalidEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/emit-invalid/event"
	emitinvalidHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/emit-invalid/http"
	emittextEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/emit-text/event"
	emittextHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/emit-text/http"
	emitEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/emit/event"
	emitHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/emit/http"
	emptyEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/empty/event"
	emptyHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/empty/http"
	eventEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/event/event"
	eventHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/event/http"
	objectEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/object/event"
	objectHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/object/http"
	pathEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/path/event"
	pathHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/path/http"
	slowEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/slow/event"
	slowHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/slow/http"
	statusEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/status/event"
	statusHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/status/http"
	stringEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/string/event"
	stringHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/string/http"
	textEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/text/event"
	textHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/text/http"
	throwsEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/throws/event"
	throwsHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/throws/http"
	verbatimEvent "github.com/rouse-run/rouse/runtimes/contract/handlers/verbatim/event"
	verbatimHttp "github.com/rouse-run/rouse/runtimes/contract/handlers/verbatim/http"
	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// handlers are those of the contract, each in both forms, compiled into the test, and one for what Go alone does.
var handlers = map[string]func(){
	"any-event/event/handler.go":    func() { function.Serve(anyeventEvent.Handle) },
	"any-event/http/handler.go":     func() { function.Serve(anyeventHttp.Handle) },
	"busy/event/handler.go":         func() { function.Serve(busyEvent.Handle) },
	"busy/http/handler.go":          func() { function.Serve(busyHttp.Handle) },
	"context/event/handler.go":      func() { function.Serve(contextEvent.Handle) },
	"context/http/handler.go":       func() { function.Serve(contextHttp.Handle) },
	"echo/event/handler.go":         func() { function.Serve(echoEvent.Handle) },
	"echo/http/handler.go":          func() { function.Serve(echoHttp.Handle) },
	"emit/event/handler.go":         func() { function.Serve(emitEvent.Handle) },
	"emit/http/handler.go":          func() { function.Serve(emitHttp.Handle) },
	"emit-cause/event/handler.go":   func() { function.Serve(emitcauseEvent.Handle) },
	"emit-cause/http/handler.go":    func() { function.Serve(emitcauseHttp.Handle) },
	"emit-invalid/event/handler.go": func() { function.Serve(emitinvalidEvent.Handle) },
	"emit-invalid/http/handler.go":  func() { function.Serve(emitinvalidHttp.Handle) },
	"emit-text/event/handler.go":    func() { function.Serve(emittextEvent.Handle) },
	"emit-text/http/handler.go":     func() { function.Serve(emittextHttp.Handle) },
	"empty/event/handler.go":        func() { function.Serve(emptyEvent.Handle) },
	"empty/http/handler.go":         func() { function.Serve(emptyHttp.Handle) },
	"event/event/handler.go":        func() { function.Serve(eventEvent.Handle) },
	"event/http/handler.go":         func() { function.Serve(eventHttp.Handle) },
	"misstated":                     func() { function.Serve(misstated) },
	"lasting":                       func() { function.Serve(lasting) },
	"upgraded":                      func() { function.Serve(upgraded) },
	"object/event/handler.go":       func() { function.Serve(objectEvent.Handle) },
	"object/http/handler.go":        func() { function.Serve(objectHttp.Handle) },
	"path/event/handler.go":         func() { function.Serve(pathEvent.Handle) },
	"path/http/handler.go":          func() { function.Serve(pathHttp.Handle) },
	"slow/event/handler.go":         func() { function.Serve(slowEvent.Handle) },
	"slow/http/handler.go":          func() { function.Serve(slowHttp.Handle) },
	"status/event/handler.go":       func() { function.Serve(statusEvent.Handle) },
	"status/http/handler.go":        func() { function.Serve(statusHttp.Handle) },
	"string/event/handler.go":       func() { function.Serve(stringEvent.Handle) },
	"string/http/handler.go":        func() { function.Serve(stringHttp.Handle) },
	"text/event/handler.go":         func() { function.Serve(textEvent.Handle) },
	"text/http/handler.go":          func() { function.Serve(textHttp.Handle) },
	"throws/event/handler.go":       func() { function.Serve(throwsEvent.Handle) },
	"throws/http/handler.go":        func() { function.Serve(throwsHttp.Handle) },
	"verbatim/event/handler.go":     func() { function.Serve(verbatimEvent.Handle) },
	"verbatim/http/handler.go":      func() { function.Serve(verbatimHttp.Handle) },
}

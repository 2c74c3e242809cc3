package main

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

// answer is what a hostile sink answers to each event. Unless the answer is whole, the sink then keeps the connection and sends
// nothing more until it is closed.
type answer struct {
	start string
	more  string        // behind it, as often as times says
	times int           // however often: forever
	every time.Duration // between two
	whole bool
}

const forever = 1 << 30

// ok begins an answer, line by line.
func ok(lines ...string) string { return "HTTP/1.1 200 OK\r\n" + strings.Join(lines, "\r\n") }

// reply begins one that is an event.
func reply(mode string, size int) string {
	return ok(mode, fmt.Sprintf("Content-Length: %d", size)) + "\r\n\r\n"
}

const (
	structured = "Content-Type: application/cloudevents+json"
	binaryText = "Ce-Specversion: 1.0\r\nCe-Id: {n}\r\nCe-Source: " + source + "\r\nCe-Type: reply.v1\r\nContent-Type: text/plain"
	eventStart = `{"specversion":"1.0","id":"{n}","source":"` + source + `","type":"reply.v1",`
	largeReply = 1000 << 10 // as large as NATS takes, and less than a mebibyte
)

// Names of answers that are asked for in several places.
const (
	hangs     = "hangs"
	takes     = "takes"
	rejects   = "rejects"
	certified = "certificates"
)

// answers have names, by which the path of a sink's address asks for them. No bridge, which is the same program, has them in
// memory.
var answers = sync.OnceValue(func() map[string]answer {
	return map[string]answer{
		hangs:          {},
		takes:          {start: "HTTP/1.1 204 No Content\r\n\r\n", whole: true},
		rejects:        {start: "HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 2048\r\n\r\n", more: strings.Repeat("x", 2048), times: 1, whole: true},
		"later":        {start: "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", whole: true},
		"long headers": {start: ok(""), more: "Note: " + strings.Repeat("x", 8<<10) + "\r\n", times: 128},
		"headers":      {start: ok(strings.Repeat("Note: "+strings.Repeat("x", 240)+"\r\n", 62))},
		"tiny lines":   {start: ok(tinyLines(15 << 10))},
		"100 MiB":      {start: ok("Content-Length: 104857600") + "\r\n\r\n", more: strings.Repeat("x", 64<<10), times: 1600, whole: true},
		"trickles":     {start: ok("Transfer-Encoding: chunked") + "\r\n\r\n", more: "1\r\nx\r\n", times: forever, every: 50 * time.Millisecond},
		"reply": {
			start: reply(structured, largeReply), more: padded(eventStart+`"data":"`, largeReply), times: 1, whole: true,
		},
		"slow reply": {
			start: reply(structured, 1<<20), more: strings.Repeat(" ", 16<<10), times: 63, every: 50 * time.Millisecond,
		},
		"extensions": {
			start: reply(structured, 1<<20), more: manyExtensions(1 << 20), times: 1, whole: true,
		},
		"growing reply": {start: reply(binaryText, 1<<20), more: strings.Repeat("\x01", 1<<20), times: 1, whole: true},
		certified:       {},
	}
})

func answerPath(name string) string { return url.PathEscape(name) }

// padded is a text that begins so, has so many bytes, and ends a string and an object of JSON. {n} may grow to a few digits.
func padded(start string, size int) string {
	const end, digits = `"}`, len("{n}")
	return start + strings.Repeat("x", size-len(start)-len(end)+digits-numberSize) + end
}

// manyExtensions is an event of so many bytes.
func manyExtensions(size int) string {
	var event strings.Builder
	event.WriteString(eventStart)
	for i := 0; event.Len() < size-32; i++ {
		fmt.Fprintf(&event, `"e%x":1,`, i)
	}
	return padded(event.String()+`"data":"`, size)
}

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

const source = "bench"

// head begins a request to publish, line by line.
func head(lines ...string) string {
	return "POST /publish HTTP/1.1\r\nHost: bridge\r\n" + strings.Join(lines, "\r\n") + "\r\n"
}

func sized(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }

// binary begins an event in binary mode.
func binary(id, contentType string) string {
	return head("Ce-Specversion: 1.0", "Ce-Id: "+id, "Ce-Source: "+source, "Ce-Type: "+eventType, "Content-Type: "+contentType)
}

const batch = "Content-Type: application/cloudevents-batch+json"

// publisherShapes are requests of publishers at the bounds: as large, as many and as slow as allowed, and beyond that.
func publisherShapes() []shape {
	return []shape{
		{name: "connections without a request", connections: 8000},
		{name: "headers of tiny lines, without an end", connections: 8000, request: head(tinyLines(19 << 10))},
		{name: "as many header lines as may be", connections: 8000, request: head(tinyLines(120 * 7))},
		{name: "one long header line, without an end", connections: 8000, request: head("Note: " + strings.Repeat("x", 19<<10))},
		{name: "bodies that are announced", connections: 4000, request: head(batch) + "Content-Length: 1048576\r\n\r\n"},
		{name: "bodies without their last byte", connections: 512, request: head(batch) + "Content-Length: 1048576\r\n\r\n" + strings.Repeat(" ", 1<<20-1)},
		{name: "chunks without an end", connections: 512, request: head(batch, "Transfer-Encoding: chunked") + "\r\nfffff\r\n" + strings.Repeat(" ", 1<<20-1)},
		{name: "trailers of tiny lines", connections: 512, request: binary("trailer", "text/plain") + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + tinyLines(3<<10) + "\r\n"},
		{name: "unread answers", connections: 4000, request: binary("unread", "text/plain") + sized("x"), behaviour: ignoresAnswers},
		{name: "batches of extensions", connections: 128, request: head(batch) + sized(batchOf(`,"e":`+extensions(64)))},
		{name: "batches of too many extensions", connections: 128, request: head(batch) + sized(batchOf(`,"e":`+extensions(3000)))},
		{name: "batches that fail, with ids to quote", connections: 512, request: head(batch) + sized(batchOf(`,"id":"`+strings.Repeat("<", 3000)+`","type":""`)), behaviour: ignoresAnswers},
		{name: "text that is six times as large in JSON", connections: 1024, request: binary("text", "text/plain") + sized(strings.Repeat("\x01", 60<<10))},
		{name: "bytes that become base64", connections: 1024, request: binary("bytes", "application/octet-stream") + sized(strings.Repeat("\xff", 60<<10))},
		{name: "legacy events", connections: 1024, request: "POST /shop/v1/events HTTP/1.1\r\nHost: bridge\r\n" + sized(`{"event-type":"a.b","event-type-version":"v1",`+
			`"event-time":"2026-01-02T03:04:05Z","data":"`+strings.Repeat("x", 60<<10)+`"}`)},
		{name: "a journal of long texts", connections: 64, request: head(batch) + sized(batchOf(longTexts()))},
		{
			name: "forged tokens of clients that disconnect", connections: 2000, behaviour: disconnects, reviewTime: time.Second, flags: withTokens,
			request: binary("token", "text/plain") + "Authorization: Bearer {n}" + strings.Repeat("x", 7<<10) + "\r\n" + sized("x"),
		},
	}
}

// withTokens has bridges ask for a token.
var withTokens = []string{`--access={"publish":{"rules":[{"serviceAccounts":["shop/*"]}]}}`}

// longTexts are attributes of the largest size that a journal keeps and a subject can hold.
func longTexts() string {
	const subjectSlack = 8
	var members strings.Builder
	for _, name := range []string{"id", "source", "type", "rousecause"} {
		fmt.Fprintf(&members, `,"%s":"%s"`, name, strings.Repeat("x", journal.MaxText-subjectSlack))
	}
	return members.String()
}

// tinyLines are different headers in about so many bytes.
func tinyLines(size int) string {
	var lines strings.Builder
	for i := 0; lines.Len() < size; i++ {
		fmt.Fprintf(&lines, "h%x:\r\n", i)
	}
	return lines.String()
}

// batchOf is a full batch of events that have more than others.
func batchOf(more string) string {
	const events, largest = 256, 1 << 20
	event := `{"specversion":"1.0","id":"1","source":"` + source + `","type":"` + eventType + `"` + more + "}"
	return "[" + strings.Repeat(event+",", min(events, largest/(len(event)+1))-1) + event + "]"
}

// extensions are the value of one, and others behind it.
func extensions(n int) string {
	var members strings.Builder
	members.WriteString("1")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&members, `,"e%d":1`, i)
	}
	return members.String()
}

package differential

// bodies come slowly, or not to their end.
func bodies(c *corpus) {
	const host, next = "plain.example.com", "GET /hidden HTTP/1.1\r\nHost: plain.example.com\r\n\r\n"
	const length, chunks = "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"
	send := func(name, header, body, rest string, last bool) {
		if !last {
			header += "Connection: close\r\n"
		}
		c.requests = append(c.requests, request{name, "POST / HTTP/1.1\r\nHost: " + host + "\r\n" + header + "\r\n" + body, rest, last})
	}
	send("a slow body", length, "he", "llo", false)
	send("slow chunks", chunks, "2\r\nhe\r\n3\r", "\nllo\r\n0\r\n\r\n", false)
	send("a body that stops", length, "he", "", true)
	send("a body that does not begin", length, "", "", true)
	send("chunks that stop", chunks, "2\r\nhe\r\n3\r", "", true)
	send("a chunk that is none", chunks, "2\r\nhe\r\nx\r\n", next, true)
	send("a chunk that is too long", chunks, "2\r\nhello\r\n", next, true)
}

package differential

import "strings"

// malformed requests are answered before any rule.
func malformed(c *corpus) {
	const host = "plain.example.com"
	const at = "Host: " + host
	send := func(name, first string, lines ...string) {
		head, body := lines, ""
		if last := len(lines) - 1; last >= 0 && strings.HasPrefix(lines[last], "\r\n") {
			head, body = lines[:last], lines[last][2:]
		}
		c.raw(name, strings.Join(append(append([]string{first}, head...), "Connection: close"), "\r\n")+"\r\n\r\n"+body)
	}
	const get, post = "GET / HTTP/1.1", "POST / HTTP/1.1"
	c.raw("HTTP/1.0", "GET / HTTP/1.0\r\n"+at+"\r\n\r\n")
	c.raw("bare line feeds", get+"\n"+at+"\nConnection: close\n\n")
	send("HTTP/2.0", "GET / HTTP/2.0", at)
	send("HTTP/3.7", "GET / HTTP/3.7", at)
	send("no host", get)
	send("two hosts", get, at, "Host: unknown.example.com")
	send("an empty host", get, "Host: ")
	send("a user in the host", get, "Host: a@"+host)
	send("a path in the host", get, at+"/a")
	send("a space in the target", "GET /a b HTTP/1.1", at)
	send("a target without a slash", "GET a HTTP/1.1", at)
	send("a line without a colon", get, at, "nonsense")
	send("a space before the colon", get, at, "X-One : a")
	send("a folded line", get, at, "X-One: a\r\n b")
	send("a control character", get, at, "X-One: a\x01b")
	send("two lengths", post, at, "Content-Length: 1", "Content-Length: 2", "\r\nxx")
	send("two equal lengths", post, at, "Content-Length: 1", "Content-Length: 1", "\r\nx")
	send("a signed length", post, at, "Content-Length: +1", "\r\nx")
	send("a length and chunks", post, at, "Content-Length: 5", "Transfer-Encoding: chunked", "\r\n0\r\n\r\n")
	send("a coding but chunked", post, at, "Transfer-Encoding: gzip, chunked", "\r\n0\r\n\r\n")
}

package differential

import (
	"fmt"
	"strings"
)

// paths asks for each path at each pattern.
func paths(c *corpus) {
	for i, pattern := range []string{
		"/", "/*", "/{**}", "/anything/one", "/example/{*}", "/example/{*}/one", "/example/{**}", "/example/{**}/one",
		"/{*}/example/{*}/{**}", "/{*}", "/example/", "/{*}/{*}",
	} {
		host := fmt.Sprintf("path-%d.example.com", i)
		c.expose(rulesAt(host, "paths", open(pattern)))
		for _, path := range []string{
			"/", "/anything/one", "/anything/one/", "/anything/one?two=three", "/anything/onE", "/anything",
			"/example", "/example/", "/example/a", "/example/a/", "/example/a/b", "/example/a/b/", "/example/a%20b", "/example/a+b",
			"/example/one", "/example/a/one", "/example/a/b/one", "/example/a/one/",
			"/a/example/b/", "/a/example/b/c", "/a/example/b", "/a/example/b/c/d",
		} {
			c.get(host, path)
		}
	}
	c.get("path-7.example.com", "/example//one")
	c.get("path-6.example.com", "/example//one")
	c.get("path-4.example.com", "/example//")
	c.get("path-11.example.com", "//example")
}

// encodings are paths that do not look like what they are.
func encodings(c *corpus) {
	const host = "encoding.example.com"
	c.expose(rulesAt(host, "encodings",
		open("/admin", "POST"), open("/files/{*}"), open("/deep/{**}"), open("/v1.0/orders"), open("/plus+sign"), open("/a%20b"),
	))
	for _, path := range []string{
		"/files/a%2Fb", "/files/a%2fb", "/files/%41", "/files/%7Euser", "/files/~user", "/files/a%00b", "/files/a%20b",
		"/files/a;b=c", "/files/a:b@c", "/files/!$&'()+,;=", "/files/%C3%A9", "/files/..%2fetc", "/files/%2e%2e%2fetc",
		"/files/a/../b", "/files/a/./b", "/files/./b", "/files/../files/b", "/files/%2e/b", "/files/a/%2e%2e/b", "/files/a/.%2E/b",
		"/deep/a/..", "/deep/a/.", "/deep/a/../../files/x", "/deep/../../../files/x", "/deep/a//b", "/deep/a/../..//files/x",
		"/deep/a?b=/../c", "/deep/a?b=%2F", "/deep/?", "/deep/a?", "/deep/a?b=c&b=d;e", "/v1.0/orders", "/a%20b", "/a%20b/",
		"/admin", "/%61dmin", "/x/../files/a", "/files/a%", "/deep/...", "/deep/.../a", "/deep/.a", "/deep/a..", "/deep/%2e%2e",
	} {
		c.get(host, path)
	}
	c.get(host, "/v1X0/orders")
	c.get(host, "/plus+sign")
	c.get(host, "/plussign")
	c.get(host, "/files/r*m")
	c.get(host, "/deep/r*m/*")
	c.get(host, `/files/a\b`)
	c.get(host, `/files\a`)
	c.get(host, "/files/a#b")
	c.get(host, "/files/é")
	c.get(host, "/files/a|b")
	c.get(host, "/files/a\"b")
	c.get(host, "/files/{a}")
	c.get(host, "/deep/a%zz")
	c.get(host, "/files/%c3%a9")
	c.get(host, "/deep/a%2f..%2fb")
	c.get(host, "/deep/a?b=%zz")
	c.get(host, "/deep/"+strings.Repeat("a", 9000))
}

// order has rules whose order matters.
func order(c *corpus) {
	a := c.issuers["a"]
	const quirk, split = "quirk.example.com", "split.example.com"
	c.expose(
		rulesAt(quirk, "quirk", withTokens("/anything/{*}/one", a.accepted(), "POST"), open("/anything/{**}", "GET", "POST")),
		rulesAt(split, "split",
			withTokens("/anything/{*}/one", a.accepted(), "POST"), open("/anything/{**}", "GET"), open("/anything/{**}", "POST"),
		),
		rulesAt("first.example.com", "first", open("/a/b", "GET"), open("/a/{*}", "GET", "POST"), open("/{**}", "GET", "POST", "PUT")),
		rulesAt("whole.example.com", "whole", withTokens("/only", a.accepted(), "POST"), open("/*", "GET", "POST")),
	)
	token := "Authorization: Bearer " + a.token(nil)
	for _, host := range []string{quirk, split} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for _, path := range []string{"/anything/x/one", "/anything/x/two", "/anything/", "/anything/x/y/one"} {
				c.send(method, host, path, "")
				c.noted("with a token").send(method, host, path, "", token)
			}
		}
	}
	for _, host := range []string{"first.example.com", "whole.example.com"} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for _, path := range []string{"/a/b", "/a/c", "/only", "/"} {
				c.send(method, host, path, "")
			}
		}
	}
}

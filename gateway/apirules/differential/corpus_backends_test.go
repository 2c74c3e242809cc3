package differential

import (
	"fmt"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// refused is a Service where nothing listens.
const refused = "refused"

// headers of requests and answers on their way.
func headers(c *corpus) {
	const host = "header.example.com"
	changed := open("/set")
	changed.Request = &v2.Request{
		Headers: map[string]string{"X-One": "ours", "x-two": "two words", "User-Agent": "ours"},
		Cookies: map[string]string{"session": "ours", "theme": "dark"},
	}
	c.expose(rulesAt(host, "headers", changed, open("/plain", "GET", "POST"), withTokens("/guarded", c.issuers["a"].accepted())))
	for _, path := range []string{"/set", "/plain"} {
		for _, header := range []string{
			"X-One: theirs", "x-one: theirs", "Cookie: session=theirs; other=theirs", "X-Forwarded-Host: evil.example",
			"User-Agent: curl", "Accept: */*", "X-Empty: ", "X-Long: " + strings.Repeat("x", 4000), "Authorization: Basic YTpi",
			"Authorization: Bearer x", "Proxy-Authorization: Basic YTpi", "Referer: https://a.example/", "X-Ünicode: x",
			"Keep-Alive: timeout=5", "TE: trailers", "Via: 1.1 other", "Forwarded: for=1.2.3.4", "X-Real-Ip: 1.2.3.4",
			"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Port: 1", "X_Forwarded_Host: evil.example", "X_One: theirs",
			"Rouse-Refused: yes", "X-One:   spaces  ", "Accept-Encoding: gzip", "Expect: nonsense", "Content-Type: text/html",
		} {
			c.get(host, path, header)
		}
		c.get(host, path, "X-One: a", "X-One: b")
		c.get(host, path, "Cookie: a=b", "Cookie: c=d")
	}
	c.get(host, "/plain", "X-Hop: secret", "Connection: close, X-Hop")
	c.get(host, "/plain", "Upgrade: websocket")
	c.get(host, "/plain?access_token=x")
	c.noted("the token is forwarded").get(host, "/guarded", "Authorization: Bearer "+c.issuers["a"].token(claims{"iat": 1, "exp": nil}))
	for _, header := range []string{
		"X-Answer:yes", "Set-Cookie:a=b", "Cache-Control:no-store", "Etag:\"x\"", "Www-Authenticate:Basic", "Content-Language:de",
		"Access-Control-Allow-Private-Network:true", "Via:1.1 x", "Strict-Transport-Security:max-age=1", "Server:theirs", "Location:/x",
		"Rouse-Refused:overload", "X-Envoy-Upstream-Service-Time:7", "Content-Encoding:gzip",
	} {
		c.get(host, "/plain", behaviour+": header="+header)
	}
	for _, status := range []int{201, 204, 301, 302, 304, 400, 401, 403, 404, 418, 429, 500, 501, 502, 503, 504, 599} {
		c.get(host, "/plain", fmt.Sprintf("%s: status=%d", behaviour, status))
	}
}

// backends are slow, stream, break off, switch protocols or are not there.
func backends(c *corpus) {
	const host = "backend.example.com"
	soon := v2.Timeout(1)
	quick := open("/quick", "GET", "POST")
	quick.Timeout = &soon
	broken := open("/refused", "GET", "POST")
	broken.Service = &v2.Service{Name: refused}
	c.expose(rulesAt(host, "backends", quick, broken, open("/slow", "GET", "POST")).withTimeout(30))
	for _, path := range []string{"/quick", "/slow"} {
		c.get(host, path)
		c.get(host, path, behaviour+": delay=100ms")
		c.get(host, path, behaviour+": stream=10ms")
		c.get(host, path, behaviour+": abort")
		c.get(host, path, "Connection: Upgrade", "Upgrade: websocket", behaviour+": upgrade=10ms")
		c.get(host, path, "Connection: Upgrade", "Upgrade: other", behaviour+": upgrade=10ms")
	}
	c.get(host, "/quick", behaviour+": delay=10s")
	c.send("POST", host, "/quick", "hello", behaviour+": delay=10s")
	c.get(host, "/quick", behaviour+": stream=700ms")
	c.get(host, "/quick", "Connection: Upgrade", "Upgrade: websocket", behaviour+": upgrade=1500ms")
	c.get(host, "/refused")
	c.send("POST", host, "/refused", "hello")
	c.send("POST", host, "/slow", strings.Repeat("x", 300_000))
}

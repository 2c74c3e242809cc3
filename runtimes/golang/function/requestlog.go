package function

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// logRequest writes a line of Apache's combined format.
func logRequest(r *http.Request, status int, size int64) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s - - [%s] %s %d %d %s %s\n", host, time.Now().Format("02/Jan/2006:15:04:05 -0700"),
		strconv.QuoteToASCII(r.Method+" "+r.RequestURI+" "+r.Proto), status, size, quoted(r.Referer()), quoted(r.UserAgent()))
}

func quoted(text string) string {
	if text == "" {
		return `"-"`
	}
	return strconv.QuoteToASCII(text)
}

package dev

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/internal/apirule"
)

// localHost returns the name below localhost by which a host is reached without a line in /etc/hosts: a host of another domain has its
// whole name below it. Wildcards have none.
func localHost(host string) string {
	if host == domain || strings.HasSuffix(host, "."+domain) || strings.Contains(host, "*") {
		return host
	}
	return host + "." + domain
}

// localHosts returns the hosts of other domains by their names below localhost. A name that is a host itself leads to that.
func localHosts(exposures []apirule.Exposure) map[string]string {
	hosts, taken := map[string]string{}, map[string]bool{}
	for i := range exposures {
		taken[exposures[i].Host] = true
	}
	for host := range taken {
		if name := localHost(host); host != "" && !taken[name] {
			hosts[name] = host
		}
	}
	return hosts
}

// localURL returns the URL at which this machine reaches a host.
func localURL(host string, port int) string {
	return "http://" + net.JoinHostPort(localHost(host), strconv.Itoa(port))
}

// withLocalHosts serves requests to names below localhost as those to their hosts.
func (a *APIRules) withLocalHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, port, err := net.SplitHostPort(r.Host)
		if err != nil {
			name, port = r.Host, ""
		}
		if host, is := a.now().localHosts[strings.ToLower(name)]; is {
			if r.Host = host; port != "" {
				r.Host = net.JoinHostPort(host, port)
			}
		}
		next.ServeHTTP(w, r)
	})
}

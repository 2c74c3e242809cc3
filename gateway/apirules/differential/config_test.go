package differential

import (
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/apirules"
)

// Envoy's configuration is written as JSON: its types in Go are many megabytes.
type (
	object map[string]any
	list   []any
)

const typePrefix = "type.googleapis.com/envoy."

// typed is an object of a type of Envoy's.
func typed(name string, of object) object {
	of["@type"] = typePrefix + name
	return of
}

// mesh is what Istio knows.
type mesh struct {
	apiRules    []apiRule
	services    map[types.NamespacedName]int32 // ports on this machine
	jwks        map[string]string              // keys by their URI
	authorizers []apirules.Authorizer
}

// configOf has the listener of the ingress gateway at a port, and those of Services' proxies as sockets in a folder.
func configOf(m mesh, port int, folder string) object {
	listeners, clusters := list{listener("gateway", tcp(port), gatewayManager(m))}, list{}
	for service, at := range m.services {
		socket := object{"pipe": object{"path": filepath.Join(folder, service.Name)}}
		clusters = append(clusters, cluster(outbound(service), socket), cluster(inbound(service), tcp(int(at))))
		listeners = append(listeners, listener(service.Name, socket, sidecarManager(m, service)))
	}
	for i := range m.authorizers {
		clusters = append(clusters, cluster(m.authorizers[i].Name, tcp(int(m.authorizers[i].Port))))
	}
	return object{
		"node":             object{"id": "differential", "cluster": "differential"},
		"static_resources": object{"listeners": listeners, "clusters": clusters},
	}
}

func tcp(port int) object {
	return object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
}

func outbound(service types.NamespacedName) string { return "outbound|" + service.String() }
func inbound(service types.NamespacedName) string  { return "inbound|" + service.String() }

func cluster(name string, address object) object {
	return object{
		"name": name, "type": "STATIC", "connect_timeout": "5s",
		"load_assignment": object{"cluster_name": name, "endpoints": list{object{
			"lb_endpoints": list{object{"endpoint": object{"address": address}}},
		}}},
	}
}

func listener(name string, address, manager object) object {
	return object{
		"name": name, "address": address, "enable_reuse_port": false,
		"filter_chains": list{object{"filters": list{
			object{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
		}}},
	}
}

// connectionManager has what is common to gateways and sidecars. Istio normalises paths in both, without slashes.
func connectionManager(name string, virtualHosts, filters list) object {
	router := filter("router", typed("extensions.filters.http.router.v3.Router", object{}))
	return typed("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", object{
		"stat_prefix": name, "codec_type": "AUTO", "normalize_path": true, "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
		"upgrade_configs": list{object{"upgrade_type": "websocket"}},
		"route_config":    object{"name": name, "virtual_hosts": virtualHosts, "validate_clusters": true},
		"http_filters":    append(filters, router),
	})
}

func filter(name string, config object) object {
	return object{"name": "envoy.filters.http." + name, "typed_config": config}
}

func exact(text string) object { return object{"exact": text} }
func regex(text string) object { return object{"safe_regex": object{"regex": text}} }

func seconds(number int64) string { return strconv.FormatInt(number, 10) + "s" }

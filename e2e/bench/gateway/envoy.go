package gateway

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	issuerName = "https://issuer.example"
	keyBits    = 2048
	// numTokens is more than the gateway remembers, and than Envoy does: in turns, each is one that was never seen.
	numTokens = 12_000
	tokenLife = 24 * time.Hour
)

// issuer has signed tokens.
type issuer struct {
	keys   string // as JSON
	tokens string // the file with them
}

func newIssuer(folder string) (*issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	text, err := json.Marshal(object{"keys": []object{{
		"kty": "RSA", "kid": benchName, "alg": "RS256", "use": "sig",
		"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
	}}})
	if err != nil {
		return nil, fmt.Errorf("write the keys: %w", err)
	}
	header := encode(fmt.Appendf(nil, `{"alg":"RS256","kid":%q,"typ":"JWT"}`, benchName))
	tokens := make([]string, numTokens)
	expires := time.Now().Add(tokenLife).Unix()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range tokens {
		group.Go(func() error {
			claims := fmt.Appendf(nil, `{"iss":%q,"sub":"client-%d","aud":["clients"],"exp":%d,"scope":"read write"}`, issuerName, i, expires)
			signed := header + "." + encode(claims)
			digest := sha256.Sum256([]byte(signed))
			signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
			tokens[i] = signed + "." + encode(signature)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	path := filepath.Join(folder, "tokens")
	return &issuer{string(text), path}, os.WriteFile(path, []byte(strings.Join(tokens, "\n")), 0o600)
}

func encode(part []byte) string { return base64.RawURLEncoding.EncodeToString(part) }

// object is JSON: Envoy's types in Go are many megabytes.
type object map[string]any

const typePrefix = "type.googleapis.com/envoy."

// startEnvoy returns when Envoy listens. It has as many threads as processors, which is its own default.
func startEnvoy(ctx context.Context, r *rig.Rig, to string, tokens *issuer, caches bool) (address string, _ *rig.Process, _ error) {
	binary, err := exec.LookPath(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "envoy"))
	if err != nil {
		return "", nil, fmt.Errorf("find Envoy in KUBEBUILDER_ASSETS, which \"make bench-gateway\" sets: %w", err)
	}
	if address, err = freeAddress(ctx); err != nil {
		return "", nil, err
	}
	config, err := envoyConfig(address, to, tokens.keys, caches)
	if err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return "", nil, fmt.Errorf("write Envoy's configuration: %w", err)
	}
	name := "envoy-" + strconv.FormatBool(caches)
	path := filepath.Join(r.Dir(), name+".json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", nil, fmt.Errorf("write Envoy's configuration: %w", err)
	}
	process, err := r.Run(name, nil, binary, "--config-path", path, "--disable-hot-restart", "--log-level", "error")
	if err != nil {
		return "", nil, err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address); err == nil {
			return address, process, conn.Close()
		}
		select {
		case <-process.Done():
			output, _ := os.ReadFile(r.Log(name))
			return "", nil, fmt.Errorf("start Envoy: %s", output)
		default:
		}
	}
	return "", nil, errors.New("start Envoy: it does not listen after a minute")
}

// envoyConfig has the routes of exposed in one proxy, without the second one before each pod that Istio has.
func envoyConfig(address, to, keys string, caches bool) (object, error) {
	at, err := socket(address)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("read the address of the Function: %w", err)
	}
	backend, err := socket(target.Host)
	if err != nil {
		return nil, err
	}
	provider := object{"issuer": issuerName, "forward": true, "local_jwks": object{"inline_string": keys}}
	if caches {
		provider["jwt_cache_config"] = object{"jwt_cache_size": connections}
	}
	var routes, guarded []object
	for path, method := range map[string]string{get: "GET", post: "POST", known: "GET", fresh: "GET"} {
		routes = append(routes, object{
			"match": object{
				"path": path, "headers": []object{named(":method", object{"string_match": object{"exact": method}})},
			},
			"route": object{"cluster": "function", "timeout": strconv.Itoa(int(v2.DefaultTimeout)) + "s"},
		})
		if path == known || path == fresh {
			guarded = append(guarded, object{"match": object{"path": path}, "requires": object{"provider_name": "issuer"}})
		}
	}
	filter := func(name, kind string, config object) object {
		config["@type"] = typePrefix + "extensions.filters.http." + name + ".v3." + kind
		return named("envoy.filters.http."+name, object{"typed_config": config})
	}
	manager := object{
		"@type":       typePrefix + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": benchName, "codec_type": "AUTO", "normalize_path": true, "use_remote_address": true,
		"path_with_escaped_slashes_action": "KEEP_UNCHANGED", "upgrade_configs": []object{{"upgrade_type": "websocket"}},
		"route_config": object{"virtual_hosts": []object{named(benchName, object{"domains": []string{host, host + ":*"}, "routes": routes})}},
		"http_filters": []object{
			filter("cors", "Cors", object{}),
			filter("jwt_authn", "JwtAuthentication", object{"providers": object{"issuer": provider}, "rules": guarded}),
			filter("router", "Router", object{}),
		},
	}
	return object{"static_resources": object{
		"listeners": []object{named(benchName, object{"address": at, "filter_chains": []object{{"filters": []object{
			named("envoy.filters.network.http_connection_manager", object{"typed_config": manager}),
		}}}})},
		"clusters": []object{named("function", object{"type": "STATIC", "load_assignment": object{
			"cluster_name": "function", "endpoints": []object{{"lb_endpoints": []object{{"endpoint": object{"address": backend}}}}},
		}})},
	}}, nil
}

func named(name string, of object) object {
	of["name"] = name
	return of
}

func socket(address string) (object, error) {
	at, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read an address: %w", err)
	}
	port, err := strconv.Atoi(text)
	return object{"socket_address": object{"address": at, "port_value": port}}, err
}

package function

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPort    = "8080"
	defaultTimeout = 180 * time.Second
	// A body may have defaultLimit bytes, or what memoryShare makes of the container's memory, if that is less; but leastLimit.
	defaultLimit = 100 * mebibyte
	leastLimit   = mebibyte
	memoryShare  = 16
	mebibyte     = 1 << 20
)

// cgroupRoot is where a container sees the limits of its own.
const cgroupRoot = "/sys/fs/cgroup"

// config is read once from the environment that the controller gives a Function's container.
type config struct {
	name, namespace, runtime string

	timeout   time.Duration
	bodyLimit int64

	publisher, tokenFile, collector string

	address    string
	ready      int // descriptor that the port is written to; -1: none
	requestLog bool
}

func fromEnvironment(get func(string) string) config {
	c := config{
		name: get("FUNC_NAME"), namespace: get("SERVICE_NAMESPACE"), runtime: get("FUNC_RUNTIME"),
		timeout:   time.Duration(positive(get("FUNC_TIMEOUT"), defaultTimeout.Seconds()) * float64(time.Second)),
		bodyLimit: int64(positive(get("FUNC_BODY_MB_LIMIT"), bodyLimit(get)/mebibyte) * mebibyte),
		publisher: get("PUBLISHER_PROXY_ADDRESS"), tokenFile: get("PUBLISHER_TOKEN_FILE"), collector: get("TRACE_COLLECTOR_ENDPOINT"),
		ready: -1, requestLog: isOn(get("SERVER_INTERNAL_LOGGER")),
	}
	// FUNC_PORT is a reserved name, so no Function can bring this about.
	if fd, err := strconv.Atoi(get("FUNC_READY_FD")); err == nil && fd >= 0 && get("FUNC_PORT") == "0" {
		c.ready, c.address = fd, "127.0.0.1:0"
		return c
	}
	host := get("SERVER_HOST")
	if host == "" {
		host = "0.0.0.0"
	}
	c.address = net.JoinHostPort(host, port(get("SERVER_PORT"), get("FUNC_PORT")))
	return c
}

// port is the first text that is one.
func port(texts ...string) string {
	for _, text := range texts {
		if number, err := strconv.ParseUint(text, 10, 16); err == nil {
			return strconv.FormatUint(number, 10)
		}
	}
	return defaultPort
}

func positive(text string, otherwise float64) float64 {
	if value, err := strconv.ParseFloat(text, 64); err == nil && value > 0 && value < 1e9 {
		return value
	}
	return otherwise
}

// bodyLimit is the limit of a container that names none.
func bodyLimit(get func(string) string) float64 {
	cgroup := cgroupRoot
	if folder := get("FUNC_CGROUP"); folder != "" && get("FUNC_PORT") == "0" {
		cgroup = folder
	}
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // version 2, version 1
		text, err := os.ReadFile(filepath.Join(cgroup, file)) //nolint:gosec // the kernel's
		if err != nil {
			continue
		}
		if memory, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return min(max(float64(memory)/memoryShare, leastLimit), defaultLimit)
		}
	}
	return defaultLimit
}

func isOn(text string) bool { return text != "" && text != "0" && !strings.EqualFold(text, "false") }

var settings = fromEnvironment(os.Getenv)

// Name is the Function's name.
func Name() string { return settings.name }

// Namespace is the Function's namespace.
func Namespace() string { return settings.namespace }

// Runtime is the runtime's name, such as go126.
func Runtime() string { return settings.runtime }

// Timeout is how long a call may take. The context of a call ends with it.
func Timeout() time.Duration { return settings.timeout }

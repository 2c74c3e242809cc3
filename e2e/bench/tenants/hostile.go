package tenants

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	neverStart   = 5
	slowGit      = 20
	costlyKeys   = 12
	slowRegistry = 10
	issuers      = 32
	// kdfRounds of bcrypt take 13 s of a processor.
	kdfRounds = 2000
	// limitMillis of a processor are what each pod of the hostile tenant may use.
	limitMillis = 300
	loopType    = "hostile.loop.v1"
	// annotateEvery is how soon the next Function of the hostile tenant is to be checked at once.
	annotateEvery = 100 * time.Millisecond
)

var (
	//go:embed storm.js
	stormSource string
	//go:embed slow.js
	slowSource string
)

// parts are what a hostile tenant attacks, in the order of docs/performance.md.
var parts = []string{"controller", "gateways", "events", "registry", "admin"}

// hostile is a tenant with all rights in one namespace, who uses them against what tenants share.
type hostile struct {
	cluster   *framework.Cluster
	parts     []string
	namespace string
	stop      context.CancelFunc
	stopped   chan struct{}
}

// begin attacks with all its parts and returns when they are under way.
func (h *hostile) begin(ctx context.Context) (err error) {
	if h.namespace, err = h.cluster.CreateNamespace(ctx, "hostile"); err != nil {
		return err
	}
	account, err := h.account(ctx)
	if err != nil {
		return err
	}
	manifest, err := h.manifest()
	if err != nil {
		return err
	}
	if err := h.cluster.ApplyYAML(ctx, h.namespace, manifest); err != nil {
		return err
	}
	if err := h.cluster.AwaitCondition(ctx, h.namespace, framework.FunctionGVK, "storm", "Running", "True", ended); err != nil {
		return err
	}
	return h.storm(ctx, account)
}

func (h *hostile) has(part string) bool { return slices.Contains(h.parts, part) }

// storm returns when each kind of attack has begun.
func (h *hostile) storm(ctx context.Context, account login) error {
	token, err := h.cluster.Tenant(ctx, h.namespace, "admin")
	if err != nil {
		return err
	}
	if _, err := h.send(ctx, map[string]any{"start": h.targets(account, token)}); err != nil {
		return err
	}
	if h.has("controller") {
		annotating, cancel := context.WithCancel(ctx)
		h.stop, h.stopped = cancel, make(chan struct{})
		go h.annotate(annotating)
	}
	return framework.Await(ctx, ended, "the hostile tenant to be at everything", func(ctx context.Context) (bool, error) {
		report, err := h.send(ctx, map[string]any{})
		if err != nil {
			return false, err
		}
		for what, count := range report {
			if count == 0 {
				return false, fmt.Errorf("nothing yet of %s", what)
			}
		}
		return true, nil
	})
}

// targets is what the storm aims at.
func (h *hostile) targets(account login, token string) map[string]any {
	var waiting []string
	for i := range neverStart {
		waiting = append(waiting, fmt.Sprintf("http://never-%d.%s.svc.cluster.local", i, h.namespace))
	}
	return map[string]any{
		"parts": h.parts, "waiting": waiting, "entrance": framework.Entrance, "tokens": "tokens." + framework.OwnDomain, "host": "hostile." + framework.OwnDomain,
		"publish": "http://rouse-eventbridge." + framework.System + ".svc.cluster.local/publish", "type": loopType, "source": framework.Source,
		"registry": "http://rouse-registry." + framework.System + ".svc.cluster.local:5000", "user": account.Username, "password": account.Password,
		"repository": account.repository, "issuer": h.issuer(0), "token": token,
		"admin": fmt.Sprintf("http://rouse-eventbridge-admin.%s.svc.cluster.local:9091/v1/deadletters?namespace=%s", framework.System, h.namespace),
	}
}

func (h *hostile) manifest() (string, error) {
	documents := []string{limited("slow", slowSource).YAML(), h.slowService(), limited("storm", stormSource).YAML()}
	if h.has("controller") {
		against, err := h.againstController()
		if err != nil {
			return "", err
		}
		documents = append(documents, against...)
	}
	if h.has("gateways") || h.has("events") {
		documents = append(documents, limited("echo", echoSource).YAML())
	}
	if h.has("gateways") {
		documents = append(documents,
			framework.APIRule{Name: "hostile", Host: "hostile", Service: "echo", Gateway: framework.OwnGateway}.YAML(),
			framework.APIRule{Name: "tokens", Host: "tokens", Service: "echo", Gateway: framework.OwnGateway, JWT: h.jwt()}.YAML())
		for i := range neverStart {
			never := limited(fmt.Sprintf("never-%d", i), "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)")
			never.Asleep = true
			documents = append(documents, never.YAML())
		}
	}
	if h.has("events") {
		documents = append(documents, h.subscription("echo-1"), h.subscription("echo-2"))
	}
	return strings.Join(documents, "---\n"), nil
}

func (h *hostile) againstController() ([]string, error) {
	key, err := costlyKey()
	if err != nil {
		return nil, err
	}
	documents := []string{
		framework.Secret("costly-key", nil, map[string]string{"key": key, "password": "wrong"}),
		framework.Secret("serverless-registry-config", map[string]string{"serverless.kyma-project.io/remote-registry": "config"},
			map[string]string{"registryAddress": h.slowHost(), "insecure": "true", "username": "me", "password": "mine"}),
	}
	for i := range slowGit {
		function := limited(fmt.Sprintf("git-%d", i), "")
		function.Git = &framework.Git{URL: "http://" + h.slowHost() + "/" + function.Name + ".git", Reference: "main", BaseDir: "/"}
		documents = append(documents, function.YAML())
	}
	for i := range costlyKeys {
		function := limited(fmt.Sprintf("key-%d", i), "")
		function.Git = &framework.Git{
			URL: fmt.Sprintf("ssh://git@%s:22/%d.git", h.slowHost(), i), Reference: "main", BaseDir: "/", AuthType: "key", Secret: "costly-key",
		}
		documents = append(documents, function.YAML())
	}
	for i := range slowRegistry {
		function := limited(fmt.Sprintf("registry-%d", i), answer("never"))
		function.Dependencies = fmt.Sprintf(`{"name":"hostile-%d","dependencies":{"is-number":"7.0.0"}}`, i)
		documents = append(documents, function.YAML())
	}
	return documents, nil
}

// limited is a Function with a limit on its CPU, as an operator's quota would have: what is measured is Rouse, and not a node without processors.
func limited(name, source string) framework.Function {
	return framework.Function{Name: name, Runtime: nodeJS, Source: source, Spec: map[string]any{"resourceConfiguration": map[string]any{
		"function": map[string]any{"resources": map[string]any{
			"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}, "limits": map[string]any{"cpu": fmt.Sprintf("%dm", limitMillis), "memory": "512Mi"},
		}},
	}}}
}

// echoSource answers each event by one of its own type.
const echoSource = `
module.exports.main = event => {
  if (!event['ce-type']) return 'echo'
  event.setResponseHeader('content-type', 'application/cloudevents+json')
  return JSON.stringify({ specversion: '1.0', id: require('crypto').randomUUID(), source: event['ce-source'], type: event['ce-type'], data: {} })
}
`

func (h *hostile) subscription(name string) string {
	return framework.Subscription{Name: name, Namespace: h.namespace, Type: loopType, Sink: "echo", InFlight: 100}.YAML()
}

func (h *hostile) slowHost() string { return "slow-server." + h.namespace + ".svc.cluster.local" }

// slowService is that of the port which the slow Function opens beside its own.
func (h *hostile) slowService() string {
	return `apiVersion: v1
kind: Service
metadata: {name: slow-server}
spec:
  selector: {` + framework.FunctionLabel + `: slow}
  ports: [{name: http, port: 80, targetPort: 8090}, {name: ssh, port: 22, targetPort: 8090}]
`
}

func (h *hostile) issuer(i int) string { return fmt.Sprintf("http://%s/issuers/%d", h.slowHost(), i) }

// jwt is a rule with many issuers, each with many costly keys.
func (h *hostile) jwt() map[string]any {
	var authentications []any
	for i := range issuers {
		authentications = append(authentications, map[string]any{"issuer": h.issuer(0), "jwksUri": h.issuer(i)})
	}
	return map[string]any{"authentications": authentications}
}

// costlyKey is an SSH key that takes seconds to decrypt, whatever the password.
func costlyKey() (string, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("right"))
	if err != nil {
		return "", fmt.Errorf("encrypt a key: %w", err)
	}
	// "openssh-key-v1\0", cipher and KDF by name, the length of the KDF's options, its salt, and then the rounds.
	at := strings.Index(string(block.Bytes), "bcrypt") + len("bcrypt") + 4
	at += 4 + int(binary.BigEndian.Uint32(block.Bytes[at:]))
	binary.BigEndian.PutUint32(block.Bytes[at:], kdfRounds)
	return string(pem.EncodeToMemory(block)), nil
}

// login is the account by which the images of a Function are pushed and pulled.
type login struct{ Username, Password, repository string }

// account is that of the hostile tenant's one build, before its registry is a slow one; empty when the registry is not attacked.
func (h *hostile) account(ctx context.Context) (login, error) {
	if !h.has("registry") {
		return login{}, nil
	}
	const function = "own"
	own := limited(function, answer("mine"))
	own.Dependencies = `{"dependencies":{"is-number":"7.0.0"}}`
	if err := h.cluster.ApplyYAML(ctx, h.namespace, own.YAML()); err != nil {
		return login{}, err
	}
	if err := h.cluster.AwaitAnswer(ctx, h.namespace, function, "mine", ended); err != nil {
		return login{}, err
	}
	secret := &corev1.Secret{}
	if err := h.cluster.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: "rouse-registry-" + function}, secret); err != nil {
		return login{}, fmt.Errorf("read an account of the registry: %w", err)
	}
	var config struct{ Auths map[string]login }
	if err := json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config); err != nil {
		return login{}, fmt.Errorf("decode %s: %w", secret.Name, err)
	}
	object, err := h.cluster.Function(ctx, h.namespace, function)
	if err != nil {
		return login{}, err
	}
	image, _, _ := unstructured.NestedString(object.Object, "status", "build", "image")
	_, path, _ := strings.Cut(image, "/")
	repository, _, _ := strings.Cut(path, "@")
	for _, account := range config.Auths {
		account.repository = repository
		return account, nil
	}
	return login{}, errors.New("the hostile tenant has no account of the registry")
}

// annotate has the tenant's repositories checked at once, again and again, until ctx ends.
func (h *hostile) annotate(ctx context.Context) {
	defer close(h.stopped)
	ticker := time.NewTicker(annotateEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			name := fmt.Sprintf("git-%d", i%slowGit)
			_ = h.cluster.Annotate(ctx, h.namespace, name, map[string]string{"rouse.run/check-git": strconv.Itoa(i)}) // the next one comes soon
		}
	}
}

// report is how often the storm did what.
func (h *hostile) report(ctx context.Context) (map[string]int, error) {
	return h.send(ctx, map[string]any{})
}

func (h *hostile) send(ctx context.Context, command map[string]any) (report map[string]int, err error) {
	body, err := json.Marshal(command)
	if err != nil {
		return nil, fmt.Errorf("encode a command: %w", err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	status, answer, err := h.cluster.Request(ctx, http.MethodPost, h.namespace, "storm", "", header, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the storm answers %d: %s", status, answer)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(answer), &report); err != nil {
		return nil, fmt.Errorf("decode %q: %w", answer, err)
	}
	return report, nil
}

func (h *hostile) end(ctx context.Context) error {
	if h.stop != nil {
		h.stop()
		<-h.stopped
	}
	if h.namespace == "" {
		return nil
	}
	return h.cluster.DeleteNamespace(ctx, h.namespace)
}

// spinSource uses as many processors as its limit allows, and nothing of Rouse's.
const spinSource = `
new (require('worker_threads').Worker)('for (;;) {}', { eval: true })
module.exports.main = () => 'busy'
`

// busy is a tenant that only computes, and so the control of a hostile one: what is slow beside it waits for a processor, and not in a queue of Rouse's.
type busy struct {
	cluster   *framework.Cluster
	cores     float64 // of all its pods, whose limits are those of the hostile one's
	namespace string
}

// begin returns when all pods compute.
func (b *busy) begin(ctx context.Context) (err error) {
	if b.namespace, err = b.cluster.CreateNamespace(ctx, "busy"); err != nil {
		return err
	}
	var names, documents []string
	for i := range max(1, int(math.Round(b.cores*1000/limitMillis))) {
		name := fmt.Sprintf("busy-%d", i)
		names, documents = append(names, name), append(documents, limited(name, spinSource).YAML())
	}
	if err := b.cluster.ApplyYAML(ctx, b.namespace, strings.Join(documents, "---\n")); err != nil {
		return err
	}
	for _, name := range names {
		if err := b.cluster.AwaitAnswer(ctx, b.namespace, name, "busy", ended); err != nil {
			return err
		}
	}
	return nil
}

func (b *busy) end(ctx context.Context) error {
	if b.namespace == "" {
		return nil
	}
	return b.cluster.DeleteNamespace(ctx, b.namespace)
}

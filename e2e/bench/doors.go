package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const (
	doorHeader      = "X-Signature"
	doorKey         = "bench-secret"
	doorHost        = "hooks.bench.test"
	trustedHost     = "trusted.bench.test" // of the Door with certificates
	doorConnections = 32
	doorRate        = 10_000 // requests a second that the Doors read, so that no limit is measured
	doorLatencyRate = 200    // at which the time to an answer is measured
)

// doorCertificates are those of the clients' authority, which is a client too, and of the gateway.
type doorCertificates struct{ Client, Server loopback.Pair }

// benchDoors measures how fast events are published through a Door, beside the ingress of the same bridge without one: a gateway, the
// sender's proof, the mapping and the ledger come in addition. The load is the same, in a process of its own.
func benchDoors(ctx context.Context, args []string) error {
	return rig.Run(ctx, "doors", args, measureDoors, map[string]rig.Role{"load": loadRole, "doorgateway": doorGateway})
}

func measureDoors(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 3), rig.Setting("ROUND_SECONDS", 8)
	certificates, err := makeDoorCertificates()
	if err != nil {
		return err
	}
	server, err := r.StartNATS(rig.NATS{Name: natsName})
	if err != nil {
		return err
	}
	fixture := rig.Fixture{NATS: server.Where, Doors: measuredDoors(certificates)}
	fixture.Routes = append(fixture.Routes, rig.Route(benchName, "asleep", benchName, ingressType, 10))
	if err := fixture.PrepareAlone(ctx, broker.DefaultStreamOptions(), 30*time.Second); err != nil {
		return err
	}
	bridge, err := r.StartBridge(fixture, 0)
	if err != nil {
		return err
	}
	file := filepath.Join(r.Dir(), "certificates.json")
	text, err := json.Marshal(certificates)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the certificates: %w", err)
	}
	front, err := r.Start("doorgateway", bridge.Address(bridgeDoors), file)
	if err != nil {
		return err
	}
	load, err := r.Start("load")
	if err != nil {
		return err
	}
	b := &doorBench{load: load.Where, duration: time.Duration(seconds) * time.Second, figures: map[string]*ingressFigures{}, targets: []doorTarget{
		{"ingress", strings.TrimPrefix(bridge.Address(rig.Public), "http://"), ""},
		{"door by HMAC", front.Address(0), proofHMAC},
		{"door by certificate", front.Address(1), proofCertificate + " " + file},
	}}
	return b.measure(ctx, rounds, seconds)
}

// bridgeDoors is the address among those of a bridge.
const bridgeDoors = 3

type doorTarget struct{ who, address, proof string }

type doorBench struct {
	load     string
	duration time.Duration
	targets  []doorTarget
	figures  map[string]*ingressFigures
	slow     []float64 // p99 at a low rate, of the Door by HMAC
}

func (b *doorBench) measure(ctx context.Context, rounds, seconds int) error {
	fmt.Printf("events of 1 KiB, %d connections, %d s each, %d rounds, one NATS server that syncs as the chart's does\n", doorConnections, seconds, rounds)
	fmt.Printf("%-6s %-20s %11s %9s %9s\n", "round", "who", "requests/s", "p50 ms", "p99 ms")
	for round := range rounds {
		for i := range b.targets {
			target := b.targets[(i+round)%len(b.targets)] // who comes later finds a warmer machine
			result, err := b.run(ctx, round, target, doorConnections, 0)
			if err != nil {
				return err
			}
			if b.figures[target.who] == nil {
				b.figures[target.who] = &ingressFigures{}
			}
			b.figures[target.who].add(result)
			fmt.Printf("%-6d %-20s %11.0f %9.2f %9.2f\n", round+1, target.who, result.PerSecond, result.P50, result.P99)
		}
		result, err := b.run(ctx, round, b.targets[1], doorConnections, doorLatencyRate)
		if err != nil {
			return err
		}
		b.slow = append(b.slow, result.P99)
		fmt.Printf("%-6d %-20s %11.0f %9.2f %9.2f\n", round+1, "door by HMAC, paced", result.PerSecond, result.P50, result.P99)
	}
	bare := rig.Median(b.figures["ingress"].perSecond)
	fmt.Printf("doors ratio_hmac=%.2f ratio_mtls=%.2f p99_ms=%.1f ingress_per_s=%.0f hmac_per_s=%.0f mtls_per_s=%.0f\n",
		rig.Median(b.figures["door by HMAC"].perSecond)/bare, rig.Median(b.figures["door by certificate"].perSecond)/bare, rig.Median(b.slow),
		bare, rig.Median(b.figures["door by HMAC"].perSecond), rig.Median(b.figures["door by certificate"].perSecond))
	return nil
}

func (b *doorBench) run(ctx context.Context, round int, target doorTarget, connections, rate int) (loadResult, error) {
	result, err := order{
		Target: target.address, Prefix: fmt.Sprintf("%s-%d-%d-%d", strings.ReplaceAll(target.who, " ", "-"), round, rate, time.Now().UnixNano()),
		Type: ingressType, Connections: connections, WarmUp: ingressWarmUp, Duration: b.duration, PerSecond: rate, Proof: target.proof,
	}.Run(ctx, b.load)
	if err != nil {
		return result, fmt.Errorf("publish to the %s: %w", target.who, err)
	}
	return result, nil
}

func makeDoorCertificates() (c doorCertificates, err error) {
	if c.Client, err = loopback.MakeClient(benchName, nil); err == nil {
		c.Server, err = loopback.MakeClient("gateway", nil)
	}
	if err != nil {
		return c, fmt.Errorf("make certificates: %w", err)
	}
	return c, nil
}

func measuredDoors(certificates doorCertificates) []door.Known {
	named := func(name, host string) *v1alpha1.Door {
		return &v1alpha1.Door{
			ObjectMeta: metav1.ObjectMeta{Namespace: benchName, Name: name, UID: types.UID(name), Generation: 1},
			Spec:       v1alpha1.DoorSpec{Gateway: "bench/gateway", Host: host, Source: benchName, RequestsPerSecond: doorRate},
		}
	}
	signed, trusted := named("signed", doorHost), named("trusted", trustedHost)
	signed.Spec.Webhook = &v1alpha1.DoorWebhook{
		Scheme: v1alpha1.SchemeHMAC, SecretName: "keys", HMAC: &v1alpha1.DoorHMAC{Header: doorHeader, IDHeader: "X-Id"},
	}
	trusted.Spec.CloudEvents = &v1alpha1.DoorCloudEvents{}
	trusted.Spec.ClientCertificates = &v1alpha1.DoorClientCertificates{CA: string(certificates.Client.Certificate), Subjects: []string{benchName}}
	return []door.Known{{Door: signed, Keys: &door.Keys{Current: []byte(doorKey)}}, {Door: trusted}}
}

// doorGateway is cmd/gateway with the flags' defaults, with the Doors.
func doorGateway(ctx context.Context, ready func(string), args []string) error {
	certificates, err := readDoorCertificates(args[1])
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(filepath.Dir(args[1]), "tls-*")
	if err != nil {
		return fmt.Errorf("write the certificate: %w", err)
	}
	own := filepath.Join(folder, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		return fmt.Errorf("write the certificate: %w", err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificates.Server.Certificate, "tls.key": certificates.Server.Key} {
		if err := os.WriteFile(filepath.Join(own, name), content, 0o600); err != nil {
			return fmt.Errorf("write the certificate: %w", err)
		}
	}
	ports, err := rig.Ports(4)
	if err != nil {
		return err
	}
	at := func(i int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])) }
	options := gateway.DefaultOptions()
	options.Host, options.DrainDelay, options.Activator.AllowLoopback = "127.0.0.1", 0, true
	options.LoadAddress, options.MetricsAddress, options.Entrance.HTTPAddress, options.Entrance.TLSAddress = at(0), at(1), at(2), at(3)
	options.Entrance.TLSDir = folder
	g := gateway.New(gateway.Deps{
		Listings: rig.NoListings{}, Endpoints: rig.FixedEndpoints{doorService.Service.String(): {strings.TrimPrefix(args[0], "http://")}}, Functions: noFunctions{},
		Exposures: exposedDoors(measuredDoors(certificates)), DoorToken: func() (string, error) { return rig.Gateways.String(), nil },
		Registry: daemon.NewRegistry(), Log: logr.Discard(),
	}, options)
	stopProfile, err := rig.Profile(ctx)
	if err != nil {
		return err
	}
	defer stopProfile()
	go func() {
		for ctx.Err() == nil && rig.GetJSON(ctx, "http://"+options.MetricsAddress+"/readyz", nil) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		ready(options.Entrance.HTTPAddress + " " + options.Entrance.TLSAddress)
	}()
	rig.LimitMemory()
	return daemon.RunOn(ctx, g.Run, daemon.PaceCollector)
}

var doorService = apirule.Target{Service: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-doors"}, Port: door.ServicePort}

func exposedDoors(known []door.Known) gateway.WatchExposures {
	all := make([]*v1alpha1.Door, len(known))
	for i := range known {
		all[i] = known[i].Door
	}
	exposed := apirule.ExposeDoors(all, doorService)
	exposures := apirule.Decide(exposed.Rules, &apirule.Objects{
		Gateways: map[types.NamespacedName]apirule.Gateway{{Namespace: benchName, Name: "gateway"}: {Hosts: []string{"*.bench.test"}}},
		Doors:    exposed.Of, DoorService: doorService,
	})
	return func(ctx context.Context, apply func([]apirule.Exposure)) error {
		apply(exposures)
		<-ctx.Done()
		return nil
	}
}

type noFunctions struct{}

// Condition implements activator.Functions.
func (noFunctions) Condition(types.NamespacedName) activator.Condition { return activator.Condition{} }

func readDoorCertificates(file string) (c doorCertificates, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read the certificates: %w", err)
	}
	return c, nil
}

// dialDoor returns a connection whose requests prove who sends them.
func dialDoor(ctx context.Context, conn net.Conn, o order) (*connection, error) {
	proof, file, _ := strings.Cut(o.Proof, " ")
	c := &connection{kind: o.Type}
	head, id := "Host: "+doorHost, "X-Id: "
	if proof == proofHMAC {
		c.signs = hmac.New(sha256.New, []byte(doorKey))
	} else {
		certificates, err := readDoorCertificates(file)
		if err != nil {
			return nil, err
		}
		own, err := tls.X509KeyPair(certificates.Client.Certificate, certificates.Client.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate: %w", err)
		}
		secured := tls.Client(conn, &tls.Config{
			ServerName: trustedHost, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13,
			InsecureSkipVerify: true,
		})
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("connect to the Door: %w", err)
		}
		conn, head = secured, "Host: "+trustedHost+"\r\nCe-Specversion: 1.0\r\nCe-Source: bench\r\nCe-Type: "+o.Type
		id = "Ce-Id: "
	}
	c.conn, c.answers = conn, bufio.NewReader(conn)
	c.head = "POST / HTTP/1.1\r\n" + head + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(dataSize) + "\r\n" + id
	return c, nil
}

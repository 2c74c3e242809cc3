package scaling

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/scaler"
)

// arguments are the URL of NATS and the number of ScaledObjects.
func arguments(args []string) (url string, routes []routing.Route, err error) {
	if len(args) != 2 {
		return "", nil, fmt.Errorf("arguments are %q: a URL and a number", args)
	}
	count, err := strconv.Atoi(args[1])
	return args[0], routesOf(count), err
}

func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

// scalerRole runs cmd/scaler without Kubernetes, with its default options.
func scalerRole(ctx context.Context, ready func(string), args []string) error {
	url, routes, err := arguments(args)
	if err != nil {
		return err
	}
	conn, err := rig.Connect(ctx, url)
	if err != nil {
		return err
	}
	listener, err := listen(ctx)
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	options := scaler.DefaultOptions()
	options.DrainDelay = 0
	s := scaler.New(scaler.Deps{
		Routes: rig.FixedRoutes(routes), Endpoints: rig.FixedEndpoints{}, Backlogs: conn, Listener: conn, Connection: conn, Wants: conn,
		Registry: daemon.NewRegistry(), Log: logr.Discard(),
	}, options)
	stopProfile, err := rig.Profile(ctx)
	if err != nil {
		return err
	}
	defer stopProfile()
	ready(listener.Addr().String())
	return daemon.RunOn(ctx, func(ctx context.Context) error { return s.Serve(ctx, listener) }, conn.Hold)
}

// bareRole serves constants, and true at a message.
func bareRole(ctx context.Context, ready func(string), args []string) error {
	url, routes, err := arguments(args)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	listener, err := listen(ctx)
	if err != nil {
		return err
	}
	b := &bare{conn: conn, subjects: map[string]string{}, ending: ctx.Done()}
	for _, route := range routes {
		b.subjects[route.Service.Name] = route.Subjects[0]
	}
	server := grpc.NewServer()
	pb.RegisterExternalScalerServer(server, b)
	context.AfterFunc(ctx, server.Stop)
	ready(listener.Addr().String())
	return server.Serve(listener)
}

// bare is the least that answers KEDA.
type bare struct {
	pb.UnimplementedExternalScalerServer

	conn     *nats.Conn
	subjects map[string]string
	ending   <-chan struct{}
}

func (b *bare) IsActive(context.Context, *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	return &pb.IsActiveResponse{}, nil
}

func (b *bare) GetMetricSpec(context.Context, *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{{MetricName: scaler.MetricName, TargetSizeFloat: inFlight}}}, nil
}

func (b *bare) GetMetrics(context.Context, *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{MetricName: scaler.MetricName}}}, nil
}

func (b *bare) StreamIsActive(ref *pb.ScaledObjectRef, stream pb.ExternalScaler_StreamIsActiveServer) error {
	published := make(chan *nats.Msg, 1)
	subscription, err := b.conn.ChanSubscribe(b.subjects[ref.GetName()], published)
	if err != nil {
		return err
	}
	defer func() { _ = subscription.Unsubscribe() }()
	for {
		select {
		case <-published:
			if err := stream.Send(&pb.IsActiveResponse{Result: true}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		case <-b.ending:
			return nil
		}
	}
}

package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dashboard/clusterhome"
	"github.com/rouse-run/rouse/internal/daemon"
)

// pages are the flags of the command that serves the dashboard of a cluster.
type pages struct {
	*session

	port       int
	everywhere bool
	changes    bool
	open       bool
}

// newDashboard returns the command that serves the dashboard of a cluster on this machine.
func newDashboard(streams Streams) *cobra.Command {
	p := &pages{}
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show a cluster in the browser: Functions, events, dead letters, live",
		Long: `Serve the dashboard of a cluster on this machine, until Ctrl-C. It reads what the user of the kubeconfig may read, and by
default changes nothing. For a folder, rouse dev serves it.`,
		Example: `  rouse dashboard --context production --open
  rouse dashboard --context staging -n orders --allow-changes`,
		Args: cobra.NoArgs,
	}
	p.session = askCluster(streams, cmd)
	p.options.Note = func(string) {} // the pages say what is missing, for as long as it is
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&p.port, "port", 0, "port of this machine; any when 0")
	fs.BoolVarP(&p.everywhere, "all-namespaces", "A", false, "show all namespaces, which the user has to have the right to")
	fs.BoolVar(&p.changes, "allow-changes", false,
		"let the pages change what the user may: dead letters, versions, pauses, Functions and Subscriptions; and publish and call")
	fs.BoolVar(&p.open, "open", false, "open it in a browser")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.withObjects(func(conn *target.Connection, objects *target.Objects) error {
			return p.serve(cmd.Context(), conn, objects)
		})
	}
	return cmd
}

// serve serves the pages until ctx ends.
func (p *pages) serve(ctx context.Context, conn *target.Connection, objects *target.Objects) error {
	namespace := conn.Namespace
	if p.everywhere {
		namespace = ""
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
	if err != nil {
		return exit.Errorf(exit.Usage, "take port %d of this machine: %w; choose another with --port", p.port, err)
	}
	defer func() { _ = listener.Close() }() // its server has closed it
	token := rand.Text()
	home := clusterhome.New(conn, objects, namespace)
	deps := dashboard.Deps{
		About: dashboard.About{
			Home: "cluster", Name: conn.Name, Version: daemon.Version(),
			LogIn: "open the address that rouse dashboard has printed, which has its token",
		},
		Access: dashboard.Owner{Token: token, Changes: p.changes, Namespace: namespace}, Log: logr.Discard(),
	}
	home.Provide(&deps)
	handler, err := dashboard.New(deps)
	if err != nil {
		return err
	}
	if err := home.Check(ctx); err != nil { // before anything is printed
		return err
	}
	p.endProgress()
	address := "http://" + listener.Addr().String() + "/#" + token
	if _, err := fmt.Fprintln(p.Out, address); err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	if p.open {
		if err := p.openPage(ctx, address); err != nil {
			p.note("--open: %s", err)
		}
	}
	return daemon.Serve(ctx, daemon.Server{Name: "dashboard", Listener: listener, Handler: handler.OnThisMachine(ctx)}, logr.Discard())
}

// openPage opens a browser by a file in a folder of its own.
func (p *pages) openPage(ctx context.Context, address string) error {
	folder, err := os.MkdirTemp("", "rouse-dashboard-")
	if err != nil {
		return fmt.Errorf("make a folder for the browser's page: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = os.RemoveAll(folder) }) // a file without use remains at worst
	return dashboard.Open(ctx, "", folder, address)
}

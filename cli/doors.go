package cli

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/door"
)

func newDoors(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doors",
		Aliases: []string{"door"},
		GroupID: groupWork,
		Short:   "Try what becomes of a request to a Door",
		Long: `A Door turns requests from outside of the cluster into events. test shows which event a request becomes, or why none,
without a cluster. kubectl get doors shows those of a cluster.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newDoorTest(streams))
	return cmd
}

// doorTest is a request that is tried.
type doorTest struct {
	Streams

	name        string
	request     string
	certificate string
	at          string
	format      output.Choices
}

func newDoorTest(streams Streams) *cobra.Command {
	t := &doorTest{Streams: streams, format: output.Choices{Allowed: []output.Format{output.JSON}}}
	cmd := &cobra.Command{
		Use:   "test FILE --request REQUEST",
		Short: "Show which event a request to a Door becomes, or why none",
		Long: `Show which event a request becomes at the Door in a file, or why none. The request is a file with a method line, headers, an
empty line and the body, as "curl --trace-ascii" or a provider's page of deliveries shows it. Where the file with the Door has its
Secret too, the sender is verified, and otherwise only the mapping is tried.`,
		Example: `  rouse doors test github.yaml --request push.http
  rouse doors test github.yaml --request push.http --at 2026-01-01T00:00:00Z   # when its signature was made
  rouse doors test doors.yaml --name billing --request invoice.http`,
		Args: exactly(1, "a file with a Door, or - for the input,"),
	}
	fs := cmd.Flags()
	fs.StringVar(&t.name, "name", "", "name of the Door, where the file has several")
	fs.StringVarP(&t.request, "request", "r", "", "file with the request")
	fs.StringVar(&t.certificate, "certificate", "", "file with the client certificate and its chain in PEM")
	fs.StringVar(&t.at, "at", "", "when the request arrives, such as 2027-01-01T09:00:00Z (default: now)")
	fs.VarP(&t.format, "output", "o", "write for programs: "+t.format.Names())
	cmd.RunE = func(_ *cobra.Command, args []string) error { return t.run(args[0]) }
	return cmd
}

func (t *doorTest) run(file string) error {
	if t.request == "" {
		return exit.Errorf(exit.Usage, "--request: name a file with the request")
	}
	now := time.Now()
	if t.at != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, t.at); err != nil {
			return exit.Errorf(exit.Usage, "--at: must be a time such as 2027-01-01T09:00:00Z, is %.64q", t.at)
		}
	}
	content, err := t.content(file)
	if err != nil {
		return err
	}
	spec, keys, err := doorOf(content, file, t.name)
	if err != nil {
		return err
	}
	request, err := t.readRequest()
	if err != nil {
		return err
	}
	return t.try(spec, keys, request, now)
}

// content reads a file, or the input.
func (t *doorTest) content(file string) ([]byte, error) {
	in := t.In
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // the user names it
		if err != nil {
			return nil, exit.Errorf(exit.Usage, "read %s: %w", file, err)
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	content, err := io.ReadAll(io.LimitReader(in, maxContent))
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "read %s: %w", file, err)
	}
	return content, nil
}

// doorOf finds a Door and its Secret among YAML documents.
func doorOf(content []byte, file, name string) (*rousev1alpha1.Door, *door.Keys, error) {
	doors, secrets, err := readDoors(content)
	if err != nil {
		return nil, nil, exit.Errorf(exit.Refused, "%s: %w", file, err)
	}
	doors = slices.DeleteFunc(doors, func(d *rousev1alpha1.Door) bool { return name != "" && d.Name != name })
	switch len(doors) {
	case 0:
		return nil, nil, exit.Errorf(exit.Refused, "%s has no such Door: its apiVersion is %s", file, rousev1alpha1.GroupVersion)
	case 1:
		return doors[0], keysOf(secrets[door.SecretName(doors[0])]), nil
	default:
		return nil, nil, exit.Errorf(exit.Usage, "%s has %d Doors: choose one with --name", file, len(doors))
	}
}

// readDoors reads the Doors and the Secrets, by their names, of YAML documents.
func readDoors(content []byte) (doors []*rousev1alpha1.Door, secrets map[string]*corev1.Secret, err error) {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 1<<10)
	secrets = map[string]*corev1.Secret{}
	for {
		var document map[string]any
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return doors, secrets, nil
		} else if err != nil {
			return nil, nil, err
		}
		opened, secret := &rousev1alpha1.Door{}, &corev1.Secret{}
		switch document["kind"] {
		case "Door":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(document, opened)
			doors = append(doors, opened)
		case "Secret":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(document, secret)
			secrets[secret.Name] = secret
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

func keysOf(secret *corev1.Secret) *door.Keys {
	if secret == nil {
		return nil
	}
	key := func(name string) []byte {
		if text, ok := secret.StringData[name]; ok {
			return []byte(text)
		}
		return secret.Data[name]
	}
	return &door.Keys{Current: key(door.KeyCurrent), Previous: key(door.KeyPrevious)}
}

// readRequest reads the file of the request. Its body is what follows the empty line, whatever length a header says.
func (t *doorTest) readRequest() (*door.Request, error) {
	content, err := t.content(t.request)
	if err != nil {
		return nil, err
	}
	head, body, found := bytes.Cut(content, []byte("\r\n\r\n"))
	if plain, rest, ok := bytes.Cut(content, []byte("\n\n")); ok && (!found || len(plain) < len(head)) {
		head, body = bytes.ReplaceAll(plain, []byte("\n"), []byte("\r\n")), rest
	}
	parsed, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(withVersion(head)), strings.NewReader("\r\n\r\n"))))
	if err != nil {
		return nil, exit.Errorf(exit.Refused, "%s is no request: it must begin with a line such as POST / HTTP/1.1, and have its headers before an empty line: %w", t.request, err)
	}
	request := &door.Request{Header: parsed.Header, Query: parsed.URL.RawQuery, Body: body}
	if t.certificate != "" {
		if request.Certificates, err = t.readCertificates(); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// withVersion lets the first line have no version, and none of the lengths count.
func withVersion(head []byte) []byte {
	lines := strings.Split(string(head), "\r\n")
	if len(strings.Fields(lines[0])) == 2 {
		lines[0] += " HTTP/1.1"
	}
	kept := lines[:0]
	for _, line := range lines {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name != "content-length" && name != "transfer-encoding" {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, "\r\n"))
}

func (t *doorTest) readCertificates() ([]*x509.Certificate, error) {
	content, err := t.content(t.certificate)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, exit.Errorf(exit.Refused, "%s: %w", t.certificate, err)
		}
		chain = append(chain, certificate)
	}
	return chain, nil
}

// try shows what becomes of a request.
func (t *doorTest) try(spec *rousev1alpha1.Door, keys *door.Keys, request *door.Request, now time.Time) error {
	verifies := keys != nil || door.SecretName(spec) == ""
	if !verifies {
		keys = &door.Keys{Current: []byte(placeholder(spec))}
	}
	opened, err := door.New(spec, keys)
	if err != nil {
		return exit.Errorf(exit.Refused, "Door %s: %w", spec.Name, err)
	}
	var verified door.Verified
	if verifies {
		if verified, err = opened.Verify(request, now); err != nil {
			return exit.Errorf(exit.Refused, "the sender may not send: %w", err)
		}
	} else if _, err := fmt.Fprintf(t.Err, "the file has no Secret %s: the sender is not verified\n", door.SecretName(spec)); err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	if opened.Form != door.Webhook {
		_, err := fmt.Fprintln(t.Out, "the sender may send; its events are those in the request")
		return err
	}
	if answer := opened.Challenge(request); answer != nil {
		_, err := fmt.Fprintf(t.Out, "no event: it is answered with %q\n", answer)
		return err
	}
	ev, drop, err := opened.Event(request, &verified, now)
	switch {
	case err != nil:
		return exit.Errorf(exit.Refused, "no event: %w", err)
	case drop:
		_, err := fmt.Fprintln(t.Out, "no event: spec.webhook.event.drop is true, and the answer is 204")
		return err
	}
	return t.show(ev)
}

// placeholder is a key of the form that a scheme wants.
func placeholder(spec *rousev1alpha1.Door) string {
	if spec.Spec.Webhook != nil && spec.Spec.Webhook.Scheme == rousev1alpha1.SchemeStandardWebhooks {
		return "whsec_" + strings.Repeat("A", 32)
	}
	return strings.Repeat("x", 32)
}

func (t *doorTest) show(ev *cloudevent.Event) error {
	if t.format.Chosen == output.JSON {
		_, err := fmt.Fprintf(t.Out, "%s\n", ev.AppendStructured(nil))
		return err
	}
	for _, each := range []struct{ name, value string }{
		{"id", ev.ID},
		{"source", ev.Source},
		{"type", ev.Type},
		{"subject", ev.Subject},
		{"time", ev.Time},
		{"datacontenttype", ev.DataContentType},
		{door.ExtensionDoor, ev.Extension(door.ExtensionDoor)},
	} {
		if each.value == "" {
			continue
		}
		if _, err := fmt.Fprintf(t.Out, "%-16s %s\n", each.name, each.value); err != nil {
			return fmt.Errorf("write the event: %w", err)
		}
	}
	_, err := fmt.Fprintf(t.Out, "\n%s\n", bytes.TrimRight(ev.Data, "\n"))
	return err
}

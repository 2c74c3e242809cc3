package target

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/internal/kedarules"
)

// maxLine bounds a line of a log.
const maxLine = 4 << 20

// allLines is more than a local mode holds.
const allLines = 100_000

// local is the Target of a local mode.
type local struct {
	instance instance.Instance
	client   *http.Client
}

func newLocal(i instance.Instance) *local {
	return &local{instance: i, client: &http.Client{Transport: &http.Transport{Proxy: nil}}}
}

// Publish implements Target.
func (l *local) Publish(context.Context) (string, error) { return l.instance.Publish, nil }

// Admins implements Target.
func (l *local) Admins(context.Context) ([]Admin, error) {
	return []Admin{{URL: strings.TrimSuffix(l.instance.Admin, "/"), Token: l.instance.Token}}, nil
}

// Functions implements Inventory.
func (l *local) Functions(ctx context.Context, namespace string) ([]Function, error) {
	var answer struct {
		Functions []Function `json:"functions"`
	}
	if err := l.read(ctx, "/v1/functions", &answer); err != nil {
		return nil, err
	}
	functions := slices.DeleteFunc(answer.Functions, func(f Function) bool { return namespace != "" && f.Namespace != namespace })
	slices.SortFunc(functions, byName)
	return functions, nil
}

// Exposed implements Inventory. It returns nothing when the list fails.
func (l *local) Exposed(ctx context.Context, namespace string) map[types.NamespacedName][]string {
	functions, err := l.Functions(ctx, namespace)
	if err != nil {
		return nil
	}
	exposed := map[types.NamespacedName][]string{}
	for _, f := range functions {
		exposed[types.NamespacedName{Namespace: f.Namespace, Name: f.Name}] = f.Exposed
	}
	return exposed
}

// Scaling implements Inventory.
func (l *local) Scaling(ctx context.Context, namespace, name string) (*kedarules.Status, error) {
	var answer struct {
		Functions []struct {
			Namespace string            `json:"namespace"`
			Name      string            `json:"name"`
			Scaling   *kedarules.Status `json:"scaling"`
		} `json:"functions"`
	}
	err := l.read(ctx, "/v1/functions", &answer)
	for _, f := range answer.Functions {
		if f.Namespace == namespace && f.Name == name {
			return f.Scaling, err
		}
	}
	return nil, err
}

// Subscriptions implements Inventory.
func (l *local) Subscriptions(ctx context.Context, namespace string) ([]Subscription, error) {
	var answer struct {
		Subscriptions []Subscription `json:"subscriptions"`
	}
	if err := l.read(ctx, "/v1/subscriptions", &answer); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(answer.Subscriptions, func(s Subscription) bool { return namespace != "" && s.Namespace != namespace }), nil
}

// Namespaces implements Inventory.
func (l *local) Namespaces(ctx context.Context) ([]string, error) {
	functions, err := l.Functions(ctx, "")
	if err != nil {
		return nil, err
	}
	subscriptions, err := l.Subscriptions(ctx, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range functions {
		names = append(names, f.Namespace)
	}
	for _, s := range subscriptions {
		names = append(names, s.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// maxPublished exceeds the events that a local mode remembers, as JSON.
const maxPublished = 64 << 20

// Published returns an array of events that were published, in structured JSON: those with one of the ids, or all without ids, of a type
// whose end may be a *. Only a local mode remembers events that were delivered.
func (c *Connection) Published(ctx context.Context, ids []string, eventType string) ([]byte, error) {
	l, ok := c.Target.(*local)
	if !ok {
		return nil, exit.Errorf(exit.Usage,
			"%s keeps no events that were delivered: name a file with --from, or give a dead letter back with rouse dlq redrive", c.Name)
	}
	query := url.Values{"id": ids}
	if eventType != "" {
		query.Set("type", eventType)
	}
	body, err := l.get(ctx, "/v1/events", query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(io.LimitReader(body, maxPublished))
	if err != nil {
		return nil, fmt.Errorf("read the events of %s: %w", c.Name, err)
	}
	return content, nil
}

// read gets a JSON object from the control API.
func (l *local) read(ctx context.Context, path string, into any) error {
	body, err := l.get(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("read the response of the local mode: %w", err)
	}
	return nil
}

func byName(a, b Function) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Function implements Target. The Function's own port wakes it.
func (l *local) Function(ctx context.Context, namespace, name string) (string, error) {
	found, err := l.find(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	if found.URL == "" {
		return "", exit.Errorf(exit.Failed, "Function %s/%s does not run: %s", found.Namespace, found.Name, cmp.Or(found.LastError, found.Phase))
	}
	return found.URL, nil
}

// Log implements Target.
func (l *local) Log(ctx context.Context, namespace, name string, o LogOptions, handle func(Line)) error {
	if name == "" {
		return l.logAll(ctx, namespace, o, handle)
	}
	found, err := l.find(ctx, namespace, name)
	if err != nil {
		return err
	}
	tail := o.Tail
	if tail < 0 {
		tail = allLines
	}
	query := url.Values{"follow": {strconv.FormatBool(o.Follow)}, "tail": {strconv.Itoa(tail)}}
	body, err := l.get(ctx, "/v1/functions/"+url.PathEscape(found.Namespace)+"/"+url.PathEscape(found.Name)+"/log", query)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	var oldest time.Time
	if o.Since > 0 {
		oldest = time.Now().Add(-o.Since)
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // a heartbeat
		}
		var line Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("read the log of %s/%s: %w", found.Namespace, found.Name, err)
		}
		if !line.Time.Before(oldest) {
			handle(line)
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return exit.Errorf(exit.Unreachable, "the local mode of %s is gone: %w", l.instance.Directory, err)
	}
	return ctx.Err()
}

// Close implements Target.
func (l *local) Close() error {
	l.client.CloseIdleConnections()
	return nil
}

// find returns a Function. It searches all namespaces when none is named.
func (l *local) find(ctx context.Context, namespace, name string) (Function, error) {
	all, err := l.Functions(ctx, "")
	if err != nil {
		return Function{}, err
	}
	return choose(all, namespace, name, l.instance.Namespace)
}

// choose returns the Function with the name. Of several in different namespaces it prefers the usual namespace.
func choose(all []Function, namespace, name, usual string) (Function, error) {
	var fits []Function
	var names, namespaces []string
	for _, f := range all {
		names = append(names, f.Namespace+"/"+f.Name)
		if f.Name == name && (namespace == "" || f.Namespace == namespace) {
			fits, namespaces = append(fits, f), append(namespaces, f.Namespace)
		}
	}
	if len(fits) > 1 {
		if i := slices.Index(namespaces, usual); i >= 0 {
			return fits[i], nil
		}
		return Function{}, exit.Errorf(exit.Usage, "there is a Function %s in the namespaces %s: choose one with -n", name, strings.Join(namespaces, ", "))
	}
	if len(fits) == 1 {
		return fits[0], nil
	}
	text := "there is no Function " + name
	if namespace != "" {
		text += " in namespace " + namespace
	}
	if len(names) == 0 {
		return Function{}, exit.Errorf(exit.NotFound, "%s, nor any other", text)
	}
	return Function{}, exit.Errorf(exit.NotFound, "%s; there are %s", text, strings.Join(names, ", "))
}

// get sends a request to the control API.
func (l *local) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	control := Admin{URL: l.instance.Control, Token: l.instance.Token}
	response, err := control.Ask(ctx, l.client, http.MethodGet, path, query, http.NoBody)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, exit.Errorf(exit.Unreachable, "the local mode of %s does not answer: %w; look at its terminal", l.instance.Directory, err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // optional: the status suffices
	code := exit.Failed
	if response.StatusCode == http.StatusNotFound {
		code = exit.NotFound
	}
	message := strings.TrimSpace(string(text))
	var failure struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &failure) == nil && failure.Error != "" {
		message = failure.Error
	}
	return nil, exit.Errorf(code, "the local mode answers %d: %s", response.StatusCode, message)
}

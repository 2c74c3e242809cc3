package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
)

func (c *change) edits() bool { return c.edit || c.data != "" }

// redriveEdited gives a dead letter back with other data.
func (c *change) redriveEdited(ctx context.Context, conn *target.Connection, sequence uint64) error {
	namespace, err := c.namespaceOf(conn, c.everywhere)
	if err != nil {
		return err
	}
	client, err := bridgeOf(ctx, conn)
	if err != nil {
		return err
	}
	deadLetter, err := client.DeadLetter(ctx, namespace, sequence)
	if err != nil {
		return err
	}
	data, err := c.newData(ctx, &deadLetter)
	if err != nil {
		return err
	}
	done, err := client.RedriveEdited(ctx, namespace, sequence, data)
	if err != nil {
		return err
	}
	c.endProgress()
	return c.printOutcome(done, c.among(conn, target.Selection{Namespace: deadLetter.Namespace, Subscription: deadLetter.Subscription}))
}

// newData returns the data of the flag, or those that the user has edited.
func (c *change) newData(ctx context.Context, deadLetter *target.DeadLetter) (json.RawMessage, error) {
	var event struct {
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(deadLetter.Event, &event) != nil || len(event.Data) == 0 {
		return nil, exit.Errorf(exit.Failed, "dead letter %d has no data in JSON that could be edited", deadLetter.Sequence)
	}
	if c.data == "" {
		c.endProgress()
		return c.edited(ctx, event.Data)
	}
	data, err := c.readData(c.data)
	if err == nil && !json.Valid(data) {
		err = exit.Errorf(exit.Usage, "--data: the data are malformed JSON")
	}
	return data, err
}

// ownerOnly is the mode of a file with the data of an event.
const ownerOnly = 0o600

// edited has the user edit data in a file. The file stays when it is no JSON, so that the work is not lost.
func (c *change) edited(ctx context.Context, data json.RawMessage) (json.RawMessage, error) {
	before := indented(data)
	file, err := os.CreateTemp("", "rouse-deadletter-*.json")
	if err != nil {
		return nil, fmt.Errorf("edit the data: %w", err)
	}
	_ = file.Close() // nothing was written
	if err := os.WriteFile(file.Name(), before, ownerOnly); err != nil {
		return nil, fmt.Errorf("edit the data: %w", err)
	}
	if err := c.runEditor(ctx, file.Name()); err != nil {
		_ = os.Remove(file.Name()) // the dead letter has the same data
		return nil, err
	}
	after, err := os.ReadFile(file.Name())
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the edited data: %w", err)
	case !json.Valid(after):
		return nil, exit.Errorf(exit.Failed, "the edited data are malformed JSON, and nothing was done: correct %s, and redrive with --data @%s",
			file.Name(), file.Name())
	}
	_ = os.Remove(file.Name()) // the data are read
	if bytes.Equal(before, after) {
		return nil, exit.Errorf(exit.Failed, "nothing was changed, and nothing was done: redrive it without --edit")
	}
	return bytes.TrimSpace(after), nil
}

func indented(data []byte) []byte {
	var text bytes.Buffer
	if json.Indent(&text, data, "", "  ") != nil {
		return data
	}
	return append(text.Bytes(), '\n')
}

// runEditor runs the user's editor, which may have arguments.
func (c *change) runEditor(ctx context.Context, file string) error {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	command := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "rouse", file) //nolint:gosec // the user names the editor
	command.Stdin, command.Stdout, command.Stderr = c.In, c.Out, c.Err
	if err := command.Run(); err != nil {
		return exit.Errorf(exit.Failed, "the editor %s ended with an error, and nothing was done: %w", editor, err)
	}
	return nil
}
